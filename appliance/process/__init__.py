"""A process of ours as its operator meets it: log lines, signals, exit codes, numbers in words.

Broker, commands and clients have it in common. Nothing in here knows the broker; a module belongs
in here only if a process without one needs it too.
"""

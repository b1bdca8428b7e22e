"""A process as its operator sees it: log lines, signals, exit codes, numbers in words.

Broker, commands and clients share it. Nothing here knows the broker; a module belongs here only if
a process without a broker needs it too.
"""

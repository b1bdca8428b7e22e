"""Commands that ask a running broker, over its REST API: what the console does, a command does too.

rest      one request: its answer, or why there is none
api       the same for commands: options, errors that say what to do, exit codes
output    tables for people, JSON for programs
topic, group, messages, broker   the commands
"""

"""Commands that ask a running broker over its REST API. They do what the console does.

rest      one request: its answer, or the reason why there is none
api       the same for commands: options, errors with advice, exit codes
output    tables for people, JSON for programs
topic, group, messages, broker   the commands
"""

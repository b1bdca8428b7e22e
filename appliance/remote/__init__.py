"""Commands that ask a running broker, over its REST API: what the console does, a command does too.

api       the connection: address, token, errors, exit codes
output    tables for people, JSON for programs
topic, group, messages, broker   the commands
"""

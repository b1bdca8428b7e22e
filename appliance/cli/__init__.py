"""The `appliance` command: `main` has its table, a module per group of commands.

`remote/` asks a running broker over REST; the others work on the files of a stopped one.
"""

"""A data directory as Python sees it: open (`log_dir`), or of a stopped broker (`log_files`).

Here is what a start found, what was promised to be durable, and how the control plane writes to a
log and waits at one. Nothing in here knows topics, only directories and logs.
"""

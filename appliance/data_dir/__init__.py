"""Data directories for Python: open ones (`log_dirs`, of which each is a `log_dir`), or one of a
stopped broker (`log_files`).

This room has the findings of a start, the promises of durability, and the control plane's writes to
logs and waits for them. It knows directories and logs, and no topics.
"""

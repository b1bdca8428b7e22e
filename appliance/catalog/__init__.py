"""What the broker knows beside its logs, in one SQLite database, and the ledger of losses in it.

Rows only: what they mean is decided by their owners above, in `topics/`, `access/` and `export/`.
"""

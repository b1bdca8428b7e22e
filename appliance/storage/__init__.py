"""One data directory's logs, compiled: segments, indexes, the journal, group commit, recovery.

Files live here and nowhere else. All of it runs without the GIL; Python reaches it through
`appliance._log`, whose classes begin in `_data_directory` and `_log_description`. Compaction has a
room of its own, `compaction/`.
"""

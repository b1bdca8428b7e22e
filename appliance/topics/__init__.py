"""Topics and their partitions: names and limits, directories on disk, and the broker's own topics.

`reconciliation` makes them agree with the disk at the start, `reopening` while the broker runs.
"""

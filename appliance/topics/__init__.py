"""Topics and their partitions: names and limits, directories on disk, and the broker's own topics.

`topics` has them all and changes them; `topic_rows` are theirs in the catalog.
`reconciliation` makes them agree with the disk at the start, `reopening` while the broker runs.
"""

"""Share groups (KIP-932): consumers that share partitions, record by record, as a queue.

group           one group: its members, and who reads which partition; no clock, no I/O
group_records   the bytes of it in `__consumer_offsets`
assignor        who reads what: each partition has as many members as every other
coordinator     the owner of all share groups: time, disk, and what handlers ask
"""

"""Share groups (KIP-932): consumers that share partitions, record by record, as a queue.

group             one group: its members, and who reads which partition; no clock, no I/O
assignor          who reads what: each partition has as many members as every other
coordinator       the owner of all share groups: time, disk, and what handlers ask

partition         what became of the records of one partition; no clock, no I/O
runs              offsets of one state side by side, which is how that is kept
acquisition       one member's turn to acquire
states            what a record can be, and what its reader may say of it
session           which partitions a member fetches
state_log         the bytes of it in `__share_group_state`, and their way back
state_store       when they are written, and deleted
state_coordinator in a cluster: the states that stand here
led_states        in a cluster: those of the share partitions that are led here
partition_states  where groups are: made, set anew, deleted
served_partition  a share partition in service: who reads its log, who waits
served_partitions all of them: their locks, and changes on their way to the disk
fetch_waits       those whose fetches wait for their logs
fetching          one fetch: looking, waiting, acquiring
reading           what it reads of a log
partitions        the owner of all share partitions: fetches, acknowledgements, sessions
"""

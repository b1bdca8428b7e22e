"""Classic consumer groups and committed offsets.

states       the state machine, as tables
group        one group: members, generations, rebalances; no clock, no I/O
offsets      what groups committed, also within transactions that are still open
coordinator  the owner of all groups: time, disk, and what handlers ask

Below them: `member`, who is in a group; `records`, the bytes in `__consumer_offsets`, and `replay`,
their way back; `subscription`, what consumers read.
"""

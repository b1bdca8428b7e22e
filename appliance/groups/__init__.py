"""Consumer groups of both protocols, and committed offsets.

states          the state machine, as tables
group           one group: generations, rebalances; no clock, no I/O. `joins` is how members enter
                it, `members` who they are, `classic_timeouts` puts out who is silent
consumer_group  one group of the newer protocol (KIP-848), which gives out the partitions itself:
                `assignors` for all of them, `handover` step by step for each member
partitions_group what that and a share group (`appliance/share`) have in common
modern_group    what those and a group of Kafka Streams have in common
mixed_group     the same while it also has members of the older protocol: it is being upgraded,
                or on its way back
offsets         what groups committed, also within transactions that are still open
lag             how far each is behind; `subscribed_partitions` has what counts without a commit

coordinator     the owner of all groups, and what it is made of: `group_table` has them all,
                `availability` says which are served, `offsets_topic_loading` reads them at a
                start, and in a cluster when this broker is elected for their partition
                `classic_membership` and `consumer_membership` let members in, by protocol
                `offset_commits` and `offset_expiry` change offsets
                `group_config_overrides` has what was set for a group
                `group_memory` counts what all of that keeps, `offsets_topic` writes it

Below them: `member`, what is asked and answered, and one member; `records`, `consumer_records`
and `share_records`, the bytes in `__consumer_offsets`, and `offsets_topic_replay`, their way back;
`consumer_protocol` and `topic_pattern`, what consumers read.
"""

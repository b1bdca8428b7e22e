"""Fetch 4-18: the record batches of partitions from an offset on, as they are stored.

The data plane answers every Fetch (`appliance/network/_fetch.pyx`), with sessions, long polls and
sendfile; there is no handler here. The first batch is returned whole, however large it is; of later
partitions, a batch that does not fit is left for the next fetch. For read_committed the aborted
transactions in the range are listed.

A fetch with a replica id is a follower's. It reads to the end of the log, and its offsets say what
the follower has on disk. Its leader epoch and its broker epoch must be the ones of the last
election and of its last registration (FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
STALE_BROKER_EPOCH); a broker that has no replica gets UNKNOWN_LEADER_EPOCH. Where its log parts
from the leader's the answer says from where on (DivergingEpoch). A partition that another broker
leads gets NOT_LEADER_OR_FOLLOWER, with that leader from version 12 on.

A consumer that names its rack is sent by a leader to a follower there (PreferredReadReplica), with
replica.selector.class, and a follower serves it up to the high watermark; what may be on its way
there gets OFFSET_NOT_AVAILABLE.

Rights: READ on the topic; of a follower CLUSTER_ACTION on the cluster.

Left out: addresses of leaders (NodeEndpoints), for which clients ask the metadata; down-conversion
to record formats before 2, as in Kafka 4.
"""

KEY = 1
VERSIONS = (4, 18)

"""Fetch 4-18: the record batches of partitions from an offset on, as they are stored.

The data plane answers every Fetch (`appliance/network/_fetch.pyx`), with sessions, long polls and
sendfile; there is no handler here. The first batch is returned whole, however large it is; of later
partitions, a batch that does not fit is left for the next fetch. For read_committed the aborted
transactions in the range are listed.

Rights: READ on the topic.

Left out: requests of followers (replica fields are ignored); preferred replicas, because there is
one broker; down-conversion to record formats before 2, as in Kafka 4.
"""

KEY = 1
VERSIONS = (4, 18)

"""Results of the compiled core: zero or a count is success, a negative code is a stated fact.

`errors.py` maps each code to one exception; the data plane maps each to one Kafka error code.
"""

cdef enum Code:
    OK = 0

    # the peer's data
    BATCH_TORN = -1                # fewer bytes than the header claims, or than a header needs
    BATCH_CORRUPT = -2             # CRC or structure: the bytes are not what the writer wrote
    BATCH_MAGIC = -3               # a record format this log does not hold: magic 0, 1, above 2
    BATCH_INVALID = -4             # intact, but against the rules: counts, deltas, flags, ...
    BATCH_TOO_LARGE = -5           # above max.message.bytes
    BATCH_CODEC = -6               # compression id 5 to 7
    BATCH_TIMESTAMP = -7           # outside message.timestamp.*.max.ms, or a flag not allowed
    BATCH_LARGER_THAN_SEGMENT = -8

    # idempotent and transactional producers
    SEQUENCE_OUT_OF_ORDER = -20
    PRODUCER_EPOCH_OLD = -22
    PRODUCER_UNKNOWN = -23
    TXN_STATE_INVALID = -24            # plain batch inside an open transaction, or the reverse
    TXN_COORDINATOR_FENCED = -25

    # the log
    OFFSET_OUT_OF_RANGE = -40
    OFFSET_IN_HOLE = -41           # the range was set aside as damaged
    LEADER_EPOCH_OLD = -42
    LOG_CLOSED = -43
    LOG_FAILED = -44               # a sync failed: nothing more is acknowledged
    TIMED_OUT = -45
    LOG_MIRRORED = -46             # written by a mirror alone
    NOT_LEADER = -47               # another broker leads the partition, or nobody
    LEADER_EPOCH_UNKNOWN = -48     # of an election that was not heard of here
    REPLICA_LIFE_OLD = -49         # of a broker that has registered anew since
    REPLICA_UNKNOWN = -50          # no replica of the partition
    REPLICAS_TOO_FEW = -51         # fewer in sync than min.insync.replicas

    # the machine
    STORAGE_FULL = -60             # ENOSPC, EDQUOT, or below the reserve: retriable
    STORAGE_IO = -61               # EIO and whatever else is not in this list
    FILES_EXHAUSTED = -62          # EMFILE, ENFILE: retriable
    WOULD_WAIT = -63               # for the disk, on a thread that may not: stays in the core
    STORAGE_FULL_LATE = -64        # ENOSPC, EDQUOT at a sync: what was written before is lost

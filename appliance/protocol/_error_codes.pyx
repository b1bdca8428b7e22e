"""The data plane's side of `errors.py`; a test compares the two."""

from libc.stdint cimport int16_t

from appliance.native._codes cimport (
    BATCH_CODEC, BATCH_CORRUPT, BATCH_INVALID, BATCH_LARGER_THAN_SEGMENT, BATCH_MAGIC,
    BATCH_TIMESTAMP, BATCH_TOO_LARGE, BATCH_TORN, FILES_EXHAUSTED, LEADER_EPOCH_OLD,
    LEADER_EPOCH_UNKNOWN, LOG_CLOSED, LOG_FAILED, LOG_MIRRORED, NOT_LEADER, OFFSET_IN_HOLE,
    OFFSET_OUT_OF_RANGE, PRODUCER_EPOCH_OLD, PRODUCER_UNKNOWN, REPLICA_LIFE_OLD, REPLICA_UNKNOWN,
    REPLICAS_TOO_FEW, SEQUENCE_OUT_OF_ORDER, STORAGE_FULL, STORAGE_FULL_LATE, STORAGE_IO,
    TIMED_OUT, TXN_COORDINATOR_FENCED, TXN_STATE_INVALID, OK,
)

# ---- without the GIL ----

cdef int16_t kafka_error(int code) noexcept nogil:
    if code == OK:
        return 0
    if code in (BATCH_TORN, BATCH_CORRUPT, OFFSET_IN_HOLE):
        return 2
    if code == BATCH_MAGIC:
        return 43
    if code == BATCH_INVALID:
        return 87
    if code == BATCH_TOO_LARGE:
        return 10
    if code == BATCH_CODEC:
        return 76
    if code == BATCH_TIMESTAMP:
        return 32
    if code == BATCH_LARGER_THAN_SEGMENT:
        return 18
    if code == SEQUENCE_OUT_OF_ORDER:
        return 45
    if code == PRODUCER_EPOCH_OLD:
        return 47
    if code == PRODUCER_UNKNOWN:
        return 59
    if code == TXN_STATE_INVALID:
        return 48
    if code == TXN_COORDINATOR_FENCED:
        return 52
    if code == OFFSET_OUT_OF_RANGE:
        return 1
    if code == LEADER_EPOCH_OLD:
        return 74
    if code in (LOG_CLOSED, NOT_LEADER, REPLICA_UNKNOWN):
        return 6
    if code == LEADER_EPOCH_UNKNOWN:
        return 75
    if code == REPLICA_LIFE_OLD:
        return 77
    if code == REPLICAS_TOO_FEW:
        return 19
    if code in (LOG_FAILED, STORAGE_FULL, STORAGE_FULL_LATE, STORAGE_IO, FILES_EXHAUSTED):
        return 56
    if code == TIMED_OUT:
        return 7
    if code == LOG_MIRRORED:
        return 44
    return -1


cdef const char* kafka_message(int code) noexcept nogil:
    if code == BATCH_TORN:
        return b"the record batch is shorter than its header claims"
    if code == BATCH_CORRUPT:
        return b"the record batch does not match its checksum or structure"
    if code == BATCH_MAGIC:
        return b"only record batches of format 2 are stored here"
    if code == BATCH_INVALID:
        return b"the record batch breaks a rule of its topic or format"
    if code == BATCH_TOO_LARGE:
        return b"the record batch is larger than max.message.bytes"
    if code == BATCH_CODEC:
        return b"the compression codec is unknown"
    if code == BATCH_TIMESTAMP:
        return b"a timestamp is outside the topic's limits"
    if code == BATCH_LARGER_THAN_SEGMENT:
        return b"the record batch is larger than segment.bytes"
    if code == SEQUENCE_OUT_OF_ORDER:
        return b"the sequence number does not follow the last one"
    if code == PRODUCER_EPOCH_OLD:
        return b"a newer producer has taken over this producer id"
    if code == PRODUCER_UNKNOWN:
        return b"the producer id is unknown"
    if code == TXN_STATE_INVALID:
        return b"the batch does not fit the state of the transaction"
    if code == TXN_COORDINATOR_FENCED:
        return b"a newer transaction coordinator has taken over"
    if code == OFFSET_OUT_OF_RANGE:
        return b"the offset is outside the log"
    if code == OFFSET_IN_HOLE:
        return b"the records at this offset were set aside as damaged"
    if code == LEADER_EPOCH_OLD:
        return b"the leader epoch is older than the log's"
    if code == LOG_CLOSED:
        return b"the partition is being closed"
    if code == NOT_LEADER:
        return b"this broker does not lead the partition"
    if code == LEADER_EPOCH_UNKNOWN:
        return b"the leader epoch is later than this broker knows of"
    if code == REPLICA_LIFE_OLD:
        return b"the follower has registered anew since"
    if code == REPLICA_UNKNOWN:
        return b"the follower is no replica of the partition"
    if code == REPLICAS_TOO_FEW:
        return b"fewer replicas are in sync than min.insync.replicas"
    if code == LOG_FAILED:
        return b"the partition failed at the disk and refuses writes until it is reopened"
    if code == TIMED_OUT:
        return b"the data was not on disk in time"
    if code == LOG_MIRRORED:
        return b"the topic has mirror.source: only a mirror may write to it"
    if code == STORAGE_FULL:
        return b"the disk is full: writes resume when space is freed"
    if code == STORAGE_FULL_LATE:
        return b"the disk is full: what was written last is lost"
    if code == STORAGE_IO:
        return b"the disk reported an error"
    if code == FILES_EXHAUSTED:
        return b"no file descriptor is free"
    return b""


# ---- with the GIL ----

def kafka_code(int code):
    """The error code and text for a code of the core."""
    return kafka_error(code)

"""ListOffsets v1-11, as far as it asks where partitions begin (-2) and end (-1).

It is not rare: Spark's Kafka connector asks both before every 500 records that it reads, and waits
for each answer. Passed to the control plane, these questions took longer than the records.

Answered while the request is read. Whatever is not simple is left to the control plane, which knows
each error (`api/handlers/list_offsets.py`): other times, unknown topics and partitions, another
leader epoch, a topic that its client is not known to have the right to, an end that a commit would
move, a partition that is named twice, and what comes behind a request that the control plane has
not answered: it may be about to delete records.

Of a log with replicas the end is the high watermark, whatever was appended beyond it: nobody waits
here for the others' disks, as nobody does in Kafka, and for this one as on one box. A new leader
knows it only when its followers have reported: until it has reached the start of the leader's epoch
nobody is told an end, because what was told before may have been beyond.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t
from libcpp.vector cimport vector

from appliance.native._bytes cimport Cursor
from appliance.network._connection cimport Connection, Slot, answer_begin, slot_at, slot_ready
from appliance.network._dispatch cimport HANDLED, PUNTED
from appliance.network._rights cimport RIGHT_DESCRIBE, VERDICT_ALLOWED, rights_of
from appliance.network._topic_table cimport (
    NOT_LEADER_OR_FOLLOWER, TopicRef, topic_leader, topic_log, topics_find,
)
from appliance.protocol._frame cimport (
    Piece, put_count, put_i16, put_i32, put_i64, put_string, put_tags, read_count, read_i8,
    read_i32, read_i64, read_string, skip_tags,
)
from appliance.storage._last_stable_offset cimport log_high_watermark, log_last_stable_offset
from appliance.storage._leader_epochs cimport epochs_at
from appliance.storage._partition_log cimport PartitionLog
from appliance.storage._replicas cimport ROLE_ALONE, ROLE_LEADER

cdef enum:
    FIRST_FLEXIBLE = 6
    LEADER_NOT_AVAILABLE = 5
    OFFSET_NOT_AVAILABLE = 78
    FIRST_WITH_NOT_AVAILABLE = 5   # before, the other one
    LATEST = -1
    EARLIEST = -2
    READ_COMMITTED = 1
    # Each is compared with all before it. Consumers ask for one, or for those of a topic.
    PARTITIONS_MAX = 32

cdef cppclass Asked:
    int version
    bint is_flexible
    bint is_committed
    vector[PartitionLog*] logs     # that were answered; only compared


# ---- without the GIL ----

cdef int list_offsets(Connection* connection, int64_t slot_number, int version, int correlation_id,
                      const Cursor* given) noexcept nogil:
    cdef Slot* slot = slot_at(connection, slot_number)
    cdef Cursor cursor = given[0]  # `given` still stands at the beginning if it is passed on
    cdef Asked asked
    if connection.passed > 0:
        return PUNTED
    asked.version = version
    asked.is_flexible = version >= FIRST_FLEXIBLE
    answer_begin(&slot.answer, correlation_id, asked.is_flexible)
    if not _answer(connection, &asked, &cursor, &slot.answer.bytes):
        slot.answer.bytes.clear()
        return PUNTED
    slot_ready(connection, slot)
    return HANDLED


cdef bint _answer(Connection* connection, Asked* asked, Cursor* cursor,
                  vector[uint8_t]* out) noexcept nogil:
    cdef int64_t topics
    cdef int8_t isolation = 0
    read_i32(cursor)  # replica id: there are no replicas
    if asked.version >= 2:
        isolation = read_i8(cursor)
        put_i32(out, 0)  # throttle time
    asked.is_committed = isolation == READ_COMMITTED
    topics = read_count(cursor, asked.is_flexible)
    if topics < 0:
        return False
    put_count(out, topics, asked.is_flexible)
    while topics > 0:
        topics -= 1
        if not _topic(connection, asked, cursor, out):
            return False
    if asked.version >= 10:
        read_i32(cursor)  # timeout: nothing here waits
    skip_tags(cursor, asked.is_flexible)
    put_tags(out, asked.is_flexible)
    return not cursor.failed and cursor.at == cursor.end


cdef bint _topic(Connection* connection, Asked* asked, Cursor* cursor,
                 vector[uint8_t]* out) noexcept nogil:
    cdef Piece name = read_string(cursor, asked.is_flexible)
    cdef int64_t partitions = read_count(cursor, asked.is_flexible)
    cdef int64_t generation = connection.plane.rights.generation.load()
    cdef TopicRef topic
    if cursor.failed or name.size < 0 or partitions < 0:
        return False
    topic = topics_find(&connection.plane.topics, name, False)
    if generation != 0 and rights_of(
            &connection.plane.rights, &connection.rights, connection.peer, topic.get().name,
            topic.get().serial, RIGHT_DESCRIBE, generation) != VERDICT_ALLOWED:
        return False
    put_string(out, <const char*>name.data, name.size, asked.is_flexible)
    put_count(out, partitions, asked.is_flexible)
    while partitions > 0:
        partitions -= 1
        if not _partition(asked, topic, cursor, out):
            return False
    skip_tags(cursor, asked.is_flexible)
    put_tags(out, asked.is_flexible)
    return True


cdef bint _partition(Asked* asked, const TopicRef& topic, Cursor* cursor,
                     vector[uint8_t]* out) noexcept nogil:
    cdef int32_t number = read_i32(cursor)
    cdef int32_t epoch = read_i32(cursor) if asked.version >= 4 else -1
    cdef int64_t time = read_i64(cursor)
    cdef int64_t offset
    cdef PartitionLog* log = topic_log(topic, number).get()
    skip_tags(cursor, asked.is_flexible)
    if cursor.failed:
        return False
    if log == NULL and topic_leader(topic, number, topic_log(topic, number)).epoch >= 0:
        _put(asked, out, number, NOT_LEADER_OR_FOLLOWER, -1, -1)
        return True
    if log == NULL or log.is_closed.load() or not _is_new(asked, log):
        return False
    if log.role.load() != ROLE_ALONE:
        return _partition_of_several(asked, log, number, epoch, time, out)
    if epoch != -1 and epoch != log.leader_epoch.load():
        return False
    if time == EARLIEST:
        offset = log.log_start_offset.load()
    elif time == LATEST:
        # First whether all is visible: what was acknowledged before this request has to count.
        if log_high_watermark(log) < log.log_end_offset.load():
            return False
        offset = log_last_stable_offset(log) if asked.is_committed else log_high_watermark(log)
    else:
        return False
    _put(asked, out, number, 0, offset, epochs_at(log, offset) if asked.version >= 4 else -1)
    return True


cdef bint _partition_of_several(Asked* asked, PartitionLog* log, int32_t number, int32_t epoch,
                                int64_t time, vector[uint8_t]* out) noexcept nogil:
    """Of a log that has replicas. Searches by time are the control plane's here, too."""
    cdef int64_t offset
    if log.role.load() != ROLE_LEADER:
        _put(asked, out, number, NOT_LEADER_OR_FOLLOWER, -1, -1)
        return True
    if epoch != -1 and epoch != log.replicas.epoch.load():
        return False
    if time == EARLIEST:
        offset = log.log_start_offset.load()
    elif time != LATEST or _may_move(log):
        return False
    elif log_high_watermark(log) < log.replicas.start.load():
        _put(asked, out, number, OFFSET_NOT_AVAILABLE if (
            asked.version >= FIRST_WITH_NOT_AVAILABLE) else LEADER_NOT_AVAILABLE, -1, -1)
        return True
    else:
        offset = log_last_stable_offset(log) if asked.is_committed else log_high_watermark(log)
    _put(asked, out, number, 0, offset, epochs_at(log, offset) if asked.version >= 4 else -1)
    return True


cdef bint _may_move(PartitionLog* log) noexcept nogil:
    """A commit on this disk would move the watermark, if the other replicas have it all."""
    cdef int64_t end = log.log_end_offset.load()
    return log_high_watermark(log) < end and log.durable_offset.load() < end


cdef void _put(const Asked* asked, vector[uint8_t]* out, int32_t number, int16_t error,
               int64_t offset, int32_t epoch) noexcept nogil:
    put_i32(out, number)
    put_i16(out, error)
    put_i64(out, -1)  # only a search by time tells one
    put_i64(out, offset)
    if asked.version >= 4:
        put_i32(out, epoch)
    put_tags(out, asked.is_flexible)


cdef bint _is_new(Asked* asked, PartitionLog* log) noexcept nogil:
    cdef size_t i
    if asked.logs.size() >= PARTITIONS_MAX:
        return False
    for i in range(asked.logs.size()):
        if asked.logs[i] == log:
            return False
    asked.logs.push_back(log)
    return True

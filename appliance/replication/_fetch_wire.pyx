"""Bytes of a follower's Fetch.

    size  key=1 version=17 correlation client tags
    wait_ms min_bytes max_bytes isolation session session_epoch
    topics    (id partitions(number leader_epoch offset last_epoch log_start max_bytes tags) tags)
    forgotten (id partitions(number) tags)
    rack tags(1: node life tags)

Version 17 is the first that has all of it; 18 would tell the leader a watermark, by which it could
answer sooner to a follower that knows an older one.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.vector cimport vector

from appliance.native._bytes cimport store_i32
from appliance.protocol._frame cimport (
    put_count, put_i16, put_i32, put_i64, put_raw, put_string, put_tags, put_uvarint,
    read_bytes, read_count, read_i16, read_i32, read_i64, read_piece, read_uvarint, skip_tags,
)

cdef enum:
    FETCH_KEY = 1
    FETCH_VERSION = 17
    MIN_BYTES = 1
    REPLICA_STATE = 1              # a tag of the request
    REPLICA_STATE_SIZE = 13        # i32 node, i64 life, tags
    DIVERGING_EPOCH = 0            # tags of a partition in the answer
    CURRENT_LEADER = 1


# ---- without the GIL ----

cdef void fetch_put_request(vector[uint8_t]* out, const FetchRequest* request) noexcept nogil:
    out.clear()
    put_i32(out, 0)  # the length
    put_i16(out, FETCH_KEY)
    put_i16(out, FETCH_VERSION)
    put_i32(out, request.correlation_id)
    put_string(out, b"replica", 7, False)  # never a compact string: see RequestHeader
    put_tags(out, True)
    put_i32(out, request.wait_ms)
    put_i32(out, MIN_BYTES)
    put_i32(out, request.max_bytes)
    out.push_back(0)  # read_uncommitted
    put_i32(out, request.session_id)
    put_i32(out, request.session_epoch)
    _put_topics(out, request, &request.named, True)
    _put_topics(out, request, &request.forgotten, False)
    put_string(out, b"", 0, True)  # rack
    put_uvarint(out, 1)
    put_uvarint(out, REPLICA_STATE)
    put_uvarint(out, REPLICA_STATE_SIZE)
    put_i32(out, request.node)
    put_i64(out, request.life)
    put_tags(out, True)
    store_i32(out.data(), <int32_t>(out.size() - 4))


cdef void _put_topics(vector[uint8_t]* out, const FetchRequest* request,
                      const vector[Named]* partitions, bint is_named) noexcept nogil:
    cdef size_t at = 0, end, topics = 0, i
    for i in range(partitions.size()):
        topics += i == 0 or partitions.at(i).topic_id != partitions.at(i - 1).topic_id
    put_count(out, topics, True)
    while at < partitions.size():
        end = at + 1
        while end < partitions.size() and partitions.at(end).topic_id == partitions.at(at).topic_id:
            end += 1
        put_raw(out, partitions.at(at).topic_id.data(), TOPIC_ID_SIZE)
        put_count(out, end - at, True)
        while at < end:
            put_i32(out, partitions.at(at).partition)
            if is_named:
                _put_partition(out, request, &partitions.at(at))
            at += 1
        put_tags(out, True)


cdef void _put_partition(vector[uint8_t]* out, const FetchRequest* request,
                         const Named* named) noexcept nogil:
    put_i32(out, named.leader_epoch)
    put_i64(out, named.offset)
    put_i32(out, named.last_epoch)
    put_i64(out, named.log_start_offset)
    put_i32(out, request.partition_bytes)
    put_tags(out, True)


cdef AnswerHead fetch_read_head(Cursor* cursor) noexcept nogil:
    cdef AnswerHead head
    skip_tags(cursor, True)
    read_i32(cursor)  # throttle time: followers are not throttled
    head.error = read_i16(cursor)
    head.session_id = read_i32(cursor)
    head.topics = read_count(cursor, True)
    return head


cdef AnsweredTopic fetch_read_topic(Cursor* cursor) noexcept nogil:
    cdef AnsweredTopic topic
    topic.id = read_piece(cursor, TOPIC_ID_SIZE)
    topic.partitions = read_count(cursor, True)
    return topic


cdef void fetch_end_topic(Cursor* cursor) noexcept nogil:
    skip_tags(cursor, True)


cdef void fetch_read_partition(Cursor* cursor, Answered* into) noexcept nogil:
    cdef int64_t aborted
    into.partition = read_i32(cursor)
    into.error = read_i16(cursor)
    into.watermark = read_i64(cursor)
    read_i64(cursor)  # last stable offset
    into.log_start_offset = read_i64(cursor)
    aborted = read_count(cursor, True)  # none are told to who does not ask for committed records
    while aborted > 0 and not cursor.failed:
        aborted -= 1
        read_i64(cursor)
        read_i64(cursor)
        skip_tags(cursor, True)
    read_i32(cursor)  # preferred read replica
    into.records = read_bytes(cursor, True)
    _read_tags(cursor, into)


cdef void _read_tags(Cursor* cursor, Answered* into) noexcept nogil:
    cdef int64_t left = read_uvarint(cursor), tag
    cdef Piece value
    cdef Cursor field
    into.diverging_epoch = into.leader = into.leader_epoch = -1
    into.diverging_end = -1
    while left > 0 and not cursor.failed:
        left -= 1
        tag = read_uvarint(cursor)
        value = read_piece(cursor, read_uvarint(cursor))
        if cursor.failed:
            return
        field.at, field.end, field.failed = value.data, value.data + value.size, False
        if tag == DIVERGING_EPOCH:
            into.diverging_epoch = read_i32(&field)
            into.diverging_end = read_i64(&field)
        elif tag == CURRENT_LEADER:
            into.leader = read_i32(&field)
            into.leader_epoch = read_i32(&field)
        cursor.failed = field.failed

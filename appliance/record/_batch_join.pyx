"""Records of many batches become those of one: their deltas are counted from its first record.

Key, value and headers are copied as they stand. A timestamp stays what it was; where its delta
would wrap, which no broker takes from a producer, the batch is not joined.
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from appliance.native._bytes cimport Cursor, varint_size, write_varint
from appliance.native._codes cimport OK
from appliance.record._batch cimport (
    ATTRIBUTE_APPEND_TIME, ATTRIBUTE_CODEC, ATTRIBUTE_CONTROL, ATTRIBUTE_DELETE_HORIZON,
    BATCH_HEADER_SIZE, BatchHeader, batch_store_header,
)
from appliance.record._records cimport RecordView, record_read

cdef enum:
    NOT_JOINED = (ATTRIBUTE_APPEND_TIME | ATTRIBUTE_CODEC | ATTRIBUTE_CONTROL
                  | ATTRIBUTE_DELETE_HORIZON)


# ---- without the GIL ----

cdef void join_begin(Join* join, uint8_t* into, int64_t size) noexcept nogil:
    join.start = into
    join.at = into + BATCH_HEADER_SIZE
    join.end = into + size
    join.base_timestamp = join.max_timestamp = -1
    join.records = 0


cdef bint join_takes(const BatchHeader* header) noexcept nogil:
    if header.attributes & NOT_JOINED:
        return False
    return header.records_count > 0 and header.records_count == header.last_offset_delta + 1


cdef bint join_add(Join* join, const uint8_t* data, const BatchHeader* header) noexcept nogil:
    cdef uint8_t* at = join.at
    cdef Cursor cursor
    cdef RecordView record
    cdef int64_t timestamp, delta
    cdef int32_t i
    if header.records_count > INT32_MAX - join.records:
        return False
    if join.records == 0:
        join.base_timestamp, join.max_timestamp = header.base_timestamp, header.max_timestamp
    cursor.at, cursor.end, cursor.failed = data + BATCH_HEADER_SIZE, data + header.size, False
    for i in range(header.records_count):
        if record_read(&cursor, &record) != OK or record.offset_delta != i:
            return False
        timestamp = _sum(header.base_timestamp, record.timestamp_delta)
        delta = _sum(timestamp, -<uint64_t>join.base_timestamp)
        if (delta >= 0) != (timestamp >= join.base_timestamp):
            return False
        at = _put_record(at, join.end, &record, delta, join.records + i)
        if at == NULL:
            return False
    if cursor.at != cursor.end:
        return False
    join.at = at
    join.records += header.records_count
    join.max_timestamp = max(join.max_timestamp, header.max_timestamp)
    return True


cdef inline int64_t _sum(uint64_t one, uint64_t other) noexcept nogil:
    """Signed overflow would be undefined."""
    return <int64_t>(one + other)


cdef inline uint8_t* _put_record(uint8_t* at, const uint8_t* end, const RecordView* record,
                                 int64_t delta, int32_t offset_delta) noexcept nogil:
    """Where the next one goes; NULL when there is no room."""
    cdef const uint8_t* behind = record.offset_at
    cdef int64_t size, left
    while behind[0] & 0x80:
        behind += 1
    behind += 1
    left = record.end - behind
    size = 1 + varint_size(delta) + varint_size(offset_delta) + left
    if size + <int64_t>varint_size(size) > end - at:
        return NULL
    at = write_varint(at, size)
    at[0] = 0  # attributes
    at = write_varint(at + 1, delta)
    at = write_varint(at, offset_delta)
    memcpy(at, behind, left)
    return at + left


cdef int64_t join_end(Join* join) noexcept nogil:
    cdef BatchHeader header
    memset(&header, 0, sizeof(BatchHeader))
    header.size = join.at - join.start
    header.base_timestamp, header.max_timestamp = join.base_timestamp, join.max_timestamp
    header.producer_id = header.producer_epoch = header.base_sequence = -1
    header.records_count = join.records
    header.last_offset_delta = join.records - 1
    header.magic = 2
    batch_store_header(join.start, &header)
    return header.size

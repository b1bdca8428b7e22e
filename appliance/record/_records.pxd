"""Records, the part of a batch behind its header: reading, judging and writing them.

What a view points to is borrowed: it lives as long as the bytes under the cursor do.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.vector cimport vector

from appliance.native._bytes cimport Cursor, read_varint
from appliance.native._codes cimport BATCH_INVALID, OK

cdef enum:
    # one byte each: length, attributes, timestamp delta, offset delta, key, value, header count
    RECORD_SIZE_MIN = 7

cdef struct RecordView:
    const uint8_t* start           # of the record: its length varint
    const uint8_t* offset_at       # the offset delta, where what follows the timestamp begins
    const uint8_t* end
    const uint8_t* key             # meaningless when key_size is -1
    const uint8_t* value           # meaningless when value_size is -1
    const uint8_t* headers         # the first header; read them by header_next
    int64_t timestamp_delta
    int32_t offset_delta
    int32_t key_size               # -1: null
    int32_t value_size             # -1: null, a tombstone
    int32_t headers_count

cdef struct HeaderView:
    const uint8_t* key
    const uint8_t* value
    int32_t key_size
    int32_t value_size             # -1: null

# What a batch header claims of the records behind it.
cdef struct RecordsClaim:
    int64_t base_timestamp
    int32_t count
    int32_t last_offset_delta
    bint from_client               # offset deltas exactly 0, 1, 2...; else ascending, with gaps

# The next record, with every length in it checked, headers included; OK or BATCH_INVALID.
# The cursor stands behind the record afterwards. At the end of the bytes it is BATCH_INVALID:
# count the records.
cdef int record_next(Cursor* cursor, RecordView* record) noexcept nogil

# Passes the headers at the cursor, and says in `record` where and how many they are.
cdef void headers_pass(Cursor* cursor, RecordView* record) noexcept nogil


cdef inline int64_t short_varint(Cursor* cursor, int bits) noexcept nogil:
    """read_varint with a short cut: nearly every varint of a record is one byte."""
    cdef uint8_t byte
    if cursor.at < cursor.end and cursor.at[0] < 0x80:
        byte = cursor.at[0]
        cursor.at += 1
        return <int64_t>(byte >> 1) ^ -<int64_t>(byte & 1)
    return read_varint(cursor, bits)


cdef inline const uint8_t* sized_field(
    Cursor* cursor, int32_t size_min, int32_t* size
) noexcept nogil:
    """A length of at least `size_min` (-1: null is allowed) and the bytes that it counts."""
    cdef int64_t claimed = short_varint(cursor, 32)
    cdef const uint8_t* at = cursor.at
    size[0] = <int32_t>claimed
    if claimed < size_min or claimed > cursor.end - at:
        cursor.failed = True
    elif claimed > 0:
        cursor.at += claimed
    return at


cdef inline int record_read(Cursor* cursor, RecordView* record) noexcept nogil:
    """record_next itself, for those who read so many that a call for each is much."""
    cdef Cursor body
    cdef uint8_t attributes
    record.start = cursor.at
    cdef int64_t size = short_varint(cursor, 32)
    if cursor.failed or size < RECORD_SIZE_MIN - 1 or size > cursor.end - cursor.at:
        cursor.failed = True
        return BATCH_INVALID
    body.at, body.end, body.failed = cursor.at, cursor.at + size, False
    attributes = body.at[0]
    body.at += 1
    record.timestamp_delta = short_varint(&body, 64)
    record.offset_at = body.at
    record.offset_delta = <int32_t>short_varint(&body, 32)
    record.key = sized_field(&body, -1, &record.key_size)
    record.value = sized_field(&body, -1, &record.value_size)
    if body.at + 1 == body.end and body.at[0] == 0:
        record.headers, record.headers_count = body.end, 0
        body.at += 1
    else:
        headers_pass(&body, record)
    record.end = body.end
    if body.failed or body.at != body.end or attributes != 0:
        cursor.failed = True
        return BATCH_INVALID
    cursor.at = body.end
    return OK


# The next header of a record that record_next has passed; the cursor runs from record.headers to
# record.end.
cdef int header_next(Cursor* cursor, HeaderView* header) noexcept nogil

# Whether the bytes are the records that `claim` says and nothing else: OK or BATCH_INVALID. The
# largest timestamp goes through `max_timestamp`.
cdef int records_check(
    const uint8_t* data, int64_t size, const RecordsClaim* claim, int64_t* max_timestamp
) noexcept nogil

# `append_time` (not -1) stands for every record's own timestamp.
cdef int64_t record_timestamp(
    const RecordsClaim* claim, const RecordView* record, int64_t append_time
) noexcept nogil

# Appends to `kept` the records whose byte in `keep` is not zero, moved from base timestamp
# claim.base_timestamp to `base_timestamp`. The bytes must have passed records_check.
cdef int records_retain(
    Cursor records, const RecordsClaim* claim, const uint8_t* keep, int64_t base_timestamp,
    vector[uint8_t]& kept
) except -1 nogil

# Python's side of a record, as built and as decoded.
cdef class Record:
    cdef readonly int64_t offset       # -1: not in a log yet
    cdef readonly int64_t timestamp    # ms since 1970
    cdef readonly object key           # bytes or None
    cdef readonly object value         # bytes or None
    cdef readonly object headers       # tuple of (str, bytes or None)

# A key or a value; a size of -1 is null.
cdef inline object field_bytes(const uint8_t* data, int32_t size):
    return None if size < 0 else PyBytes_FromStringAndSize(<const char*>data, size)

# Pairs of a name and bytes or None.
cdef tuple decode_headers(const RecordView* record)

# Appends decoded records to `into`; the bytes must have passed records_check.
cdef int decode_records(
    Cursor records, const RecordsClaim* claim, int64_t base_offset, int64_t append_time, list into
) except -1

# Appends the encoding of one record (offset ignored) to `out`.
cdef int encode_record(
    vector[uint8_t]& out, Record record, int64_t timestamp_delta, int32_t offset_delta
) except -1

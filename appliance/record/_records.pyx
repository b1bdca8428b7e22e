"""Records of a batch, magic 2, as they stand behind the 61-byte header once decompressed.

    length            varint    bytes behind this field
    attributes        i8        no bit has a meaning yet
    timestamp delta   varlong   against the batch's base timestamp
    offset delta      varint    against the batch's base offset
    key length        varint    -1: null
    key
    value length      varint    -1: null, which compaction reads as "delete this key"
    value
    header count      varint
    per header        varint key length, key (UTF-8), varint value length (-1: null), value

Varints are zigzag, at most 5 bytes (varint) or 10 (varlong). All of it comes from clients, so every
length is held against the bytes left before it is believed, and nothing is allocated to find out.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from appliance.native._bytes cimport (
    Cursor, count_trailing_zeros, expect, varint_size, write_varint,
)
from appliance.native._codes cimport BATCH_INVALID, OK

cdef extern from "endian.h" nogil:
    uint32_t le32toh(uint32_t word)
    uint64_t le64toh(uint64_t word)

cdef enum:
    VARINT_SIZE_MAX = 10

    # What is read of a plain record before its lengths are held against the bytes left: length 2,
    # attributes 1, timestamp delta 8, and the 4 bytes at the offset delta or 3 and a key length.
    PLAIN_MARGIN = 16
    # From such a base no delta of 56 bits can reach the end of 64.
    PLAIN_BASE_MAX = 0x4000000000000000


# ---- without the GIL ----

cdef int header_next(Cursor* cursor, HeaderView* header) noexcept nogil:
    header.key = sized_field(cursor, 0, &header.key_size)
    header.value = sized_field(cursor, -1, &header.value_size)
    return BATCH_INVALID if cursor.failed else OK


cdef void headers_pass(Cursor* body, RecordView* record) noexcept nogil:
    cdef HeaderView header
    cdef int64_t count = short_varint(body, 32)
    cdef int64_t _i
    record.headers = body.at
    # a header takes two bytes at least, so a claim of billions ends here and not in the loop
    if count < 0 or count > (body.end - body.at) // 2:
        body.failed = True
        return
    record.headers_count = <int32_t>count
    for _i in range(count):
        if header_next(body, &header) != OK:
            return


cdef int record_next(Cursor* cursor, RecordView* record) noexcept nogil:
    return record_read(cursor, record)


cdef inline int64_t _timestamp(int64_t base_timestamp, int64_t delta) noexcept nogil:
    """Wraps like Java's arithmetic, which wrote the delta; signed overflow would be undefined."""
    return <int64_t>(<uint64_t>base_timestamp + <uint64_t>delta)


cdef inline bint _has_wrapped(int64_t base_timestamp, int64_t delta) noexcept nogil:
    cdef int64_t timestamp = _timestamp(base_timestamp, delta)
    return timestamp < base_timestamp if delta >= 0 else timestamp > base_timestamp


cdef inline uint32_t _load_le(const uint8_t* data) noexcept nogil:
    cdef uint32_t word
    memcpy(&word, data, 4)
    return le32toh(word)


cdef inline uint32_t _plain_size(const uint8_t** at) noexcept nogil:
    """Bytes of a key or value, none for null. The other negatives and the varints of more than two
    bytes come out as more than a plain record has, so that one comparison with the end finds them.
    """
    cdef uint32_t raw = at[0][0]
    at[0] += 1
    if raw == 1:
        return 0
    if raw >= 0x80:
        raw = raw & 0x7F | <uint32_t>at[0][0] << 7
        at[0] += 1
    return raw >> 1 | raw << 31


cdef inline const uint8_t* _plain_timestamp(const uint8_t* at, uint64_t* spread) noexcept nogil:
    """The raw varlong with a gap between its groups of 7 bits, where "more bytes" stood. Two such
    numbers compare like what they mean, so that only the largest has to be put together."""
    cdef uint64_t stops
    memcpy(spread, at, 8)
    spread[0] = le64toh(spread[0])
    if spread[0] & 0x80 == 0:
        spread[0] &= 0x7F
        return at + 1
    if spread[0] & 0x8000 == 0:
        spread[0] &= 0x7F7F
        return at + 2
    stops = ~spread[0] & 0x8080808080808080U
    if stops == 0:
        return NULL
    spread[0] &= (stops ^ (stops - 1)) & 0x7F7F7F7F7F7F7F7FU
    return at + (count_trailing_zeros(stops) >> 3) + 1


cdef inline int64_t _delta_of(int64_t spread) noexcept nogil:
    """The timestamp delta of a spread number from which zigzag was taken."""
    cdef uint64_t gapped = (<uint64_t>spread << 1) ^ <uint64_t>(spread >> 63), raw = 0
    cdef int i
    for i in range(8):
        raw |= (gapped >> 8 * i & 0x7F) << 7 * i
    return <int64_t>(raw >> 1) ^ -<int64_t>(raw & 1)


cdef bint _plain_headers(const uint8_t* at, const uint8_t* end) noexcept nogil:
    cdef uint32_t size, count = at[0]
    at += 1
    if count & 0x81:
        return False
    while count > 0:
        if at > end - 2 or at[0] == 1:
            return False
        size = _plain_size(&at)
        at += size
        if at > end - 2:
            return False
        size = _plain_size(&at)
        at += size
        count -= 2
    return at == end


# The offset delta that has to come, as the bytes that stand for it.
cdef struct PlainOffset:
    uint32_t bytes
    uint32_t gaps                  # the "more bytes" bits among them: an added 2 carries over them
    uint32_t mask
    int32_t size
    int64_t limit                  # the first offset delta that takes a byte more


cdef inline void _plain_offset(int32_t first, PlainOffset* offset) noexcept nogil:
    cdef uint32_t raw = <uint32_t>first << 1
    offset.size = 1 if first < 1 << 6 else 2 if first < 1 << 13 else 3
    offset.limit = 1 << (7 * offset.size - 1)
    offset.mask = <uint32_t>0xFFFFFF >> (24 - 8 * offset.size)
    offset.gaps = <uint32_t>0x8080 & (offset.mask >> 8)
    offset.bytes = raw & 0x7F | raw << 1 & 0x7F00 | raw << 2 & 0x7F0000 | offset.gaps


cdef int32_t _pass_plain(
    Cursor* cursor, int32_t first, int64_t limit, int64_t* max_delta
) noexcept nogil:
    """Passes plain records from the one with offset delta `first` on, as far as those take equally
    many bytes, and returns their number; the largest timestamp delta goes through `max_delta`."""
    cdef const uint8_t* at = cursor.at
    cdef const uint8_t* end = cursor.end
    cdef const uint8_t* stop
    cdef const uint8_t* field
    cdef PlainOffset offset
    cdef int64_t delta, largest = INT64_MIN
    cdef uint64_t spread
    cdef uint32_t word, taken
    cdef int32_t i = first
    _plain_offset(first, &offset)
    cdef int32_t stop_at = <int32_t>min(limit, offset.limit)
    while True:
        if i >= stop_at:
            break
        if end - at < PLAIN_MARGIN:
            break
        word = _load_le(at)
        if word & 0x80:
            # two bytes of length, even and ended by the second, and no attributes
            if word & 0xFF8001:
                break
            field = at + 3
            stop = at + 2 + (word >> 1 & 0x3F | word >> 2 & 0x1FC0)
        else:
            if word & 0xFF01:
                break
            field = at + 2
            stop = at + 1 + (word >> 1 & 0x3F)
        if stop > end:
            break
        field = _plain_timestamp(field, &spread)
        if field == NULL or _load_le(field) & offset.mask != offset.bytes:
            break
        offset.bytes = offset.bytes + 2 | offset.gaps
        field += offset.size
        taken = _plain_size(&field)
        field += taken
        if field > stop - 2:
            break
        taken = _plain_size(&field)
        field += taken
        if field != stop - 1 or field[0] != 0:
            if field >= stop or not _plain_headers(field, stop):
                break
        delta = <int64_t>(spread >> 1)
        if expect(spread & 1, 0):
            delta = ~delta
        largest = max(largest, delta)
        at = stop
        i += 1
    cursor.at = at
    max_delta[0] = _delta_of(largest)
    return i - first


cdef int records_check(
    const uint8_t* data, int64_t size, const RecordsClaim* claim, int64_t* max_timestamp
) noexcept nogil:
    cdef RecordView record
    cdef Cursor cursor
    cdef int64_t timestamp, delta = 0, last_delta = -1, plain_limit = 0
    cdef int32_t passed, i = 0
    cursor.at, cursor.end, cursor.failed = data, data + size, False
    if claim.from_client and -PLAIN_BASE_MAX <= claim.base_timestamp <= PLAIN_BASE_MAX:
        plain_limit = min(claim.count, <int64_t>claim.last_offset_delta + 1)
    while i < claim.count:
        passed = _pass_plain(&cursor, i, plain_limit, &delta) if i < plain_limit else 0
        if passed == 0:
            if record_next(&cursor, &record) != OK:
                return BATCH_INVALID
            delta = record.timestamp_delta
            if record.offset_delta <= last_delta or record.offset_delta > claim.last_offset_delta:
                return BATCH_INVALID
            if claim.from_client and (
                record.offset_delta != i or _has_wrapped(claim.base_timestamp, delta)
            ):
                return BATCH_INVALID
            last_delta = record.offset_delta
            passed = 1
        else:
            last_delta = i + passed - 1
        timestamp = _timestamp(claim.base_timestamp, delta)
        if i == 0 or timestamp > max_timestamp[0]:
            max_timestamp[0] = timestamp
        i += passed
    return OK if cursor.at == cursor.end else BATCH_INVALID


cdef int64_t record_timestamp(
    const RecordsClaim* claim, const RecordView* record, int64_t append_time
) noexcept nogil:
    if append_time != -1:
        return append_time
    return _timestamp(claim.base_timestamp, record.timestamp_delta)


cdef int _put(vector[uint8_t]& out, const uint8_t* data, size_t size) except -1 nogil:
    out.insert(out.end(), data, data + size)
    return 0


cdef int _put_varint(vector[uint8_t]& out, int64_t value) except -1 nogil:
    cdef uint8_t text[VARINT_SIZE_MAX]
    return _put(out, text, write_varint(text, value) - text)


cdef int records_retain(
    Cursor records, const RecordsClaim* claim, const uint8_t* keep, int64_t base_timestamp,
    vector[uint8_t]& kept
) except -1 nogil:
    cdef RecordView record
    cdef int64_t delta, behind
    cdef uint8_t attributes = 0
    cdef int32_t i
    for i in range(claim.count):
        if record_next(&records, &record) != OK:
            break
        if keep[i] == 0:
            continue
        if base_timestamp == claim.base_timestamp:
            _put(kept, record.start, record.end - record.start)
            continue
        delta = _timestamp(claim.base_timestamp, record.timestamp_delta)
        delta = <int64_t>(<uint64_t>delta - <uint64_t>base_timestamp)
        behind = record.end - record.offset_at
        _put_varint(kept, 1 + varint_size(delta) + behind)
        _put(kept, &attributes, 1)
        _put_varint(kept, delta)
        _put(kept, record.offset_at, behind)
    return 0


# ---- with the GIL ----

cdef class Record:
    """One record. `headers` are pairs of a name and bytes or None, in the order of writing."""

    def __init__(self, int64_t timestamp, key, value, headers=(), int64_t offset=-1):
        self.timestamp = timestamp
        self.key = _bytes_or_none(key, "key")
        self.value = _bytes_or_none(value, "value")
        pairs = [(str(name), _bytes_or_none(text, "header")) for name, text in headers]
        self.headers = tuple(pairs)
        self.offset = offset

    def _facts(self):
        return self.offset, self.timestamp, self.key, self.value, self.headers

    def __eq__(self, other):
        if not isinstance(other, Record):
            return NotImplemented
        return self._facts() == other._facts()

    def __hash__(self):
        return hash(self._facts())

    def __repr__(self):
        return (
            f"Record(offset={self.offset}, timestamp={self.timestamp}, key={self.key!r}, "
            f"value={self.value!r}, headers={self.headers!r})"
        )

    def __reduce__(self):
        return Record, (self.timestamp, self.key, self.value, self.headers, self.offset)


cdef object _bytes_or_none(data, str what):
    if data is None or type(data) is bytes:
        return data
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    raise TypeError(f"a record's {what} is bytes or None, not {type(data).__name__}")


cdef tuple decode_headers(const RecordView* record):
    cdef Cursor cursor
    cdef HeaderView header
    cdef list headers = []
    cursor.at, cursor.end, cursor.failed = record.headers, record.end, False
    while cursor.at < cursor.end and header_next(&cursor, &header) == OK:
        # a name that is not UTF-8 is the producer's mistake and no reason to withhold the record
        name = field_bytes(header.key, header.key_size).decode("utf-8", "replace")
        headers.append((name, field_bytes(header.value, header.value_size)))
    return tuple(headers)


cdef int decode_records(
    Cursor records, const RecordsClaim* claim, int64_t base_offset, int64_t append_time, list into
) except -1:
    cdef RecordView view
    cdef Record record
    cdef int32_t _i
    for _i in range(claim.count):
        if record_next(&records, &view) != OK:
            break
        record = Record.__new__(Record)
        record.offset = base_offset + view.offset_delta
        record.timestamp = record_timestamp(claim, &view, append_time)
        record.key = field_bytes(view.key, view.key_size)
        record.value = field_bytes(view.value, view.value_size)
        record.headers = decode_headers(&view) if view.headers_count else ()
        into.append(record)
    return 0


cdef int _put_bytes(vector[uint8_t]& out, object data) except -1:
    if data is None:
        _put_varint(out, -1)
        return 0
    _put_varint(out, PyBytes_GET_SIZE(data))
    _put(out, <const uint8_t*>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    return 0


cdef int encode_record(
    vector[uint8_t]& out, Record record, int64_t timestamp_delta, int32_t offset_delta
) except -1:
    cdef vector[uint8_t] body
    body.push_back(0)
    _put_varint(body, timestamp_delta)
    _put_varint(body, offset_delta)
    _put_bytes(body, record.key)
    _put_bytes(body, record.value)
    _put_varint(body, len(record.headers))
    for name, value in record.headers:
        _put_bytes(body, (<str>name).encode())
        _put_bytes(body, value)
    _put_varint(out, body.size())
    return _put(out, body.data(), body.size())

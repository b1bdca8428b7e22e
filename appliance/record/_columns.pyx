"""Records as columns in Arrow's layout, without a Python object per record; `arrow.py` is the user.

    offset, timestamp   int64 each
    timestamp_type      int32: 0, the producer's time; 1, the log's
    key, value          one bit of validity, int32 ends, the bytes one behind the other
    headers             int32 ends of lists; below them a key and a value column as above

Arrow's `binary` counts its bytes in 32 bits. All bytes of a column come from the records, so it is
enough to refuse more than 2^31 - 1 bytes of records in one call, before anything is copied.
"""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memcpy
from libcpp.vector cimport vector

from appliance.native._bytes cimport Cursor
from appliance.native._codes cimport BATCH_INVALID, OK
from appliance.record._aborted_txns cimport batch_is_aborted, take_aborted
from appliance.record._batch cimport (
    ATTRIBUTE_CONTROL, ATTRIBUTE_TRANSACTIONAL, BatchHeader, Payload, append_time, open_batch,
    open_checked, scan_batches,
)
from appliance.record._records cimport (
    RECORD_SIZE_MIN, HeaderView, RecordView, header_next, record_read, record_timestamp,
)

from appliance import errors
from appliance.record import compression

# The bytes of records one call may hold, unless told otherwise: a Fetch of Java's default 50 MiB
# that packs 20 to 1.
COLUMNS_SIZE_MAX = 1 << 30

cdef enum:
    # Opened batches are copied, and what was decompressed for them is let go, once they hold this
    # much: far more work than the hand-over of the GIL costs, and still small enough for the cache.
    COPIED_AT_ONCE = 1 << 20


# ---- without the GIL ----

cdef inline int _put(BinaryColumn column, const uint8_t* data, int32_t size) except -1 nogil:
    cdef size_t slot = column.ends.size() - 1, end
    if slot & 7 == 0:
        column.validity.push_back(0)
    if size < 0:
        column.null_count += 1
    else:
        column.validity[slot >> 3] |= 1 << (slot & 7)
        end = column.data.size()
        column.data.resize(end + size)
        memcpy(column.data.data() + end, data, size)
    column.ends.push_back(<int32_t>column.data.size())
    return 0


cdef int _put_headers(Columns columns, const RecordView* record) except -1 nogil:
    cdef Cursor headers
    cdef HeaderView header
    headers.at, headers.end, headers.failed = record.headers, record.end, False
    while headers.at < headers.end and header_next(&headers, &header) == OK:
        _put(columns.header_key, header.key, header.key_size)
        _put(columns.header_value, header.value, header.value_size)
    return 0


cdef inline int _put_record(
    Columns columns, const Source* source, const RecordView* record
) except -1 nogil:
    cdef int64_t offset = source.base_offset + record.offset_delta
    if offset < columns.first_offset or offset >= columns.end_offset:
        return 0
    columns.offsets.push_back(offset)
    columns.timestamps.push_back(record_timestamp(&source.claim, record, source.append_time))
    columns.timestamp_types.push_back(source.append_time >= 0)
    if columns.with_keys:
        _put(columns.key, record.key, record.key_size)
    if columns.with_values:
        _put(columns.value, record.value, record.value_size)
    if columns.with_headers:
        if record.headers_count:
            _put_headers(columns, record)
        columns.headers_ends.push_back(<int32_t>(columns.header_key.ends.size() - 1))
    return 0


cdef int _fill_from(Columns columns, Source source) except? -1 nogil:
    """The rules are those of records_check for a log; one walk checks and copies."""
    cdef RecordView record
    cdef int64_t last_delta = -1
    cdef int32_t _i
    for _i in range(source.claim.count):
        if record_read(&source.records, &record) != OK:
            return BATCH_INVALID
        if not last_delta < record.offset_delta <= source.claim.last_offset_delta:
            return BATCH_INVALID
        last_delta = record.offset_delta
        _put_record(columns, &source, &record)
    return OK if source.records.at == source.records.end else BATCH_INVALID


cdef int _fill(Columns columns) except? -1 nogil:
    """All sources into the columns: OK or BATCH_INVALID."""
    cdef Source source
    cdef int code = OK
    for source in columns.sources:
        code = _fill_from(columns, source)
        if code != OK:
            break
    return code


# ---- with the GIL ----

# What an empty vector shows: Arrow wants an address even for no bytes.
cdef int64_t _nothing = 0


cdef class Buffer:
    """A vector of a column as Python's buffer protocol shows it."""

    cdef object owner
    cdef const void* data
    cdef Py_ssize_t size

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, <void*>self.data, self.size, 1, flags)

    def __len__(self):
        return self.size


cdef Buffer _buffer(object owner, const void* data, size_t size):
    cdef Buffer buffer = Buffer.__new__(Buffer)
    buffer.owner, buffer.size = owner, size
    buffer.data = &_nothing if data == NULL else data
    return buffer


cdef class BinaryColumn:
    def __cinit__(self):
        self.ends.push_back(0)

    def __len__(self):
        return self.ends.size() - 1

    def buffers(self):
        """Validity (None: nothing is null), ends and bytes."""
        validity = None
        if self.null_count:
            validity = _buffer(self, self.validity.data(), self.validity.size())
        ends = _buffer(self, self.ends.data(), self.ends.size() * sizeof(int32_t))
        return [validity, ends, _buffer(self, self.data.data(), self.data.size())]


cdef class Aborted:
    """The aborted transactions of a range, as a Fetch tells them: pairs of producer id and first
    offset. Given to `columns` with one piece of that range after the other, in their order."""

    def __cinit__(self, pairs):
        take_aborted(&self.txns, pairs)


cdef class Columns:
    def __cinit__(self):
        self.headers_ends.push_back(0)
        self.next_offset = -1
        self.owners = []
        self.key, self.value = BinaryColumn(), BinaryColumn()
        self.header_key, self.header_value = BinaryColumn(), BinaryColumn()

    def __len__(self):
        return self.offsets.size()

    @property
    def offset(self):
        return _buffer(self, self.offsets.data(), self.offsets.size() * sizeof(int64_t))

    @property
    def timestamp(self):
        return _buffer(self, self.timestamps.data(), self.timestamps.size() * sizeof(int64_t))

    @property
    def timestamp_type(self):
        return _buffer(
            self, self.timestamp_types.data(), self.timestamp_types.size() * sizeof(int32_t)
        )

    @property
    def header_lists(self):
        return _buffer(self, self.headers_ends.data(), self.headers_ends.size() * sizeof(int32_t))


cdef int _reserve(Columns columns, vector[BatchHeader]& batches, int64_t size) except -1:
    """Room for what the headers claim, though not for more records than there are bytes."""
    cdef BatchHeader header
    cdef BinaryColumn column
    cdef int64_t count = 0
    for header in batches:
        count += header.records_count
    count = min(count, size // RECORD_SIZE_MIN)
    columns.offsets.reserve(count)
    columns.timestamps.reserve(count)
    columns.timestamp_types.reserve(count)
    if columns.with_headers:
        columns.headers_ends.reserve(count + 1)
    for column in (columns.key, columns.value):
        column.ends.reserve(count + 1)
        column.validity.reserve(count // 8 + 1)
    if columns.with_values:
        columns.value.data.reserve(size)
    return 0


cdef int64_t _open(
    Columns columns, const unsigned char[::1] data, int64_t position, const BatchHeader* header,
    int64_t size_max,
) except -1:
    """Decompresses one batch; the bytes of its records."""
    cdef Source source
    cdef Payload payload = open_batch(data, position, header, size_max)
    source.records, source.claim = payload.records, payload.claim
    source.base_offset, source.append_time = header.base_offset, append_time(header)
    columns.sources.push_back(source)
    columns.owners.append(payload)
    return payload.records.end - payload.records.at


cdef int _copy_opened(Columns columns, const unsigned char[::1] data) except -1:
    cdef int code
    with nogil:
        code = _fill(columns)
    if code != OK:
        _refuse(data)
        raise errors.from_code(code, f"{len(columns.owners)} batches changed while being read")
    columns.sources.clear()
    columns.owners.clear()
    return 0


cdef int _refuse(const unsigned char[::1] data) except -1:
    """Raises for the batch that is against the rules, with the numbers that it has."""
    cdef BatchHeader header
    cdef int64_t position = 0
    for header in scan_batches(data, True):
        if header.records_count and not header.attributes & ATTRIBUTE_CONTROL:
            open_checked(data, position, &header, compression.SIZE_MAX)
        position += header.size
    return 0


def is_transactional(const unsigned char[::1] data not None):
    """Whether any of the batches in `data` is of a transaction, and might have been aborted."""
    cdef vector[BatchHeader] batches = scan_batches(data, False)
    cdef BatchHeader header
    for header in batches:
        if header.attributes & ATTRIBUTE_TRANSACTIONAL:
            return True
    return False


cdef bint _is_wanted(
    const unsigned char[::1] data, int64_t position, const BatchHeader* header, Aborted aborted
):
    """Control batches are asked too: they end what was aborted."""
    if aborted is not None and batch_is_aborted(&aborted.txns, &data[position], header):
        return False
    return header.records_count > 0 and not header.attributes & ATTRIBUTE_CONTROL


def columns(
    const unsigned char[::1] data not None, *, bint partial_tail=False, int64_t first_offset=0,
    int64_t end_offset=INT64_MAX, int64_t size_max=COLUMNS_SIZE_MAX, Aborted aborted=None,
    bint keys=True, bint values=True, bint headers=True, int64_t enough=INT64_MAX,
):
    """The records in `data` from `first_offset` up to `end_offset`, control batches left out, and
    batches of `aborted` transactions. Keys, values and headers that nobody wants are not copied.
    With `enough` bytes of records the batches behind them stay for another call, from `size` on."""
    cdef vector[BatchHeader] batches = scan_batches(data, partial_tail)
    cdef Columns filled = Columns()
    cdef BatchHeader header
    cdef int64_t position = 0, opened = 0, copied = 0
    filled.first_offset, filled.end_offset = first_offset, end_offset
    filled.with_keys, filled.with_values, filled.with_headers = keys, values, headers
    size_max = min(size_max, <int64_t>INT32_MAX)
    _reserve(filled, batches, data.shape[0])
    for header in batches:
        if _is_wanted(data, position, &header, aborted):
            opened += _open(filled, data, position, &header, min(size_max, compression.SIZE_MAX))
            if copied + opened > size_max:
                raise errors.BatchTooLarge(
                    f"{copied + opened} bytes of records for one set of columns, "
                    f"{size_max} allowed: read fewer batches at a time"
                )
        if opened >= COPIED_AT_ONCE:
            _copy_opened(filled, data)
            copied, opened = copied + opened, 0
        position += header.size
        filled.next_offset = header.base_offset + header.last_offset_delta + 1
        if copied + opened >= enough:
            break
    filled.size = position
    _copy_opened(filled, data)
    return filled

"""Reads a range of a log as frames of whole batches.

    frame     | length u32, big-endian | so many bytes of whole batches, as they are stored |

A frame is what one read gave: it never spans two segments. Reading goes past the page cache
(`_bulk_page_cache.pyx`).
"""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libcpp.vector cimport vector

from appliance._crc cimport crc32c
from appliance._log cimport Log
from appliance.bulk._bulk_page_cache cimport (
    BulkFile, bulk_bring_headers, bulk_drop_behind, bulk_leave, bulk_open, bulk_read,
)
from appliance.native._bytes cimport store_i32
from appliance.native._codes cimport BATCH_CORRUPT, OFFSET_IN_HOLE, OK
from appliance.native._descriptors cimport FileRef
from appliance.native._native cimport RawBytes
from appliance.record._batch cimport (
    BATCH_HEADER_SIZE, BatchHeader, batch_check_header, batch_load_header,
)
from appliance.storage._partition_log cimport LogRef, PartitionLog
from appliance.storage._read cimport (
    READ_END, READ_STABLE, READ_VISIBLE, Slice, log_limit, log_note_fault, log_read,
)
from appliance.storage._segment cimport SEGMENT_SIZE_MAX, SegmentRef, segment_file

from appliance.errors import from_code

cdef enum:
    LENGTH_SIZE = 4
    FRAME_SIZE_MAX = 67108864      # batches of one frame; a larger batch is a frame by itself

_LIMITS = {"visible": READ_VISIBLE, "end": READ_END, "stable": READ_STABLE}


# ---- without the GIL ----

# Zeroed with the `RangeReader` that it is in.
cdef cppclass Reader:
    LogRef log
    int limit
    int64_t next_offset
    int64_t end_offset             # the first batch that begins here or later is not read
    bint is_done
    uint32_t crc                   # of all batches so far, as `bytes` counts them
    int64_t bytes
    vector[int64_t] holes          # first and end offset of ranges that are damaged or gone

    Slice rest                     # of the segment at hand: what may be read and is not
    BulkFile bulk                  # of that segment


cdef int _reader_next(Reader* reader, int64_t max_bytes, RawBytes* into) noexcept nogil:
    """Fills `into` with a frame; leaves it empty when there is no more."""
    cdef int code
    into.clear()
    while not reader.is_done:
        if reader.rest.size == 0:
            code = _next_slice(reader)
            if code != OK:
                return code
            continue
        code = _read_slice(reader, max_bytes, into)
        if code != OK or into.size() > 0:
            return code
    bulk_leave(&reader.bulk)
    return OK


cdef int _next_slice(Reader* reader) noexcept nogil:
    """Once for a segment: for the next frame nobody need look, since it begins where the last one
    ended."""
    cdef int code
    if reader.next_offset >= reader.end_offset:
        reader.is_done = True
        return OK
    # Told also where an operator lets readers pass.
    if _pass_hole(reader):
        return OK
    _meet(reader)
    code = log_read(reader.log.get(), reader.next_offset, SEGMENT_SIZE_MAX, reader.limit,
                    &reader.rest)
    if code == OFFSET_IN_HOLE and _pass_hole(reader):
        reader.rest.size = 0
        return OK
    if code == OK and reader.rest.size == 0:
        reader.is_done = True
    return code


cdef bint _pass_hole(Reader* reader) noexcept nogil:
    cdef PartitionLog* log = reader.log.get()
    cdef int64_t begin = reader.next_offset, end = begin
    cdef size_t i
    log.list_guard.lock()
    for i in range(log.holes.size()):
        if log.holes[i].first_offset <= end < log.holes[i].end_offset:
            end = log.holes[i].end_offset
    log.list_guard.unlock()
    if end == begin:
        return False
    reader.holes.push_back(begin)
    reader.holes.push_back(end)
    reader.next_offset = end
    return True


cdef int _read_slice(Reader* reader, int64_t max_bytes, RawBytes* into) noexcept nogil:
    cdef int64_t size = min(max_bytes, reader.rest.size)
    cdef int64_t got
    bulk_open(&reader.bulk, reader.rest.file)
    got = _read_batches(reader, size, into)
    if got > size:
        got = _read_batches(reader, got, into)
    if got < 0:
        log_note_fault(reader.log.get(), reader.rest.segment_base, reader.next_offset, <int>got)
        return <int>got
    into.resize(LENGTH_SIZE + got if got > 0 else 0)
    if got > 0:
        store_i32(into.data(), <int>got)
        reader.crc = crc32c(reader.crc, into.data() + LENGTH_SIZE, got)
        reader.bytes += got
        bulk_drop_behind(&reader.bulk, reader.rest.position, got)
    reader.rest.position += got
    reader.rest.size -= got
    return OK


cdef int64_t _read_batches(Reader* reader, int64_t size, RawBytes* into) noexcept nogil:
    """Bytes of whole batches; the size of the first, if that is larger; or a code."""
    cdef BatchHeader header
    cdef int64_t got, taken
    into.resize(LENGTH_SIZE + size)
    got = bulk_read(&reader.bulk, reader.log.get().storage.get(), into.data() + LENGTH_SIZE, size,
                    reader.rest.position)
    if got < BATCH_HEADER_SIZE:
        return min(got, <int64_t>BATCH_CORRUPT)
    taken = _take_batches(reader, into.data() + LENGTH_SIZE, got)
    if taken > 0 or reader.is_done:
        return taken
    batch_load_header(into.data() + LENGTH_SIZE, &header)
    return header.size if size < header.size <= reader.rest.size else BATCH_CORRUPT


cdef int64_t _take_batches(Reader* reader, const uint8_t* data, int64_t size) noexcept nogil:
    """How many bytes are whole batches of the range; moves next_offset behind them."""
    cdef BatchHeader header
    cdef int64_t at = 0
    while at + BATCH_HEADER_SIZE <= size:
        batch_load_header(data + at, &header)
        if batch_check_header(&header, size - at) != OK:
            break
        if header.base_offset >= reader.end_offset:
            reader.is_done = True
            break
        at += header.size
        reader.next_offset = header.base_offset + header.last_offset_delta + 1
    return at


cdef void _meet(Reader* reader) noexcept nogil:
    """The segment in which the reader goes on, before anybody has touched it for this."""
    cdef PartitionLog* log = reader.log.get()
    cdef SegmentRef segment
    cdef FileRef file
    cdef size_t i
    log.list_guard.lock()
    segment = log.segments.front()
    for i in range(log.segments.size()):
        if log.segments[i].get().base_offset <= reader.next_offset:
            segment = log.segments[i]
    log.list_guard.unlock()
    if segment_file(segment.get(), &file) == OK:
        bulk_open(&reader.bulk, file)
        bulk_bring_headers(segment.get(), reader.next_offset)


# ---- with the GIL ----

@cython.no_gc  # it is in no cycle
cdef class Frame:
    """A frame's bytes, as Python's buffer protocol shows them."""

    cdef RawBytes data

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.data.data(), self.data.size(), 1, flags)

    def __len__(self):
        return self.data.size()

    @property
    def whole(self):
        return memoryview(self)

    @property
    def batches(self):
        """Without the length before them."""
        return memoryview(self)[LENGTH_SIZE:]


cdef class RangeReader:
    """Reads [first, end) of a log. One thread at a time."""

    cdef Reader reader
    cdef str name
    cdef readonly Log log

    def __cinit__(self, Log log not None, int64_t first_offset, int64_t end_offset,
                  str up_to="stable"):
        self.reader.log = log.log
        self.reader.limit = _LIMITS[up_to]
        self.reader.next_offset = first_offset
        self.reader.end_offset = end_offset
        self.name = log.name
        self.log = log

    def read(self, int64_t max_bytes=1 << 20):
        """The next frame, of about so many bytes; an empty one when there is no more."""
        cdef Frame frame = Frame.__new__(Frame)
        cdef int64_t most = min(max_bytes, <int64_t>FRAME_SIZE_MAX)
        cdef int code
        with nogil:
            code = _reader_next(&self.reader, most, &frame.data)
        if code != OK:
            raise from_code(code, f"{self.name}: cannot read on at offset {self.next_offset}; log "
                                  f"start {self.reader.log.get().log_start_offset.load()}, log end "
                                  f"{self.reader.log.get().log_end_offset.load()}")
        return frame

    @property
    def next_offset(self):
        """Behind the last batch that was read; at the end of the range when nothing of it is left,
        also where compaction took the last offsets."""
        if self.reader.is_done and self._reaches_end():
            return max(self.reader.next_offset, self.reader.end_offset)
        return self.reader.next_offset

    cdef bint _reaches_end(self):
        return log_limit(self.reader.log.get(), self.reader.limit) >= self.reader.end_offset

    @property
    def crc(self):
        """CRC-32C of all batches read so far."""
        return self.reader.crc

    @property
    def bytes(self):
        return self.reader.bytes

    @property
    def passed_bytes(self):
        """Of those, how many came from the disk and were dropped from the page cache again."""
        return self.reader.bulk.passed_bytes

    @property
    def is_quiet(self):
        """Nobody had committed for a second when the last frame was read."""
        return self.reader.bulk.is_quiet

    @property
    def waited_ns(self):
        """While a commit was at the disk."""
        return self.reader.bulk.waited_ns

    @property
    def holes(self):
        """[first, end) of the ranges that were passed over: damaged, or gone."""
        cdef size_t i
        return [(self.reader.holes[i], self.reader.holes[i + 1])
                for i in range(0, self.reader.holes.size(), 2)]

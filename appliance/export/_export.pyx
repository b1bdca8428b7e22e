"""Bulk reading: a range of a log as frames of whole batches, and where a range can be cut.

    frame     | length u32, big-endian | so many bytes of whole batches, as they are stored |

A frame is what one read gave: it never spans two segments. Reading goes past the page cache: what
was not in it before is dropped from it behind the reader, so that a walk through old data does not
push out what consumers at the end of the log are about to read. What was there already stays.

How that is known: before a segment is touched, `mincore` of a mapping that nobody ever looks into.
And the file is opened anew for the reader: what the kernel reads ahead is the reader's to say.

A commit waits at the disk behind what is being read there. So while there are commits the reader
takes small pieces and nothing ahead, and begins none from disk while one is there, for as long as
PASS_NS_MAX: producers that never pause shall slow an export down, not end it. To find a batch with
the engine's own descriptor would bring in as much behind it as the disk is set to, megabytes: the
few pages in which it is looked for are asked for before.
"""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libcpp.vector cimport vector

from appliance._crc cimport crc32c
from appliance._log cimport Log
from appliance.native._bytes cimport store_i32
from appliance.native._codes cimport BATCH_CORRUPT, OFFSET_IN_HOLE, OFFSET_OUT_OF_RANGE, OK
from appliance.native._descriptors cimport FileRef, file_own
from appliance.native._files cimport file_size, read_whole
from appliance.native._native cimport (
    O_CLOEXEC, O_RDONLY, POSIX_FADV_DONTNEED, RawBytes, errno, monotonic_ns, openat, posix_fadvise,
    snprintf,
)
from appliance.record._batch cimport (
    BATCH_HEADER_SIZE, BatchHeader, batch_check_header, batch_load_header,
)
from appliance.storage._index cimport index_position, index_position_before
from appliance.storage._partition_log cimport LogRef, PartitionLog
from appliance.storage._read cimport (
    READ_END, READ_STABLE, READ_VISIBLE, Slice, log_limit, log_note_fault, log_read,
)
from appliance.storage._segment cimport (
    SEGMENT_SIZE_MAX, WINDOW_SIZE, Found, Segment, SegmentRef, Walker,
    segment_file, segment_find, segment_load_index, walker_next, walker_start,
)

from appliance.errors import from_code

cdef extern from "fcntl.h" nogil:
    enum:
        POSIX_FADV_NORMAL, POSIX_FADV_RANDOM, POSIX_FADV_WILLNEED

cdef extern from "sys/mman.h" nogil:
    void* mmap(void* address, size_t size, int protection, int flags, int fd, int64_t position)
    int munmap(void* address, size_t size)
    int mincore(void* address, size_t size, unsigned char* pages)
    void* MAP_FAILED
    enum:
        MAP_SHARED, PROT_NONE

cdef extern from "sys/syscall.h" nogil:
    enum:
        SYS_ioprio_set

cdef extern from "unistd.h" nogil:
    long syscall(long number, ...)
    int usleep(unsigned int microseconds)

cdef enum:
    LENGTH_SIZE = 4
    FRAME_SIZE_MAX = 67108864      # batches of one frame; a larger batch is a frame by itself
    PAGE_SIZE = 4096
    AHEAD_PAGES = 4096             # 16 MiB: twice what large read-ahead settings are
    PIECE_SIZE = 1 << 18           # a commit waits for one of them at most: 0.2 ms of a good disk
    QUIET_NS = 1000000000          # without a commit: then whole frames, and more ahead
    PASS_NS_MAX = 5000000          # so a piece takes 5 ms at worst, which is 50 MB/s
    PASS_LOOK_US = 50              # between two looks whether the commit is through
    IOPRIO_WHO_PROCESS = 1         # 0 as its number: the calling thread
    IOPRIO_IDLE = 3 << 13

_LIMITS = {"visible": READ_VISIBLE, "end": READ_END, "stable": READ_STABLE}

# A place where a range may be cut: a batch begins there.
cdef struct Cut:
    int64_t offset
    int64_t position               # bytes of the range before it

# The bytes of a range within one segment.
cdef struct Part:
    int64_t first                  # position
    int64_t end


# ---- without the GIL ----

cdef cppclass Reader:
    LogRef log
    int limit
    int64_t next_offset
    int64_t end_offset             # the first batch that begins here or later is not read
    bint is_done
    uint32_t crc                   # of all batches so far, as `bytes` counts them
    int64_t bytes
    int64_t passed_bytes           # of those, read from disk and dropped from the cache again
    int64_t waited_ns              # for commits that were at the disk
    vector[int64_t] holes          # first and end offset of ranges that are damaged or gone

    Slice rest                     # of the segment at hand: what may be read and is not
    FileRef theirs                 # the engine's, of the segment at hand
    FileRef file                   # ours, of the same file
    bint is_quiet                  # nobody commits; the kernel reads ahead for our file
    vector[uint8_t] cached         # by page of it: whether it was in the cache before
    int64_t first_page             # of it, in which the first frame began
    int64_t page                   # of it, in which the last frame ended


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
    _leave(reader)
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
    _open_anew(reader, &reader.rest.file)
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
        _drop_behind(reader, got)
    reader.rest.position += got
    reader.rest.size -= got
    return OK


cdef int64_t _read_batches(Reader* reader, int64_t size, RawBytes* into) noexcept nogil:
    """Bytes of whole batches; the size of the first, if that is larger; or a code."""
    cdef BatchHeader header
    cdef int64_t got, taken
    into.resize(LENGTH_SIZE + size)
    got = _read(reader, into.data() + LENGTH_SIZE, size, reader.rest.position)
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
        _open_anew(reader, &file)
        _bring_headers(segment.get(), reader.next_offset)


cdef void _bring_headers(Segment* segment, int64_t offset) noexcept nogil:
    """Of the batches among which that offset will be looked for. Who looks meets what is amiss."""
    cdef FileRef file
    cdef int64_t position
    if segment_load_index(segment) != OK or segment_file(segment, &file) != OK:
        return
    segment.guard.lock()
    position = index_position(&segment.index, max(<int64_t>0, offset - segment.base_offset))
    segment.guard.unlock()
    posix_fadvise(file.get().fd, position, WINDOW_SIZE, POSIX_FADV_WILLNEED)


cdef void _open_anew(Reader* reader, const FileRef* file) noexcept nogil:
    cdef char[64] path
    cdef int fd
    if reader.theirs.get() == file[0].get():
        return
    _leave(reader)
    reader.theirs = file[0]
    reader.cached.clear()
    reader.first_page = reader.page = 0
    reader.is_quiet = False
    # By the descriptor, not the name: compaction may have given the name to another file.
    snprintf(path, sizeof(path), b"/proc/self/fd/%d", file[0].get().fd)
    fd = openat(-100, path, O_RDONLY | O_CLOEXEC)
    if fd < 0:
        # No /proc, or no descriptor left: then read with the engine's, and drop nothing.
        reader.file.reset()
        return
    posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM)
    reader.file = file_own(fd)
    _look_at_cache(fd, &reader.cached)


cdef void _look_at_cache(int fd, vector[uint8_t]* pages) noexcept nogil:
    """Leaves it empty where it cannot be told: then nothing is dropped."""
    cdef int64_t size = file_size(fd)
    cdef void* address
    if size <= 0:
        return
    address = mmap(NULL, size, PROT_NONE, MAP_SHARED, fd, 0)
    if address == MAP_FAILED:
        return
    pages.resize((size + PAGE_SIZE - 1) // PAGE_SIZE)
    if mincore(address, size, pages.data()) != 0:
        pages.clear()
    munmap(address, size)


cdef int64_t _read(Reader* reader, uint8_t* data, int64_t size, int64_t position) noexcept nogil:
    cdef int64_t done = 0, piece, got
    if reader.file.get() == NULL:
        return read_whole(reader.theirs.get().fd, data, size, position)
    _choose_pace(reader, position)
    while done < size:
        _let_commits_pass(reader, position + done)
        piece = size - done
        if not reader.is_quiet:
            # Up to the next multiple: the kernel would cut what lies across it in two.
            piece = min(PIECE_SIZE - (position + done) % PIECE_SIZE, size - done)
        got = read_whole(reader.file.get().fd, data + done, piece, position + done)
        if got < 0:
            return got
        done += got
        if got < piece:
            break
    return done


cdef void _choose_pace(Reader* reader, int64_t position) noexcept nogil:
    """The kernel may read ahead for as long as nobody commits. What it has read ahead says where it
    is to go on, to whoever comes by there, so it goes when somebody does."""
    cdef int64_t page = position // PAGE_SIZE, committed_ns
    committed_ns = reader.log.get().storage.get().committed_ns.load()
    cdef bint is_quiet = monotonic_ns() - committed_ns > QUIET_NS
    if is_quiet == reader.is_quiet:
        return
    reader.is_quiet = is_quiet
    posix_fadvise(reader.file.get().fd, 0, 0,
                  POSIX_FADV_NORMAL if is_quiet else POSIX_FADV_RANDOM)
    if not is_quiet:
        _drop(reader, page, page + AHEAD_PAGES)


cdef void _let_commits_pass(Reader* reader, int64_t position) noexcept nogil:
    """Nothing to wait for when the page is in the cache, as far as was known."""
    cdef size_t page = position // PAGE_SIZE
    cdef int64_t begin, now
    if page < reader.cached.size() and reader.cached[page] & 1:
        return
    begin = now = monotonic_ns()
    while (reader.log.get().storage.get().commits_at_disk.load() > 0
           and now - begin < PASS_NS_MAX):
        usleep(PASS_LOOK_US)
        now = monotonic_ns()
    reader.waited_ns += now - begin


cdef void _drop_behind(Reader* reader, int64_t size) noexcept nogil:
    """The page that a frame ends in goes with the next frame, which begins there."""
    cdef int64_t page = reader.rest.position // PAGE_SIZE
    if reader.file.get() == NULL:
        return
    if reader.page == 0:
        reader.first_page = page
    reader.page = (reader.rest.position + size) // PAGE_SIZE
    reader.passed_bytes += _drop(reader, page, reader.page)


cdef void _leave(Reader* reader) noexcept nogil:
    """What was read ahead goes, too, and what reading ahead put into folios larger than a frame:
    the kernel drops a folio whole or not at all."""
    if reader.file.get() != NULL and reader.page > 0:
        _drop(reader, reader.first_page, reader.page + AHEAD_PAGES)
        reader.page = 0


cdef int64_t _drop(Reader* reader, int64_t page, int64_t end) noexcept nogil:
    """Runs of pages that were not there before; their bytes."""
    cdef int64_t begin, size = 0
    # Behind what was looked at is what was written since: the hot end.
    end = min(end, <int64_t>reader.cached.size())
    while page < end:
        begin = page
        while page < end and not reader.cached[page] & 1:
            page += 1
        if page > begin:
            posix_fadvise(reader.file.get().fd, begin * PAGE_SIZE, (page - begin) * PAGE_SIZE,
                          POSIX_FADV_DONTNEED)
            size += (page - begin) * PAGE_SIZE
        while page < end and reader.cached[page] & 1:
            page += 1
    return size


# Where a range can be cut

cdef int _cuts(PartitionLog* log, int64_t first_offset, int64_t end_offset, int64_t step,
               int64_t* size, vector[Cut]* cuts) noexcept nogil:
    """`size`: of the range. A cut about every `step` bytes; none with a step of 0."""
    cdef vector[SegmentRef] segments
    cdef Segment* segment
    cdef Part part
    cdef size_t i
    cdef int code
    size[0] = 0
    log.list_guard.lock()
    segments = log.segments
    log.list_guard.unlock()
    for i in range(segments.size()):
        segment = segments[i].get()
        if segment.base_offset >= end_offset or segment.end_offset.load() <= first_offset:
            continue
        code = _part(segment, first_offset, end_offset, &part)
        if code == OK and step > 0:
            code = _cut_segment(segment, &part, step, size[0], cuts)
        if code == OFFSET_OUT_OF_RANGE and segment.end_offset.load() <= log.log_start_offset.load():
            continue  # retention came by
        if code != OK:
            log_note_fault(log, segment.base_offset, first_offset, code)
            return code
        size[0] += part.end - part.first
    return OK


cdef int _part(Segment* segment, int64_t first_offset, int64_t end_offset,
               Part* part) noexcept nogil:
    cdef Found found
    cdef int code = OK
    part.first = 0
    part.end = segment.size.load()
    if segment.base_offset < first_offset:
        _bring_headers(segment, first_offset)
        code = segment_find(segment, first_offset, &found)
        part.first = found.position if code == OK else part.end
    if segment.end_offset.load() > end_offset and (code == OK or code == OFFSET_OUT_OF_RANGE):
        _bring_headers(segment, end_offset)
        code = segment_find(segment, end_offset, &found)
        if code == OK:
            part.end = found.position
            if found.header.base_offset < end_offset:
                part.end += found.header.size
    # Compaction leaves segments that end before their last offset.
    return OK if code == OFFSET_OUT_OF_RANGE else code


cdef int _cut_segment(Segment* segment, const Part* part, int64_t step, int64_t before,
                      vector[Cut]* cuts) noexcept nogil:
    cdef int64_t wanted = step * <int64_t>(cuts.size() + 1), position
    cdef int code
    while wanted < before + part.end - part.first:
        position = part.first + wanted - before
        # A segment's first batch is as good a place, and its file is then read by one alone.
        if position - part.first < step // 8:
            position = part.first
        code = _cut_at(segment, part, position, before, cuts)
        if code != OK:
            return code
        wanted = step * <int64_t>(cuts.size() + 1)
    return OK


cdef int _cut_at(Segment* segment, const Part* part, int64_t position, int64_t before,
                 vector[Cut]* cuts) noexcept nogil:
    """The batch at the last index entry up to `position`."""
    cdef Walker walker
    cdef FileRef file
    cdef BatchHeader header
    cdef Cut cut
    cdef int code = segment_load_index(segment)
    if code == OK:
        code = segment_file(segment, &file)
    if code != OK:
        return code
    walker_start(&walker, segment, file.get().fd, part.end)
    segment.guard.lock()
    walker.position = index_position_before(&segment.index, position + 1)
    segment.guard.unlock()
    walker.position = max(walker.position, part.first)
    posix_fadvise(walker.fd, walker.position, WINDOW_SIZE, POSIX_FADV_WILLNEED)
    code = walker_next(&walker, &header)
    if code < 0:
        return code
    cut.offset = header.base_offset
    cut.position = before + walker.position - part.first
    # Where an index is sparser than the step two cuts fall on one batch: then the one counts twice.
    cuts.push_back(cut)
    return OK


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
        self.reader.is_done = False
        self.reader.rest.position = self.reader.rest.size = 0
        self.reader.crc = 0
        self.reader.bytes = self.reader.passed_bytes = self.reader.waited_ns = 0
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
        return self.reader.passed_bytes

    @property
    def is_quiet(self):
        """Nobody had committed for a second when the last frame was read."""
        return self.reader.is_quiet

    @property
    def waited_ns(self):
        """While a commit was at the disk."""
        return self.reader.waited_ns

    @property
    def holes(self):
        """[first, end) of the ranges that were passed over: damaged, or gone."""
        cdef size_t i
        return [(self.reader.holes[i], self.reader.holes[i + 1])
                for i in range(0, self.reader.holes.size(), 2)]


def cuts(Log log not None, int64_t first_offset, int64_t end_offset, int64_t step=0):
    """The bytes of a range, and where to cut it about every `step` bytes: offsets, each with the
    bytes before it."""
    cdef vector[Cut] found
    cdef int64_t size
    cdef size_t i
    cdef int code
    with nogil:
        code = _cuts(log.log.get(), first_offset, end_offset, step, &size, &found)
    if code != OK:
        raise from_code(code, f"{log.name}: offsets {first_offset} to {end_offset} cannot be cut "
                              f"every {step} bytes")
    return size, [(found[i].offset, found[i].position) for i in range(found.size())]


def lower_io_priority():
    """The calling thread reads from disk after all others; 0, or the errno of a refusal."""
    if syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_IDLE) == 0:
        return 0
    return errno

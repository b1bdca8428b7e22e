"""Bulk reads from disk leave no trace in the page cache, and come last.

What was not in the page cache before is dropped from it behind the reader, so that a walk through
old data does not push out what consumers at the end of the log are about to read. What was there
already stays. How that is known: before a segment is touched, `mincore` of a mapping that nobody
ever looks into.

A commit waits at the disk behind what is being read there. So while there are commits the reader
takes small pieces and nothing ahead, and begins none from disk while one is there, for as long as
PASS_NS_MAX: producers that never pause shall slow an export down, not end it. To find a batch with
the engine's own descriptor would bring in as much behind it as the disk is set to, megabytes: the
few pages in which it is looked for are asked for before.
"""

from libc.stdint cimport int64_t, uint8_t
from libcpp.vector cimport vector

from appliance.native._codes cimport OK
from appliance.native._descriptors cimport FileRef, file_own
from appliance.native._files cimport file_size, read_whole
from appliance.native._native cimport (
    O_CLOEXEC, O_RDONLY, POSIX_FADV_DONTNEED, POSIX_FADV_WILLNEED, errno, monotonic_ns, openat,
    posix_fadvise, snprintf,
)
from appliance.storage._index cimport index_position
from appliance.storage._segment cimport Segment, segment_file
from appliance.storage._segment_find cimport WINDOW_SIZE, segment_load_index
from appliance.storage._storage cimport Storage

cdef extern from "fcntl.h" nogil:
    enum:
        POSIX_FADV_NORMAL, POSIX_FADV_RANDOM

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
    PAGE_SIZE = 4096
    AHEAD_PAGES = 4096             # 16 MiB: twice what large read-ahead settings are
    PIECE_SIZE = 1 << 18           # a commit waits for one of them at most: 0.2 ms of a good disk
    QUIET_NS = 1000000000          # without a commit: then whole frames, and more ahead
    PASS_NS_MAX = 5000000          # so a piece takes 5 ms at worst, which is 50 MB/s
    PASS_LOOK_US = 50              # between two looks whether the commit is through
    IOPRIO_WHO_PROCESS = 1         # 0 as its number: the calling thread
    IOPRIO_IDLE = 3 << 13


# ---- without the GIL ----

cdef void bulk_bring_headers(Segment* segment, int64_t offset) noexcept nogil:
    cdef FileRef file
    cdef int64_t position
    if segment_load_index(segment) != OK or segment_file(segment, &file) != OK:
        return
    segment.guard.lock()
    position = index_position(&segment.index, max(<int64_t>0, offset - segment.base_offset))
    segment.guard.unlock()
    posix_fadvise(file.get().fd, position, WINDOW_SIZE, POSIX_FADV_WILLNEED)


cdef void bulk_open(BulkFile* bulk, const FileRef& file) noexcept nogil:
    cdef char[64] path
    cdef int fd
    if bulk.theirs.get() == file.get():
        return
    bulk_leave(bulk)
    bulk.theirs = file
    bulk.cached.clear()
    bulk.first_page = bulk.page = 0
    bulk.is_quiet = False
    # By the descriptor, not the name: compaction may have given the name to another file.
    snprintf(path, sizeof(path), b"/proc/self/fd/%d", file.get().fd)
    fd = openat(-100, path, O_RDONLY | O_CLOEXEC)
    if fd < 0:
        # No /proc, or no descriptor left: then read with the engine's, and drop nothing.
        bulk.file.reset()
        return
    posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM)
    bulk.file = file_own(fd)
    _look_at_cache(fd, &bulk.cached)


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


cdef int64_t bulk_read(BulkFile* bulk, Storage* storage, uint8_t* data, int64_t size,
                       int64_t position) noexcept nogil:
    cdef int64_t done = 0, piece, got
    if bulk.file.get() == NULL:
        return read_whole(bulk.theirs.get().fd, data, size, position)
    _choose_pace(bulk, storage, position)
    while done < size:
        _let_commits_pass(bulk, storage, position + done)
        piece = size - done
        if not bulk.is_quiet:
            # Up to the next multiple: the kernel would cut what lies across it in two.
            piece = min(PIECE_SIZE - (position + done) % PIECE_SIZE, size - done)
        got = read_whole(bulk.file.get().fd, data + done, piece, position + done)
        if got < 0:
            return got
        done += got
        if got < piece:
            break
    return done


cdef void _choose_pace(BulkFile* bulk, Storage* storage, int64_t position) noexcept nogil:
    """The kernel may read ahead for as long as nobody commits. What it has read ahead says where it
    is to go on, to whoever comes by there, so it goes when somebody does."""
    cdef int64_t page = position // PAGE_SIZE
    cdef bint is_quiet = monotonic_ns() - storage.committed_ns.load() > QUIET_NS
    if is_quiet == bulk.is_quiet:
        return
    bulk.is_quiet = is_quiet
    posix_fadvise(bulk.file.get().fd, 0, 0,
                  POSIX_FADV_NORMAL if is_quiet else POSIX_FADV_RANDOM)
    if not is_quiet:
        _drop(bulk, page, page + AHEAD_PAGES)


cdef void _let_commits_pass(BulkFile* bulk, Storage* storage, int64_t position) noexcept nogil:
    """Nothing to wait for when the page is in the cache, as far as was known."""
    cdef size_t page = position // PAGE_SIZE
    cdef int64_t begin, now
    if page < bulk.cached.size() and bulk.cached[page] & 1:
        return
    begin = now = monotonic_ns()
    while storage.commits_at_disk.load() > 0 and now - begin < PASS_NS_MAX:
        usleep(PASS_LOOK_US)
        now = monotonic_ns()
    bulk.waited_ns += now - begin


cdef void bulk_drop_behind(BulkFile* bulk, int64_t position, int64_t size) noexcept nogil:
    cdef int64_t page = position // PAGE_SIZE
    if bulk.file.get() == NULL:
        return
    if bulk.page == 0:
        bulk.first_page = page
    bulk.page = (position + size) // PAGE_SIZE
    bulk.passed_bytes += _drop(bulk, page, bulk.page)


cdef void bulk_leave(BulkFile* bulk) noexcept nogil:
    """What was read ahead goes, too, and what reading ahead put into folios larger than a frame:
    the kernel drops a folio whole or not at all."""
    if bulk.file.get() != NULL and bulk.page > 0:
        _drop(bulk, bulk.first_page, bulk.page + AHEAD_PAGES)
        bulk.page = 0


cdef int64_t _drop(BulkFile* bulk, int64_t page, int64_t end) noexcept nogil:
    """Runs of pages that were not there before; their bytes."""
    cdef int64_t begin, size = 0
    # Behind what was looked at is what was written since: the hot end.
    end = min(end, <int64_t>bulk.cached.size())
    while page < end:
        begin = page
        while page < end and not bulk.cached[page] & 1:
            page += 1
        if page > begin:
            posix_fadvise(bulk.file.get().fd, begin * PAGE_SIZE, (page - begin) * PAGE_SIZE,
                          POSIX_FADV_DONTNEED)
            size += (page - begin) * PAGE_SIZE
        while page < end and bulk.cached[page] & 1:
            page += 1
    return size


# ---- with the GIL ----

def lower_io_priority():
    """The calling thread reads from disk after all others; 0, or the errno of a refusal."""
    if syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_IDLE) == 0:
        return 0
    return errno

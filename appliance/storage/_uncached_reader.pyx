"""Reads past the page cache.

Only O_DIRECT reads the disk: a read through the cache returns a cached page even if its sectors are
damaged, and so does RWF_DONTCACHE. It neither fills
the cache nor takes a page from it, so that readers keep what they have. The file is opened anew for
it, by the engine's descriptor and not by name: compaction may have given the name to another file.

Where the file system refuses O_DIRECT (tmpfs of old kernels, some FUSE), clean pages are dropped
before they are read. Readers then lose them for once; to be told of damage is worth that.
"""

from libc.stdint cimport int64_t, uint8_t, uintptr_t
from libc.string cimport memset
from libcpp.vector cimport vector

from appliance.native._codes cimport BATCH_TORN, OK
from appliance.native._descriptors cimport FileRef, file_own
from appliance.native._files cimport is_media_error, storage_code
from appliance.native._native cimport (
    EINTR, EMFILE, ENFILE, O_CLOEXEC, O_RDONLY, POSIX_FADV_DONTNEED, errno, monotonic_ns,
    openat, posix_fadvise, pread, snprintf,
)
from appliance.storage._storage cimport Storage, StorageRef

cdef extern from "fcntl.h" nogil:
    int O_DIRECT

cdef extern from "errno.h" nogil:
    int EINVAL

cdef extern from "unistd.h" nogil:
    int usleep(unsigned int microseconds)

cdef enum:
    PAGE_SIZE = 4096               # what O_DIRECT may want as alignment of all
    READ_SIZE = 1048576            # at hand, unless one batch is larger
    PIECE_SIZE = 1 << 18           # a commit waits for one of them at most: 0.2 ms of a good disk
    PASS_NS_MAX = 5000000          # commits that never pause slow a reader down, and do not end it
    PASS_LOOK_US = 50


# ---- without the GIL ----

cdef int disk_open(DiskReader* reader, const StorageRef& storage, const FileRef& file,
                   int64_t end) noexcept nogil:
    cdef char[64] path
    cdef int fd
    reader.storage = storage
    reader.end = end
    reader.read_bytes = 0
    disk_forget(reader)
    snprintf(path, sizeof(path), b"/proc/self/fd/%d", file.get().fd)
    fd = openat(-100, path, O_RDONLY | O_CLOEXEC | O_DIRECT)
    reader.is_direct = fd >= 0
    if fd < 0 and errno != EMFILE and errno != ENFILE:
        fd = openat(-100, path, O_RDONLY | O_CLOEXEC)
    if fd < 0:
        return storage_code(errno)
    reader.file = file_own(fd)
    return OK


cdef void disk_close(DiskReader* reader) noexcept nogil:
    cdef vector[uint8_t] none
    disk_forget(reader)
    reader.file.reset()
    reader.space.swap(none)


cdef int disk_have(DiskReader* reader, int64_t position, int64_t need) noexcept nogil:
    cdef int64_t begin, size
    cdef int code
    if reader.begin <= position and position + need <= reader.begin + reader.size:
        return OK
    if position + need > reader.end:
        return BATCH_TORN
    begin = position & ~<int64_t>(PAGE_SIZE - 1)
    size = max(position + need - begin, min(<int64_t>READ_SIZE, reader.end - begin))
    size = (size + PAGE_SIZE - 1) // PAGE_SIZE * PAGE_SIZE
    code = _fill(reader, begin, size)
    if code != OK:
        return code
    return OK if position + need <= reader.begin + reader.size else BATCH_TORN


cdef int _fill(DiskReader* reader, int64_t begin, int64_t size) noexcept nogil:
    cdef int64_t done = 0, piece, got
    if <int64_t>reader.space.size() < size + PAGE_SIZE:
        reader.space.resize(size + PAGE_SIZE)
    reader.data = reader.space.data()
    reader.data += PAGE_SIZE - <uintptr_t>reader.data % PAGE_SIZE
    reader.begin, reader.size = begin, 0
    if not reader.is_direct:
        posix_fadvise(reader.file.get().fd, begin, size, POSIX_FADV_DONTNEED)
    while done < size:
        _let_commits_pass(reader.storage.get())
        piece = min(<int64_t>PIECE_SIZE, size - done)
        got = _read(reader, done, piece)
        if got < 0:
            return <int>got
        done += got
        if got < piece:
            break
    reader.size = done
    reader.read_bytes += done
    return OK


cdef int64_t _read(DiskReader* reader, int64_t done, int64_t size) noexcept nogil:
    """Up to the end of the file: a count, or a code."""
    cdef int64_t got
    while True:
        got = pread(reader.file.get().fd, reader.data + done, size, reader.begin + done)
        if got >= 0:
            return got
        if errno == EINVAL and reader.is_direct:
            # Opened so, and not read so: some file systems say it only now.
            if not _reopen(reader):
                return storage_code(errno)
        elif is_media_error(errno):
            return _read_pages(reader, done, size)
        elif errno != EINTR:
            return storage_code(errno)


cdef bint _reopen(DiskReader* reader) noexcept nogil:
    cdef char[64] path
    cdef int fd
    snprintf(path, sizeof(path), b"/proc/self/fd/%d", reader.file.get().fd)
    fd = openat(-100, path, O_RDONLY | O_CLOEXEC)
    if fd < 0:
        return False
    reader.file = file_own(fd)
    reader.is_direct = False
    return True


cdef int64_t _read_pages(DiskReader* reader, int64_t done, int64_t size) noexcept nogil:
    """Where the disk refuses a piece: all pages of it that it does not refuse."""
    cdef int64_t at = 0, got
    while at < size:
        got = pread(reader.file.get().fd, reader.data + done + at, PAGE_SIZE,
                    reader.begin + done + at)
        if got < 0 and is_media_error(errno):
            if reader.refused < 0:
                reader.refused = reader.begin + done + at
            memset(reader.data + done + at, 0, PAGE_SIZE)
            got = PAGE_SIZE
        elif got < 0 and errno != EINTR:
            return storage_code(errno)
        at += max(got, <int64_t>0)
        if 0 <= got < PAGE_SIZE:
            break
    return at


cdef void _let_commits_pass(Storage* storage) noexcept nogil:
    """A commit waits at the disk behind what is being read there."""
    cdef int64_t begin = monotonic_ns()
    if storage == NULL:
        return  # a file beside the logs
    while storage.commits_at_disk.load() > 0 and monotonic_ns() - begin < PASS_NS_MAX:
        usleep(PASS_LOOK_US)

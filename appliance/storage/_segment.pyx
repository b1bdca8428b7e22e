"""One segment file: open, append, rest, unlink, and store its index files.

Invariants
1. Bytes below `size` never change. A reader that holds the file may send them at any time.
2. `size` grows only after the bytes are written, so no reader gets a partial batch.
3. A failed append leaves the file unchanged, or the segment accepts no more appends.
4. An index entry is used only after its batch was checked; batches without an entry are walked.
"""

from libc.stdint cimport int64_t, uint8_t
from libcpp.memory cimport make_shared

from appliance.native._codes cimport LOG_CLOSED, LOG_FAILED, OFFSET_OUT_OF_RANGE, OK, STORAGE_IO
from appliance.native._descriptors cimport (
    DirectoryRef, FileRef, directory_hold, file_own, open_counted,
)
from appliance.native._files cimport (
    NAME_SIZE, failure_note, file_name, sync_code, write_whole,
)
from appliance.native._native cimport (
    ENOENT, EROFS, O_CREAT, O_EXCL, O_RDONLY, O_RDWR, ScopeLock, c_stat, errno, fstatat,
    ftruncate, unlinkat, zeroed,
)
from appliance.record._batch cimport BatchHeader
from appliance.storage._index cimport (
    OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE, Index, index_add_offset, index_add_time, index_store,
)

cdef extern from "fcntl.h" nogil:
    int AT_SYMLINK_NOFOLLOW


# ---- without the GIL ----

cdef SegmentRef segment_new(const DirectoryRef& directory, int64_t base_offset) noexcept nogil:
    cdef SegmentRef segment = make_shared[Segment]()
    segment.get().base_offset = base_offset
    segment.get().directory = directory
    segment.get().largest_timestamp.store(-1)
    segment.get().largest_timestamp_offset.store(base_offset)
    segment.get().first_timestamp = -1
    segment.get().end_offset.store(base_offset)
    return segment


cdef int segment_create(Segment* segment) noexcept nogil:
    cdef char[NAME_SIZE] name
    cdef FileRef directory
    cdef c_stat status
    cdef int code, fd = directory_hold(segment.directory.get(), &directory)
    if fd != OK:
        return fd
    file_name(name, segment.base_offset, b".log")
    if fstatat(directory.get().fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0 and errno == ENOENT:
        # There is no segment here: what a crash left of an earlier one of this offset is not of it.
        code = _unlink_beside(segment, directory.get().fd)
        if code != OK:
            return code
    fd = open_counted(directory.get().fd, name, O_RDWR | O_CREAT | O_EXCL)
    if fd < 0:
        return fd
    segment.file = file_own(fd)
    segment.index_is_loaded = True
    segment.largest_is_known.store(True)
    return OK


cdef int segment_file(Segment* segment, FileRef* file) noexcept nogil:
    return _hold_file(segment, file, False)


cdef int segment_file_to_write(Segment* segment, FileRef* file) noexcept nogil:
    return _hold_file(segment, file, True)


cdef int _hold_file(Segment* segment, FileRef* file, bint is_to_write) noexcept nogil:
    cdef int code
    cdef ScopeLock lock
    lock.hold(segment.guard)
    if is_to_write and segment.is_read_only and not segment.is_replaced:
        segment.file.reset()  # read-only so far: the file system may accept writes again
    code = _open_locked(segment)
    if code == OK and is_to_write and segment.is_read_only:
        code = failure_note(b"open to write", b"", EROFS)
    if code == OK:
        file[0] = segment.file
    return code


cdef int _open_locked(Segment* segment) noexcept nogil:
    cdef char[NAME_SIZE] name
    cdef FileRef directory
    cdef int fd
    if segment.file.get() != NULL:
        return OK
    if segment.is_closed:
        return LOG_CLOSED
    fd = directory_hold(segment.directory.get(), &directory)
    if fd != OK:
        return fd
    file_name(name, segment.base_offset, b".log")
    # Writable although most are only read: a write-back error is reported to descriptors that were
    # open during the file's active life.
    fd = open_counted(directory.get().fd, name, O_RDWR)
    segment.is_read_only = fd < 0 and errno == EROFS
    if segment.is_read_only:
        fd = open_counted(directory.get().fd, name, O_RDONLY)
    if fd < 0:
        return OFFSET_OUT_OF_RANGE if errno == ENOENT else fd
    segment.file = file_own(fd)
    return OK


cdef int segment_pin(Segment* segment) noexcept nogil:
    cdef int code
    cdef ScopeLock lock
    lock.hold(segment.guard)
    code = _open_locked(segment)
    segment.is_replaced = code == OK
    return code


cdef bint segment_rest(Segment* segment, int64_t before_ns, bint keeps_index) noexcept nogil:
    cdef bint was_open
    cdef ScopeLock lock
    if segment.read_ns.load() >= before_ns or not lock.try_hold(segment.guard):
        return False
    # A reader's reference keeps the file open in any case.
    was_open = (not segment.is_replaced and segment.file.get() != NULL
                and segment.file.use_count() == 1)
    if was_open or not segment.is_replaced and not keeps_index:
        segment.file.reset()
    if not segment.is_replaced and not keeps_index:
        segment.index = zeroed[Index]()
        segment.index_is_loaded = False
    return was_open


cdef void segment_close(Segment* segment) noexcept nogil:
    cdef ScopeLock lock
    lock.hold(segment.guard)
    segment.is_closed = True
    segment.file.reset()
    segment.index = zeroed[Index]()
    segment.index_is_loaded = False


cdef int segment_append(Segment* segment, const uint8_t* data, const BatchHeader* header,
                        int64_t index_interval) noexcept nogil:
    cdef int64_t position = segment.size.load()
    cdef FileRef file
    cdef int code = segment_file_to_write(segment, &file)
    if code != OK:
        return code
    code = write_whole(file.get().fd, data, header.size, position)
    if code != OK:
        # No reader has seen these bytes: the visible size ends before them.
        if ftruncate(file.get().fd, position) < 0:
            code = sync_code(failure_note(b"truncate", b"", errno))
            return LOG_FAILED if code == STORAGE_IO else code
        return code
    segment_note(segment, header, position, index_interval)
    return OK


cdef void segment_note(Segment* segment, const BatchHeader* header, int64_t position,
                       int64_t index_interval) noexcept nogil:
    cdef int64_t last_offset = header.base_offset + header.last_offset_delta
    cdef ScopeLock lock
    if position == 0:
        segment.first_timestamp = header.max_timestamp
    # An emptied batch has no record with this timestamp, but the dump tool would search for one.
    if header.max_timestamp > segment.largest_timestamp.load() and header.records_count > 0:
        segment.largest_timestamp.store(header.max_timestamp)
        segment.largest_timestamp_offset.store(last_offset)
    lock.hold(segment.guard)
    if segment.bytes_since_index > index_interval:
        index_add_offset(&segment.index, last_offset - segment.base_offset, position)
        if segment.largest_timestamp.load() >= 0:
            index_add_time(&segment.index, segment.largest_timestamp.load(),
                           segment.largest_timestamp_offset.load() - segment.base_offset)
        segment.bytes_since_index = 0
    segment.bytes_since_index += header.size
    # In this order: a reader loads the size first, so it never sees a batch beyond the end offset
    # that it loads.
    segment.end_offset.store(last_offset + 1)
    segment.size.store(position + header.size)


cdef int64_t segment_index_bytes(Segment* segment) noexcept nogil:
    cdef int64_t offsets, times
    cdef ScopeLock lock
    lock.hold(segment.guard)
    offsets = (segment.index.offsets.size() + 1) * OFFSET_ENTRY_SIZE
    # Two more entries: that of the next batch, and the one that a roll adds.
    times = (segment.index.times.size() + 2) * TIME_ENTRY_SIZE
    return max(offsets, times)


cdef bint segment_index_is_stored(Segment* segment) noexcept nogil:
    cdef ScopeLock lock
    lock.hold(segment.guard)
    return (segment.index.offsets_stored == segment.index.offsets.size()
            and segment.index.times_stored == segment.index.times.size())


cdef void segment_seal_times(Segment* segment) noexcept nogil:
    cdef ScopeLock lock
    if segment.largest_timestamp.load() < 0:
        return
    lock.hold(segment.guard)
    index_add_time(&segment.index, segment.largest_timestamp.load(),
                   segment.largest_timestamp_offset.load() - segment.base_offset)


cdef void segment_forget_stored(Segment* segment) noexcept nogil:
    cdef ScopeLock lock
    lock.hold(segment.guard)
    segment.index.offsets_stored = segment.index.times_stored = 0


cdef int segment_store_index(Segment* segment, bint durable) noexcept nogil:
    cdef FileRef directory
    cdef int code
    cdef ScopeLock lock
    lock.hold(segment.guard)
    if segment.is_replaced:
        return LOG_CLOSED  # the files are another segment's
    if not segment.index_is_loaded:
        return OK
    code = directory_hold(segment.directory.get(), &directory)
    if code == OK:
        code = index_store(&segment.index, directory.get().fd, segment.base_offset, durable)
    return code


cdef int segment_drop_times(Segment* segment) noexcept nogil:
    cdef FileRef directory
    cdef int code = directory_hold(segment.directory.get(), &directory)
    return _unlink(directory.get().fd, segment.base_offset, b".timeindex") if code == OK else code


cdef int segment_unlink(Segment* segment) noexcept nogil:
    cdef FileRef directory
    cdef int code = directory_hold(segment.directory.get(), &directory)
    # The transaction index never without its log: it would be believed at a later start.
    if code == OK:
        code = _unlink_beside(segment, directory.get().fd)
    if code == OK:
        code = _unlink(directory.get().fd, segment.base_offset, b".log")
    return code


cdef int _unlink_beside(Segment* segment, int directory_fd) noexcept nogil:
    """An index or a snapshot that stays is told of by nobody: it is derived. The transaction index
    is not."""
    cdef int code = _unlink(directory_fd, segment.base_offset, b".txnindex")
    _unlink(directory_fd, segment.base_offset, b".snapshot")
    _unlink(directory_fd, segment.base_offset, b".timeindex")
    _unlink(directory_fd, segment.base_offset, b".index")
    return code


cdef int _unlink(int directory_fd, int64_t base_offset, const char* suffix) noexcept nogil:
    cdef char[NAME_SIZE] name
    file_name(name, base_offset, suffix)
    if unlinkat(directory_fd, name, 0) < 0 and errno != ENOENT:
        return failure_note(b"unlink", name, errno)
    return OK

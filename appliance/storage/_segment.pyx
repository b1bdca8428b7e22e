"""One segment file: append at its end, find a batch in it, keep its indexes.

What holds at all times
1. Bytes below `size` never change. A reader that holds the file may send them at its leisure.
2. `size` grows only after the bytes are written, so nobody reads a batch half there.
3. A failed append leaves the file as it was before, or the segment takes no more appends.
4. An index entry is believed only after the batch it names was looked at; what it lacks is walked.
"""

from libc.stdint cimport INT64_MAX, int64_t, uint8_t
from libcpp.memory cimport make_shared
from libcpp.vector cimport vector

from appliance.native._codes cimport (
    BATCH_CORRUPT, LOG_CLOSED, LOG_FAILED, OFFSET_OUT_OF_RANGE, OK, WOULD_WAIT,
)
from appliance.native._descriptors cimport (
    DirectoryRef, FileRef, directory_hold, file_own, open_counted,
)
from appliance.native._files cimport (
    NAME_SIZE, disk_must_not_wait, failure_note, file_name, read_whole, write_whole,
)
from appliance.native._native cimport (
    ENOENT, EROFS, O_CREAT, O_EXCL, O_RDONLY, O_RDWR, errno, ftruncate, monotonic_ns, unlinkat,
)
from appliance.record._batch cimport (
    BATCH_HEADER_SIZE, BatchHeader, batch_check_header, batch_load_header,
)
from appliance.storage._index cimport (
    OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE, Index, index_add_offset, index_add_time, index_load,
    index_offset_before, index_position, index_position_before, index_store,
)


cdef enum:
    ENTRIES_TRIED = 8
    GUARD_TRIES = 100              # some microseconds: an append holds it for less


# ---- without the GIL ----

cdef SegmentRef segment_new(const DirectoryRef& directory, int64_t base_offset) noexcept nogil:
    cdef SegmentRef segment = make_shared[Segment]()
    segment.get().base_offset = base_offset
    segment.get().directory = directory
    segment.get().largest_timestamp.store(-1)
    segment.get().largest_timestamp_offset.store(base_offset)
    segment.get().first_timestamp = -1
    segment.get().end_offset.store(base_offset)
    segment.get().size.store(0)
    segment.get().read_ns.store(0)
    return segment


cdef int segment_create(Segment* segment) noexcept nogil:
    cdef char[NAME_SIZE] name
    cdef FileRef directory
    cdef int fd = directory_hold(segment.directory.get(), &directory)
    if fd != OK:
        return fd
    file_name(name, segment.base_offset, b".log")
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
    segment.guard.lock()
    if is_to_write and segment.is_read_only and not segment.is_replaced:
        segment.file.reset()  # nothing was written by it: the file system may take writes again
    code = _open_locked(segment)
    if code == OK and is_to_write and segment.is_read_only:
        code = failure_note(b"open to write", b"", EROFS)
    if code == OK:
        file[0] = segment.file
    segment.guard.unlock()
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
    # Writable although most are only read: a descriptor kept open for the file's active life is
    # what reports a write-back error, whoever caused it.
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
    segment.guard.lock()
    code = _open_locked(segment)
    segment.is_replaced = code == OK
    segment.guard.unlock()
    return code


cdef int64_t segment_index_bytes(Segment* segment) noexcept nogil:
    cdef int64_t offsets, times
    segment.guard.lock()
    offsets = (segment.index.offsets.size() + 1) * OFFSET_ENTRY_SIZE
    # Two to come: that of the next batch and the one that a roll adds.
    times = (segment.index.times.size() + 2) * TIME_ENTRY_SIZE
    segment.guard.unlock()
    return max(offsets, times)


cdef bint segment_index_is_stored(Segment* segment) noexcept nogil:
    cdef bint is_stored
    segment.guard.lock()
    is_stored = (segment.index.offsets_stored == segment.index.offsets.size()
                 and segment.index.times_stored == segment.index.times.size())
    segment.guard.unlock()
    return is_stored


cdef bint segment_rest(Segment* segment, int64_t before_ns, bint keeps_index) noexcept nogil:
    cdef Index empty
    cdef bint was_open
    if segment.read_ns.load() >= before_ns or not segment.guard.try_lock():
        return False
    # What a reader holds stays open whatever is done here.
    was_open = (not segment.is_replaced and segment.file.get() != NULL
                and segment.file.use_count() == 1)
    if was_open or not segment.is_replaced and not keeps_index:
        segment.file.reset()
    if not segment.is_replaced and not keeps_index:
        segment.index = empty
        segment.index_is_loaded = False
    segment.guard.unlock()
    return was_open


cdef void segment_close(Segment* segment) noexcept nogil:
    cdef Index empty
    segment.guard.lock()
    segment.is_closed = True
    segment.file.reset()
    segment.index = empty
    segment.index_is_loaded = False
    segment.guard.unlock()


cdef void segment_set_damaged(Segment* segment, const vector[Damaged]& damaged) noexcept nogil:
    segment.guard.lock()
    segment.damaged = damaged
    segment.is_damaged.store(not damaged.empty())
    segment.guard.unlock()


cdef int64_t segment_past_damage(Segment* segment, int64_t position) noexcept nogil:
    cdef size_t i
    if not segment.is_damaged.load():
        return position
    segment.guard.lock()
    for i in range(segment.damaged.size()):
        if segment.damaged[i].position <= position < segment.damaged[i].end_position:
            position = segment.damaged[i].end_position
    segment.guard.unlock()
    return position


cdef int64_t segment_next_damage(Segment* segment, int64_t position) noexcept nogil:
    cdef int64_t found = INT64_MAX
    cdef size_t i
    if not segment.is_damaged.load():
        return found
    segment.guard.lock()
    for i in range(segment.damaged.size()):
        if segment.damaged[i].position > position:
            found = min(found, segment.damaged[i].position)
    segment.guard.unlock()
    return found


cdef void walker_start(Walker* walker, Segment* segment, int fd, int64_t end) noexcept nogil:
    walker.segment = segment
    walker.fd = fd
    walker.position = walker.window_size = 0
    walker.end = end


cdef int walker_next(Walker* walker, BatchHeader* header) noexcept nogil:
    cdef int64_t left, got
    if walker.segment != NULL:
        walker.position = segment_past_damage(walker.segment, walker.position)
    left = walker.end - walker.position
    if left <= 0:
        return 0
    if (walker.position < walker.window_from or walker.window_size == 0
            or walker.position + BATCH_HEADER_SIZE > walker.window_from + walker.window_size):
        got = read_whole(walker.fd, walker.window, min(WINDOW_SIZE, left), walker.position)
        if got < 0:
            return <int>got
        walker.window_from = walker.position
        walker.window_size = got
        if got < BATCH_HEADER_SIZE:
            return BATCH_CORRUPT
    batch_load_header(walker.window + (walker.position - walker.window_from), header)
    # Also one of another magic: what is stored was none when it was written.
    return 1 if batch_check_header(header, left) == OK else BATCH_CORRUPT


cdef int segment_append(Segment* segment, const uint8_t* data, const BatchHeader* header,
                        int64_t index_interval) noexcept nogil:
    cdef int64_t position = segment.size.load()
    cdef FileRef file
    cdef int code = segment_file_to_write(segment, &file)
    if code != OK:
        return code
    code = write_whole(file.get().fd, data, header.size, position)
    if code != OK:
        # Nobody has seen these bytes: the visible size still ends before them.
        if ftruncate(file.get().fd, position) < 0:
            failure_note(b"truncate", b"", errno)
            return LOG_FAILED
        return code
    segment_note(segment, header, position, index_interval)
    return OK


cdef void segment_note(Segment* segment, const BatchHeader* header, int64_t position,
                       int64_t index_interval) noexcept nogil:
    cdef int64_t last_offset = header.base_offset + header.last_offset_delta
    if position == 0:
        segment.first_timestamp = header.max_timestamp
    # An emptied batch has no record with this timestamp, and the dump tool would look for one.
    if header.max_timestamp > segment.largest_timestamp.load() and header.records_count > 0:
        segment.largest_timestamp.store(header.max_timestamp)
        segment.largest_timestamp_offset.store(last_offset)
    segment.guard.lock()
    if segment.bytes_since_index > index_interval:
        index_add_offset(&segment.index, last_offset - segment.base_offset, position)
        if segment.largest_timestamp.load() >= 0:
            index_add_time(&segment.index, segment.largest_timestamp.load(),
                           segment.largest_timestamp_offset.load() - segment.base_offset)
        segment.bytes_since_index = 0
    segment.bytes_since_index += header.size
    # In this order: a reader looks at the size first, so it never takes a batch for one within an
    # end offset that it is beyond.
    segment.end_offset.store(last_offset + 1)
    segment.size.store(position + header.size)
    segment.guard.unlock()


cdef void segment_seal_times(Segment* segment) noexcept nogil:
    if segment.largest_timestamp.load() < 0:
        return
    segment.guard.lock()
    index_add_time(&segment.index, segment.largest_timestamp.load(),
                   segment.largest_timestamp_offset.load() - segment.base_offset)
    segment.guard.unlock()


cdef int segment_find(Segment* segment, int64_t offset, Found* found) noexcept nogil:
    cdef Walker walker
    cdef FileRef file
    cdef int64_t last_offset
    cdef int code = _walk_from(segment, offset, &walker, &file)
    if code != OK:
        return code
    while True:
        code = walker_next(&walker, &found.header)
        if code <= 0:
            return OFFSET_OUT_OF_RANGE if code == 0 else code
        last_offset = found.header.base_offset + found.header.last_offset_delta
        # One that claims offsets beyond the segment is damaged: what follows it may still be good.
        if offset <= last_offset < segment.end_offset.load():
            found.position = walker.position
            return OK
        walker.position += found.header.size


cdef int segment_find_time(Segment* segment, int64_t timestamp, Found* found) noexcept nogil:
    cdef Walker walker
    cdef FileRef file
    cdef int64_t relative
    cdef int code = segment_load_index(segment)
    if code != OK:
        return code
    segment.guard.lock()
    relative = index_offset_before(&segment.index, timestamp)
    segment.guard.unlock()
    # Every batch up to and with that entry's is older: entries are running maxima.
    code = _walk_from(segment, segment.base_offset + relative + 1, &walker, &file)
    if code != OK:
        return code
    while True:
        code = walker_next(&walker, &found.header)
        if code <= 0:
            return OFFSET_OUT_OF_RANGE if code == 0 else code
        if found.header.max_timestamp >= timestamp and found.header.records_count > 0:
            found.position = walker.position
            return OK
        walker.position += found.header.size


cdef int _walk_from(Segment* segment, int64_t offset, Walker* walker, FileRef* file) noexcept nogil:
    """A walker at or before the batch that holds `offset`."""
    cdef BatchHeader header
    cdef int _tries
    cdef int code = WOULD_WAIT
    if disk_must_not_wait() and not _is_at_hand(segment):
        return code
    code = segment_load_index(segment)
    if code == OK:
        code = segment_file(segment, file)
    if code != OK:
        return code
    segment.read_ns.store(monotonic_ns())
    walker_start(walker, segment, file.get().fd, segment.size.load())
    segment.guard.lock()
    walker.position = index_position(&segment.index, offset - segment.base_offset)
    segment.guard.unlock()
    for _tries in range(ENTRIES_TRIED):
        if walker.position == 0:
            return OK
        code = walker_next(walker, &header)
        if code == WOULD_WAIT:
            return code
        if code == 1 and segment.base_offset <= header.base_offset <= offset:
            return OK
        # The entry names no batch, or a damaged one: the entry before it leads there as well.
        segment.guard.lock()
        walker.position = index_position_before(&segment.index, walker.position)
        segment.guard.unlock()
        walker.window_size = 0
    if disk_must_not_wait():
        return WOULD_WAIT  # the whole segment is to be read
    # So many wrong ones are no damage of the log: the index goes; walking from the start is right.
    code = segment_rebuild_index(segment, 4096)
    walker.position = 0
    walker.window_size = 0
    return code


cdef bint _is_at_hand(Segment* segment) noexcept nogil:
    """Whether file and index are open. Who opens or stores them holds the guard while it waits for
    the disk; an append has it for a moment, which is no reason to ask another thread."""
    cdef bint is_at_hand
    cdef int _try
    for _try in range(GUARD_TRIES):
        if segment.guard.try_lock():
            is_at_hand = segment.index_is_loaded and segment.file.get() != NULL
            segment.guard.unlock()
            return is_at_hand
    return False


cdef int segment_load_index(Segment* segment) noexcept nogil:
    cdef FileRef directory
    cdef int code = OK
    cdef int64_t known = 0, size
    segment.guard.lock()
    if segment.index_is_loaded or segment.is_closed:
        code = OK if segment.index_is_loaded else LOG_CLOSED
        segment.guard.unlock()
        return code
    size = segment.size.load()
    code = directory_hold(segment.directory.get(), &directory)
    if code == OK:
        code = index_load(&segment.index, directory.get().fd, segment.base_offset, size)
    segment.index_is_loaded = code == OK
    if code == OK and not segment.index.offsets.empty():
        known = segment.index.offsets.back().position
    segment.bytes_since_index = size - known
    segment.guard.unlock()
    if code == OK and size - known > INDEX_GAP_MAX:
        code = segment_rebuild_index(segment, 4096)
    return code


cdef int segment_rebuild_index(Segment* segment, int64_t index_interval) noexcept nogil:
    cdef Index index
    cdef Walker walker
    cdef FileRef file
    cdef BatchHeader header
    cdef int64_t since = 0, largest = -1, largest_offset = segment.base_offset, last_offset
    cdef int code = segment_file(segment, &file)
    if code != OK:
        return code
    walker_start(&walker, segment, file.get().fd, segment.size.load())
    # None of it is in the files yet: the next store writes them anew.
    index.offsets_stored = index.times_stored = 0
    code = walker_next(&walker, &header)
    while code == 1:
        last_offset = header.base_offset + header.last_offset_delta
        if header.max_timestamp > largest and header.records_count > 0:
            largest = header.max_timestamp
            largest_offset = last_offset
        if since > index_interval:
            index_add_offset(&index, last_offset - segment.base_offset, walker.position)
            if largest >= 0:
                index_add_time(&index, largest, largest_offset - segment.base_offset)
            since = 0
        since += header.size
        walker.position += header.size
        code = walker_next(&walker, &header)
    if code != OK and code != BATCH_CORRUPT:
        return code  # of half a segment: what stood there before leads further
    if largest >= 0:
        index_add_time(&index, largest, largest_offset - segment.base_offset)
    segment.guard.lock()
    # Appends went on meanwhile: then the rebuilt one is a little sparse at its end, which is legal.
    segment.index = index
    segment.index_is_loaded = True
    segment.guard.unlock()
    return OK


cdef int segment_load_largest(Segment* segment) noexcept nogil:
    """A time index without its tail must not make a segment look old: what follows is walked."""
    cdef Walker walker
    cdef FileRef file
    cdef BatchHeader header
    cdef int64_t largest = -1, largest_offset = segment.base_offset
    cdef int code
    if segment.largest_is_known.load():
        return OK
    code = segment_load_index(segment)
    if code != OK:
        return code
    segment.guard.lock()
    if not segment.index.times.empty():
        largest = segment.index.times.back().timestamp
        largest_offset = segment.base_offset + segment.index.times.back().relative_offset
    segment.guard.unlock()
    code = _walk_from(segment, largest_offset, &walker, &file)
    if code != OK:
        return code
    code = walker_next(&walker, &header)
    while code == 1:
        if header.max_timestamp > largest and header.records_count > 0:
            largest = header.max_timestamp
            largest_offset = header.base_offset + header.last_offset_delta
        walker.position += header.size
        code = walker_next(&walker, &header)
    if code < 0:
        return code
    segment.largest_timestamp.store(largest)
    segment.largest_timestamp_offset.store(largest_offset)
    segment.largest_is_known.store(True)
    return OK


cdef void segment_forget_stored(Segment* segment) noexcept nogil:
    segment.guard.lock()
    segment.index.offsets_stored = segment.index.times_stored = 0
    segment.guard.unlock()


cdef int segment_store_index(Segment* segment, bint durable) noexcept nogil:
    cdef FileRef directory
    cdef int code
    segment.guard.lock()
    code = OK
    if segment.index_is_loaded:
        code = directory_hold(segment.directory.get(), &directory)
    if segment.index_is_loaded and code == OK:
        code = index_store(&segment.index, directory.get().fd, segment.base_offset, durable)
    segment.guard.unlock()
    return code


cdef int segment_unlink(Segment* segment) noexcept nogil:
    cdef char[NAME_SIZE] name
    cdef FileRef directory
    cdef int directory_fd
    cdef int code = directory_hold(segment.directory.get(), &directory)
    if code != OK:
        return code
    directory_fd = directory.get().fd
    file_name(name, segment.base_offset, b".log")
    if unlinkat(directory_fd, name, 0) < 0 and errno != ENOENT:
        return failure_note(b"unlink", name, errno)
    file_name(name, segment.base_offset, b".index")
    unlinkat(directory_fd, name, 0)
    file_name(name, segment.base_offset, b".timeindex")
    unlinkat(directory_fd, name, 0)
    file_name(name, segment.base_offset, b".txnindex")
    unlinkat(directory_fd, name, 0)
    file_name(name, segment.base_offset, b".snapshot")
    unlinkat(directory_fd, name, 0)
    return OK


# ---- with the GIL ----

"""Finds a batch in a segment: by its index, and from there by walking over batch headers."""

from libc.stdint cimport INT64_MAX, int64_t
from libcpp.vector cimport vector

from appliance.native._codes cimport BATCH_CORRUPT, LOG_CLOSED, OFFSET_OUT_OF_RANGE, OK, WOULD_WAIT
from appliance.native._descriptors cimport FileRef, directory_hold
from appliance.native._files cimport disk_must_not_wait, read_whole
from appliance.native._native cimport ScopeLock, monotonic_ns, zeroed
from appliance.record._batch cimport BATCH_HEADER_SIZE, batch_check_header, batch_load_header
from appliance.storage._index cimport (
    Index, index_add_offset, index_add_time, index_load, index_offset_before, index_position,
    index_position_before,
)
from appliance.storage._segment cimport segment_file

cdef enum:
    ENTRIES_TRIED = 8
    GUARD_TRIES = 100              # some microseconds, more than an append holds the guard
    INDEX_GAP_MAX = 8388608        # an index without entries for this many bytes is rebuilt


# ---- without the GIL ----

cdef int segment_find(Segment* segment, int64_t offset, LocatedBatch* batch) noexcept nogil:
    cdef Walker walker
    cdef FileRef file
    cdef int64_t last_offset
    cdef int code = _walk_from(segment, offset, &walker, &file)
    if code != OK:
        return code
    while True:
        code = walker_next(&walker, &batch.header)
        if code <= 0:
            return OFFSET_OUT_OF_RANGE if code == 0 else code
        last_offset = batch.header.base_offset + batch.header.last_offset_delta
        # A batch with offsets beyond the segment is damaged; later batches may still be good.
        if offset <= last_offset < segment.end_offset.load():
            batch.position = walker.position
            return OK
        walker.position += batch.header.size


cdef int segment_find_time(Segment* segment, int64_t timestamp, LocatedBatch* batch) noexcept nogil:
    cdef Walker walker
    cdef FileRef file
    cdef int64_t relative
    cdef int code = segment_load_index(segment)
    if code != OK:
        return code
    segment.guard.lock()
    relative = index_offset_before(&segment.index, timestamp)
    segment.guard.unlock()
    # All batches up to and with that of the entry are older, because entries are running maxima.
    code = _walk_from(segment, segment.base_offset + relative + 1, &walker, &file)
    if code != OK:
        return code
    while True:
        code = walker_next(&walker, &batch.header)
        if code <= 0:
            return OFFSET_OUT_OF_RANGE if code == 0 else code
        if batch.header.max_timestamp >= timestamp and batch.header.records_count > 0:
            batch.position = walker.position
            return OK
        walker.position += batch.header.size


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
        # The entry has no batch or a damaged one: the walk can start at an earlier entry, too.
        segment.guard.lock()
        walker.position = index_position_before(&segment.index, walker.position)
        segment.guard.unlock()
        walker.window_size = 0
    if disk_must_not_wait():
        return WOULD_WAIT  # the whole segment must be read
    # With so many wrong entries the index is at fault, not the log: rebuild it, and walk from the
    # start.
    code = segment_rebuild_index(segment, 4096)
    walker.position = 0
    walker.window_size = 0
    return code


cdef bint _is_at_hand(Segment* segment) noexcept nogil:
    """Whether file and index are open. A thread that opens or stores them holds the guard while it
    waits for the disk; an append holds it briefly, so a few tries suffice."""
    cdef int _try
    cdef ScopeLock lock
    for _try in range(GUARD_TRIES):
        if lock.try_hold(segment.guard):
            return segment.index_is_loaded and segment.file.get() != NULL
    return False


cdef int segment_load_largest(Segment* segment) noexcept nogil:
    """Walks the batches after the last time entry: a lost tail must not make a segment look old."""
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


cdef int segment_load_index(Segment* segment) noexcept nogil:
    cdef FileRef directory
    cdef int code = OK
    cdef int64_t known = 0, size
    cdef ScopeLock lock
    lock.hold(segment.guard)
    if segment.index_is_loaded or segment.is_closed:
        return OK if segment.index_is_loaded else LOG_CLOSED
    size = segment.size.load()
    code = directory_hold(segment.directory.get(), &directory)
    if code == OK:
        code = index_load(&segment.index, directory.get().fd, segment.base_offset, size)
    segment.index_is_loaded = code == OK
    if code == OK and not segment.index.offsets.empty():
        known = segment.index.offsets.back().position
    segment.bytes_since_index = size - known
    lock.release()
    if code == OK and size - known > INDEX_GAP_MAX:
        code = segment_rebuild_index(segment, 4096)
    return code


cdef int segment_rebuild_index(Segment* segment, int64_t index_interval) noexcept nogil:
    cdef Index index = zeroed[Index]()  # no entry is stored yet: the next store writes all of them
    cdef Walker walker
    cdef FileRef file
    cdef BatchHeader header
    cdef int64_t since = 0, largest = -1, largest_offset = segment.base_offset, last_offset
    cdef int code = segment_file(segment, &file)
    cdef ScopeLock lock
    if code != OK:
        return code
    walker_start(&walker, segment, file.get().fd, segment.size.load())
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
        return code  # incomplete: the old index reaches further
    if largest >= 0:
        index_add_time(&index, largest, largest_offset - segment.base_offset)
    lock.hold(segment.guard)
    # Appends may have continued: then the end of the rebuilt index is sparse, which is legal.
    segment.index = index
    segment.index_is_loaded = True
    return OK


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
    # Also for another magic: no stored batch had one when it was written.
    return 1 if batch_check_header(header, left) == OK else BATCH_CORRUPT


cdef int64_t segment_past_damage(Segment* segment, int64_t position) noexcept nogil:
    cdef size_t i
    cdef ScopeLock lock
    if not segment.is_damaged.load():
        return position
    lock.hold(segment.guard)
    for i in range(segment.damaged.size()):
        if segment.damaged[i].position <= position < segment.damaged[i].end_position:
            position = segment.damaged[i].end_position
    return position


cdef int64_t segment_next_damage(Segment* segment, int64_t position) noexcept nogil:
    cdef int64_t nearest = INT64_MAX
    cdef size_t i
    cdef ScopeLock lock
    if not segment.is_damaged.load():
        return nearest
    lock.hold(segment.guard)
    for i in range(segment.damaged.size()):
        if segment.damaged[i].position > position:
            nearest = min(nearest, segment.damaged[i].position)
    return nearest


cdef void segment_set_damaged(Segment* segment, const vector[Damaged]& damaged) noexcept nogil:
    cdef ScopeLock lock
    lock.hold(segment.guard)
    segment.damaged = damaged
    segment.is_damaged.store(not damaged.empty())

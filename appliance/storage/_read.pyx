"""Reads of a log: the bytes from an offset on, the first batch at or after a time."""

from libc.stdint cimport INT64_MAX, int64_t
from libcpp.vector cimport vector

from appliance.native._codes cimport (
    BATCH_CORRUPT, FILES_EXHAUSTED, OFFSET_IN_HOLE, OFFSET_OUT_OF_RANGE, OK,
)
from appliance.native._descriptors cimport descriptors_relieve
from appliance.native._native cimport ScopeLock
from appliance.storage._last_stable_offset cimport log_high_watermark, log_last_stable_offset
from appliance.storage._read_faults cimport is_read_fault, read_faults_note
from appliance.storage._segment cimport Segment, SegmentRef, segment_file
from appliance.storage._segment_find cimport (
    LocatedBatch, segment_find, segment_find_time, segment_load_largest, segment_next_damage,
)


# ---- without the GIL ----

cdef int64_t log_limit(PartitionLog* log, int limit) noexcept nogil:
    if limit == READ_END:
        return log.log_end_offset.load()
    if limit == READ_STABLE:
        return log_last_stable_offset(log)
    return log_high_watermark(log)


cdef int log_read(PartitionLog* log, int64_t offset, int64_t max_bytes, int limit,
                  Slice* slice) noexcept nogil:
    cdef int64_t truncations = log.truncations.load()
    cdef int code = _read_at(log, offset, max_bytes, limit, slice)
    if code == FILES_EXHAUSTED and descriptors_relieve():
        code = _read_at(log, offset, max_bytes, limit, slice)
    if code != OK and (truncations & 1 or truncations != log.truncations.load()):
        # The end moved back under this read: whatever it met says nothing. The reader asks again.
        slice.size = 0
        code = OK
    elif code != OK and offset < log.log_start_offset.load():
        code = OFFSET_OUT_OF_RANGE  # retention came by
    elif code != OK:
        log_note_fault(log, slice.segment_base, offset, code)
    return code


cdef int _read_at(PartitionLog* log, int64_t offset, int64_t max_bytes, int limit,
                  Slice* slice) noexcept nogil:
    cdef SegmentRef segment
    cdef LocatedBatch batch
    cdef int64_t hole_at
    cdef int code
    slice.position = slice.size = 0
    slice.segment_base = -1
    slice.limit_offset = log_limit(log, limit)
    if offset < log.log_start_offset.load() or offset > log.log_end_offset.load():
        return OFFSET_OUT_OF_RANGE
    while offset < slice.limit_offset:
        if offset < log.log_start_offset.load():
            return OFFSET_OUT_OF_RANGE  # retention came by
        code = _find_segment(log, offset, &segment, &hole_at)
        if code == OFFSET_IN_HOLE and _pass_skipped(log, &offset):
            continue
        if code != OK:
            return code
        slice.segment_base = segment.get().base_offset
        code = segment_find(segment.get(), offset, &batch)
        if code == OK:
            return _fill_slice(log, segment.get(), &batch, offset, hole_at, max_bytes, slice)
        if code != OFFSET_OUT_OF_RANGE:
            return code
        # Compaction left nothing at the end of that segment: the next one begins with what follows.
        if offset >= log.gaps_end.load() or _is_gone(log, segment):
            return BATCH_CORRUPT
        if not _next_base(log, offset, &offset):
            return OK
    return OK


cdef size_t _segment_at(PartitionLog* log, int64_t offset) noexcept nogil:
    """Slot of the last segment with a base at or below `offset`; list_guard is held."""
    cdef size_t low = 0, high = log.segments.size(), middle
    while low < high:
        middle = (low + high) // 2
        if log.segments[middle].get().base_offset <= offset:
            low = middle + 1
        else:
            high = middle
    return low - 1 if low > 0 else 0


cdef int _find_segment(PartitionLog* log, int64_t offset, SegmentRef* segment,
                       int64_t* hole_at) noexcept nogil:
    """With where the next hole begins: a repair changes segments and holes as one."""
    cdef size_t i
    cdef int code = OK
    cdef ScopeLock lock
    hole_at[0] = INT64_MAX
    lock.hold(log.list_guard)
    segment[0] = log.segments[_segment_at(log, offset)]
    for i in range(log.holes.size()):
        if log.holes[i].first_offset <= offset < log.holes[i].end_offset:
            code = OFFSET_IN_HOLE
        elif log.holes[i].first_offset > offset:
            hole_at[0] = min(hole_at[0], log.holes[i].first_offset)
    return code


cdef bint _pass_skipped(PartitionLog* log, int64_t* offset) noexcept nogil:
    cdef int64_t begin = offset[0]
    cdef size_t i
    cdef ScopeLock lock
    lock.hold(log.list_guard)
    for i in range(log.holes.size()):
        if (log.holes[i].is_skipped
                and log.holes[i].first_offset <= offset[0] < log.holes[i].end_offset):
            offset[0] = log.holes[i].end_offset
    return offset[0] > begin


cdef bint _next_base(PartitionLog* log, int64_t offset, int64_t* base) noexcept nogil:
    cdef size_t slot
    cdef ScopeLock lock
    lock.hold(log.list_guard)
    slot = _segment_at(log, offset) + 1
    if slot == log.segments.size():
        return False
    base[0] = log.segments[slot].get().base_offset
    return True


cdef int _fill_slice(PartitionLog* log, Segment* segment, const LocatedBatch* batch, int64_t offset,
                     int64_t hole_at, int64_t max_bytes, Slice* slice) noexcept nogil:
    cdef LocatedBatch first_hidden
    cdef int64_t end = segment.size.load()
    cdef int code
    # The CRC does not cover the base offset, so a reader could not notice that it is wrong.
    if batch.header.base_offset > offset and offset >= log.gaps_end.load():
        return BATCH_CORRUPT
    if batch.header.base_offset >= slice.limit_offset:
        return OK
    code = segment_file(segment, &slice.file)
    if code != OK:
        return code
    if segment.end_offset.load() > slice.limit_offset:
        code = segment_find(segment, slice.limit_offset, &first_hidden)
        if code == OK:
            end = first_hidden.position
        elif code != OFFSET_OUT_OF_RANGE:
            return code
    slice.position = batch.position
    slice.size = min(end - batch.position, max(max_bytes, batch.header.size))
    return _stop_before_hole(segment, hole_at, slice)


cdef int _stop_before_hole(Segment* segment, int64_t hole_at, Slice* slice) noexcept nogil:
    cdef LocatedBatch damaged
    cdef int code
    slice.size = min(slice.size, segment_next_damage(segment, slice.position) - slice.position)
    if hole_at >= segment.end_offset.load():
        return OK
    code = segment_find(segment, hole_at - 1, &damaged)
    if code == OK:
        slice.size = min(slice.size, damaged.position + damaged.header.size - slice.position)
    return OK if code == OFFSET_OUT_OF_RANGE else code


cdef void log_note_fault(PartitionLog* log, int64_t segment_base, int64_t offset,
                         int code) noexcept nogil:
    if is_read_fault(code) and not log.is_closed.load():
        read_faults_note(&log.storage.get().faults, log.name, segment_base, offset, code)


cdef void log_note_fault_at(PartitionLog* log, int64_t offset, int code) noexcept nogil:
    cdef int64_t base
    log.list_guard.lock()
    base = log.segments[_segment_at(log, offset)].get().base_offset
    log.list_guard.unlock()
    log_note_fault(log, base, offset, code)


cdef int log_find_time(PartitionLog* log, int64_t timestamp, int64_t from_offset, int limit,
                       Slice* slice) noexcept nogil:
    cdef int64_t truncations = log.truncations.load()
    cdef int code = _find_time(log, timestamp, from_offset, limit, slice)
    if code == FILES_EXHAUSTED and descriptors_relieve():
        code = _find_time(log, timestamp, from_offset, limit, slice)
    if code != OK and not truncations & 1 and truncations == log.truncations.load():
        log_note_fault(log, slice.segment_base, slice.segment_base, code)
    return code


cdef int _find_time(PartitionLog* log, int64_t timestamp, int64_t from_offset, int limit,
                    Slice* slice) noexcept nogil:
    cdef SegmentRef segment
    cdef LocatedBatch batch
    cdef int64_t next_offset = from_offset
    cdef int code
    slice.position = slice.size = 0
    slice.limit_offset = log_limit(log, limit)
    while _candidate(log, timestamp, &next_offset, &segment):
        slice.segment_base = segment.get().base_offset
        code = segment_load_largest(segment.get())
        if code == OFFSET_OUT_OF_RANGE:
            if _is_gone(log, segment) and not _starts_in_hole(log, segment.get()):
                return BATCH_CORRUPT
            continue  # retention came by, or what was there is known to be lost
        if code != OK:
            return code
        if (segment.get().largest_timestamp.load() < timestamp
                or segment.get().end_offset.load() <= from_offset):
            continue
        code = _find_time_in(segment.get(), timestamp, from_offset, &batch)
        if code == OFFSET_OUT_OF_RANGE:
            if _is_gone(log, segment) and not _starts_in_hole(log, segment.get()):
                return BATCH_CORRUPT
            continue
        if code != OK or batch.header.base_offset >= slice.limit_offset:
            return code
        slice.position = batch.position
        slice.size = batch.header.size
        return segment_file(segment.get(), &slice.file)
    return OK


cdef bint _candidate(PartitionLog* log, int64_t timestamp, int64_t* next_offset,
                     SegmentRef* segment) noexcept nogil:
    """The first segment from `next_offset` on that may have such a record; moves `next_offset`."""
    cdef Segment* it
    cdef size_t slot, after
    cdef ScopeLock lock
    if next_offset[0] == INT64_MAX:
        return False  # there was no segment behind the last one
    lock.hold(log.list_guard)
    for slot in range(_segment_at(log, next_offset[0]), log.segments.size()):
        it = log.segments[slot].get()
        if not it.largest_is_known.load() or it.largest_timestamp.load() >= timestamp:
            segment[0] = log.segments[slot]
            after = slot + 1
            next_offset[0] = INT64_MAX
            if after < log.segments.size():
                next_offset[0] = log.segments[after].get().base_offset
            return True
    return False


cdef int _find_time_in(Segment* segment, int64_t timestamp, int64_t from_offset,
                       LocatedBatch* batch) noexcept nogil:
    cdef int code = segment_find_time(segment, timestamp, batch)
    while code == OK and (batch.header.base_offset + batch.header.last_offset_delta < from_offset
                          or batch.header.max_timestamp < timestamp):
        code = segment_find(segment, batch.header.base_offset + batch.header.last_offset_delta + 1,
                            batch)
    return code


cdef bint _is_gone(PartitionLog* log, const SegmentRef& segment) noexcept nogil:
    """Whether the file is not there, and the segment is one of the log's still: whoever takes a
    segment away takes it from the list first."""
    cdef FileRef file
    cdef ScopeLock lock
    if segment_file(segment.get(), &file) != OFFSET_OUT_OF_RANGE:
        return False
    lock.hold(log.list_guard)
    return log.segments[_segment_at(log, segment.get().base_offset)] == segment


cdef bint _starts_in_hole(PartitionLog* log, Segment* segment) noexcept nogil:
    cdef SegmentRef next_segment
    cdef int64_t next_hole
    return _find_segment(log, segment.base_offset, &next_segment, &next_hole) == OFFSET_IN_HOLE


cdef void log_aborted(PartitionLog* log, int64_t from_offset, int64_t end_offset,
                      vector[AbortedTxn]* into) noexcept nogil:
    cdef size_t low = 0, high, middle
    cdef ScopeLock lock
    lock.hold(log.list_guard)
    high = log.aborted.size()
    while low < high:
        middle = (low + high) // 2
        if log.aborted[middle].last_offset < from_offset:
            low = middle + 1
        else:
            high = middle
    while low < log.aborted.size():
        if log.aborted[low].first_offset < end_offset:
            into.push_back(log.aborted[low])
        # Nothing that ended later can have begun below this one's stable offset.
        if log.aborted[low].last_stable_offset >= end_offset:
            return
        low += 1

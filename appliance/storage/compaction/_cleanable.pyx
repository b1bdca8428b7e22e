"""Which segments a round of compaction covers.

    |  clean                |  dirty                     |  not yet                        |  active
    0                 dirty_offset                  end of `segments`

Not yet: what readers of committed data may not see, what recovery would read again, what is younger
than min.compaction.lag.ms, what lies behind damage. All rules go by whole segments. A log is due
when the dirty part is more than min.cleanable.dirty.ratio of clean and dirty, or begins with a
record older than max.compaction.lag.ms.
"""

from libc.stdint cimport int64_t

from appliance.native._codes cimport OK
from appliance.record._batch cimport BatchHeader
from appliance.storage._index cimport TIME_ENTRY_SIZE
from appliance.storage._last_stable_offset cimport log_last_stable_offset
from appliance.storage._partition_log cimport PartitionLog, log_roll
from appliance.storage._retention cimport log_note_unknown_age
from appliance.storage._segment cimport SEGMENT_SIZE_MAX, FileRef, Segment, segment_file
from appliance.storage._segment_find cimport Walker, segment_load_largest, walker_next, walker_start
from appliance.storage._swap cimport log_has_unfinished_swap, log_sealed


# ---- without the GIL ----

cdef int cleanable_find(PartitionLog* log, int64_t now_ms, Cleanable* cleanable) except? -1 nogil:
    cdef int code
    cleanable.is_due = False
    if log.failed.load() != OK or log.is_closed.load():
        return OK
    log.guard.lock()
    cleanable.settings = log.settings
    log.guard.unlock()
    if not cleanable.settings.cleanup_compact or log_has_unfinished_swap(log):
        return OK
    cleanable.dirty_offset = _dirty_offset(log)
    log_sealed(log, &cleanable.segments)
    _drop_from(&cleanable.segments, _first_barred(log))
    code = _drop_young(log, cleanable, now_ms)
    return code if code != OK else _decide(cleanable, now_ms)


cdef int64_t _dirty_offset(PartitionLog* log) noexcept nogil:
    cdef int64_t cleaned
    log.saved_guard.lock()
    cleaned = log.saved.cleaned_offset
    log.saved_guard.unlock()
    return max(cleaned, log.log_start_offset.load())


cdef int64_t _first_barred(PartitionLog* log) noexcept nogil:
    """No segment that reaches beyond this offset may be touched."""
    cdef int64_t offset = log_last_stable_offset(log)
    cdef size_t i
    if log.unreadable.code != OK:
        offset = min(offset, log.unreadable.base_offset)
    log.list_guard.lock()
    for i in range(log.holes.size()):
        if not log.holes[i].is_skipped:
            offset = min(offset, log.holes[i].first_offset)
    log.list_guard.unlock()
    return offset


cdef void _drop_from(vector[SegmentRef]* segments, int64_t offset) noexcept nogil:
    while not segments.empty() and segments.back().get().end_offset.load() > offset:
        segments.pop_back()


cdef int _drop_young(PartitionLog* log, Cleanable* cleanable, int64_t now_ms) noexcept nogil:
    cdef Segment* segment
    cdef size_t i
    cdef int code
    if cleanable.settings.min_compaction_lag_ms == 0:
        return OK
    for i in range(cleanable.segments.size()):
        segment = cleanable.segments[i].get()
        if segment.end_offset.load() <= cleanable.dirty_offset:
            continue
        code = segment_load_largest(segment)
        if code != OK:
            log_note_unknown_age(log, segment, code)
            return code
        if segment.largest_timestamp.load() > now_ms - cleanable.settings.min_compaction_lag_ms:
            cleanable.segments.resize(i)
            break
    return OK


cdef int _decide(Cleanable* cleanable, int64_t now_ms) noexcept nogil:
    cdef Segment* segment
    cdef int64_t clean = 0, dirty = 0, first_timestamp = -1
    cdef bint is_overdue = False
    cdef size_t i
    cdef int code
    for i in range(cleanable.segments.size()):
        segment = cleanable.segments[i].get()
        if segment.end_offset.load() <= cleanable.dirty_offset:
            clean += segment.size.load()
            continue
        dirty += segment.size.load()
        code = _first_timestamp(segment, &first_timestamp)
        if code != OK:
            return code
        if 0 < first_timestamp < now_ms - cleanable.settings.max_compaction_lag_ms:
            is_overdue = True
    if dirty > 0:
        cleanable.is_due = is_overdue or (
            <double>dirty / <double>(clean + dirty) > cleanable.settings.min_cleanable_dirty_ratio
        )
    return OK


cdef int _first_timestamp(Segment* segment, int64_t* timestamp) noexcept nogil:
    """Of the first batch; left alone when there is none that can be read."""
    cdef Walker walker
    cdef BatchHeader header
    cdef FileRef file
    cdef int code = segment_file(segment, &file)
    if code != OK:
        return code
    walker_start(&walker, segment, file.get().fd, segment.size.load())
    if walker_next(&walker, &header) == 1:
        timestamp[0] = header.max_timestamp
    return OK


cdef bint cleanable_roll(PartitionLog* log, int64_t now_ms) noexcept nogil:
    """So that the limit holds also for a topic that nobody writes to any more."""
    cdef int64_t first = -1, lag
    cdef Segment* active
    log.guard.lock()
    lag = log.settings.max_compaction_lag_ms
    active = log.segments.back().get()
    if log.settings.cleanup_compact and active.size.load() > 0:
        first = active.first_timestamp
    log.guard.unlock()
    return 0 < first < now_ms - lag and log_roll(log) == OK


cdef size_t cleanable_group(const Cleanable* cleanable, size_t first, size_t end) noexcept nogil:
    cdef int64_t base = cleanable.segments[first].get().base_offset
    cdef int64_t interval = max(cleanable.settings.index_interval_bytes, <int64_t>1)
    cdef int64_t size = 0
    cdef size_t slot = first
    while slot < end:
        size += cleanable.segments[slot].get().size.load()
        if slot > first and (
            size > cleanable.settings.segment_bytes
            # more entries than one an interval no index can get
            or size // interval * TIME_ENTRY_SIZE > cleanable.settings.segment_index_bytes
            or cleanable.segments[slot].get().end_offset.load() - 1 - base > SEGMENT_SIZE_MAX
        ):
            break
        slot += 1
    return slot

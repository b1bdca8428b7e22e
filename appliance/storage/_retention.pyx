"""Retention and delete-records: moves the log start up, and deletes whole segments below it.

    1 journal the new log start      2 unlink the segments wholly below it
A crash between the two is finished by recovery. A segment that a reader holds is never shortened or
written into: it is unlinked, and the reader's descriptor keeps it.
"""

from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from appliance.native._codes cimport BATCH_CORRUPT, OFFSET_OUT_OF_RANGE, OK
from appliance.native._native cimport ScopeLock, mutant
from appliance.storage._checkpoint cimport log_save_locked
from appliance.storage._holes cimport holes_cover
from appliance.storage._last_stable_offset cimport log_high_watermark
from appliance.storage._partition_log cimport LogSettings, PartitionLog, log_roll
from appliance.storage._read cimport log_note_fault
from appliance.storage._segment cimport Segment, SegmentRef, segment_unlink
from appliance.storage._segment_find cimport segment_load_largest


# ---- without the GIL ----

# By time and size

cdef int64_t log_retain(PartitionLog* log, int64_t now_ms, int64_t keep_from,
                        bint* rolled) noexcept nogil:
    cdef vector[SegmentRef] segments
    cdef LogSettings settings
    cdef int64_t doomed, code
    cdef ScopeLock maintenance
    rolled[0] = False
    maintenance.hold(log.maintenance)
    if log.failed.load() != OK or log.is_closed.load():
        return 0
    _copy_state(log, &segments, &settings)
    if settings.cleanup_delete and settings.retention_ms >= 0:
        code = _roll_expired(log, segments.back().get(), settings.retention_ms, now_ms, rolled)
        if code != OK:
            return code
    doomed = _count_doomed(log, segments, &settings, now_ms)
    while doomed > 0 and _is_kept(log, segments[doomed - 1].get(), keep_from):
        doomed -= 1
    if doomed <= 0:
        return doomed if doomed < 0 else _drop(log)
    code = _move_start(log, segments[doomed].get().base_offset)
    return code if code != OK else _drop_below_start(log)


cdef int64_t log_kept_bytes(PartitionLog* log, int64_t now_ms, int64_t keep_from) noexcept nogil:
    cdef vector[SegmentRef] segments
    cdef LogSettings settings
    cdef int64_t doomed, size = 0
    if log.failed.load() != OK:
        return 0
    _copy_state(log, &segments, &settings)
    doomed = _count_doomed(log, segments, &settings, now_ms)
    while doomed > 0 and _is_kept(log, segments[doomed - 1].get(), keep_from):
        doomed -= 1
        size += segments[doomed].get().size.load()
    return min(doomed, <int64_t>0) + size


cdef void _copy_state(PartitionLog* log, vector[SegmentRef]* segments,
                      LogSettings* settings) noexcept nogil:
    cdef ScopeLock guard
    guard.hold(log.guard)
    settings[0] = log.settings
    segments[0] = log.segments


cdef bint _is_kept(PartitionLog* log, Segment* segment, int64_t keep_from) noexcept nogil:
    # What was deleted by somebody's wish is gone for readers: nothing is left to be kept.
    return segment.end_offset.load() > max(keep_from, log.log_start_offset.load())


cdef int64_t _count_doomed(PartitionLog* log, const vector[SegmentRef]& segments,
                           const LogSettings* settings, int64_t now_ms) noexcept nogil:
    """How many of the oldest segments time or size have passed; or a code."""
    cdef int64_t size = 0, code
    cdef size_t i, doomed = 0
    for i in range(segments.size()):
        size += segments[i].get().size.load()
    while doomed + 1 < segments.size():
        code = _is_doomed(log, segments[doomed].get(), settings, size, now_ms)
        if code < 0 and doomed == 0:
            return code
        if code <= 0:
            break
        size -= segments[doomed].get().size.load()
        doomed += 1
    return doomed


cdef int _roll_expired(PartitionLog* log, Segment* active, int64_t retention_ms, int64_t now_ms,
                       bint* rolled) noexcept nogil:
    """So that one hour means one hour also for a topic that nobody writes to any more."""
    cdef int code = OK
    if (active.size.load() > 0 and active.largest_is_known.load()
            and 0 <= active.largest_timestamp.load() < now_ms - retention_ms):
        code = log_roll(log)
        rolled[0] = code == OK
    return code


cdef int64_t _is_doomed(PartitionLog* log, Segment* segment, const LogSettings* settings,
                        int64_t size,
                        int64_t now_ms) noexcept nogil:
    """1: delete it; 0: keep it and all after it; or a code. Only what readers were shown can go."""
    cdef int64_t end_offset = segment.end_offset.load()
    cdef int code
    if end_offset > log_high_watermark(log) or end_offset > log_recovery_base(log):
        return 0
    if end_offset <= log.log_start_offset.load():
        return 1
    if not settings.cleanup_delete:
        return 0
    if settings.retention_bytes >= 0 and size - segment.size.load() >= settings.retention_bytes:
        return 1
    if settings.retention_ms < 0:
        return 0
    code = segment_load_largest(segment)
    if code != OK:
        log_note_unknown_age(log, segment, code)
        return code
    # An unknown timestamp (-1) never deletes.
    return 0 <= segment.largest_timestamp.load() < now_ms - settings.retention_ms


cdef void log_note_unknown_age(PartitionLog* log, Segment* segment, int code) noexcept nogil:
    if code == OFFSET_OUT_OF_RANGE:
        if holes_cover(log, segment.base_offset, segment.end_offset.load()):
            return  # known to be gone
        code = BATCH_CORRUPT
    log_note_fault(log, segment.base_offset, segment.base_offset, code)


cdef int64_t log_recovery_base(PartitionLog* log) noexcept nogil:
    cdef ScopeLock saved
    saved.hold(log.saved_guard)
    return log.saved.segment_base


# The log start

cdef int log_delete_before(PartitionLog* log, int64_t offset) noexcept nogil:
    cdef int64_t visible = log_high_watermark(log)
    if offset == -1:
        offset = visible
    if offset < 0 or offset > visible:
        return OFFSET_OUT_OF_RANGE
    return log_advance_start(log, offset)


cdef int log_advance_start(PartitionLog* log, int64_t offset) noexcept nogil:
    cdef int64_t result
    cdef ScopeLock maintenance
    maintenance.hold(log.maintenance)
    if offset <= log.log_start_offset.load():
        _drop(log)  # of what could not be unlinked retention tells, which tries it again
        return OK
    result = _move_start(log, offset)
    if result == OK:
        result = _drop_below_start(log)
    return <int>min(result, <int64_t>OK)


cdef int _move_start(PartitionLog* log, int64_t offset) noexcept nogil:
    cdef int code = OK
    cdef ScopeLock saved
    saved.hold(log.saved_guard)
    # Never back: deleting records may have moved it into the middle of a segment.
    offset = max(offset, log.saved.log_start_offset)
    log.saved.log_start_offset = offset
    if not mutant(b"log_start_after_unlink"):
        code = log_save_locked(log)
    if code == OK:
        log.log_start_offset.store(offset)
    return code


cdef int64_t _drop_below_start(PartitionLog* log) noexcept nogil:
    _take_below(log, log.log_start_offset.load(), log_recovery_base(log), &log.undropped)
    return _drop(log)


cdef int64_t _drop(PartitionLog* log) noexcept nogil:
    """How many; or the code of the first that could not be unlinked, with what is left of them to
    be tried again: no start of the log leads to them any more."""
    cdef vector[SegmentRef] left
    cdef size_t i
    cdef int64_t count = log.undropped.size()
    cdef int code, first = OK
    for i in range(log.undropped.size()):
        code = segment_unlink(log.undropped[i].get())
        if code != OK:
            first = code if first == OK else first
            left.push_back(log.undropped[i])
    log.undropped.swap(left)
    return count if first == OK else first


cdef void _take_below(PartitionLog* log, int64_t start, int64_t recovery_base,
                      vector[SegmentRef]* dropped) noexcept nogil:
    cdef ScopeLock guard, list_guard
    guard.hold(log.guard)
    list_guard.hold(log.list_guard)
    while (log.segments.size() > 1 and log.segments[1].get().base_offset <= start
           and log.segments[1].get().base_offset <= recovery_base):
        dropped.push_back(log.segments.front())
        log.segments.erase(log.segments.begin())
    _forget_below(log, start)


cdef void _forget_below(PartitionLog* log, int64_t start) noexcept nogil:
    cdef size_t i, kept = 0
    for i in range(log.aborted.size()):
        if log.aborted[i].last_offset >= start:
            log.aborted[kept] = log.aborted[i]
            kept += 1
    log.aborted.resize(kept)
    kept = 0
    for i in range(log.holes.size()):
        # One below the start whose bytes are still there is what readers' searches must step over.
        if log.holes[i].end_offset > min(start, log.segments.front().get().base_offset):
            log.holes[kept] = log.holes[i]
            kept += 1
    log.holes.resize(kept)

"""Holes of a log. All changes: in memory under list_guard, then into the journal, then told."""

from libc.stdint cimport INT64_MAX, int64_t
from libcpp.vector cimport vector

from appliance.native._codes cimport LOG_CLOSED, OK
from appliance.native._native cimport ScopeLock
from appliance.storage._checkpoint cimport log_save_locked
from appliance.storage._checkpoint_journal cimport Hole, hole_new
from appliance.storage._partition_log cimport PartitionLog
from appliance.storage._segment cimport Damaged, Segment
from appliance.storage._segment_find cimport segment_set_damaged


# ---- without the GIL ----

cdef void holes_place(PartitionLog* log) noexcept nogil:
    cdef vector[Damaged] here
    cdef Damaged damaged
    cdef Segment* segment
    cdef int64_t end
    cdef size_t i, j
    log.list_guard.lock()
    for i in range(log.segments.size()):
        segment = log.segments[i].get()
        end = INT64_MAX
        if i + 1 < log.segments.size():
            end = log.segments[i + 1].get().base_offset
        here.clear()
        for j in range(log.holes.size()):
            if (log.holes[j].position < log.holes[j].end_position
                    and segment.base_offset <= log.holes[j].first_offset < end):
                damaged.position = log.holes[j].position
                damaged.end_position = log.holes[j].end_position
                here.push_back(damaged)
        if not here.empty() or segment.is_damaged.load():
            segment_set_damaged(segment, here)
    log.list_guard.unlock()


cdef bint holes_cover(PartitionLog* log, int64_t first_offset, int64_t end_offset) noexcept nogil:
    cdef bint is_moved = True
    cdef size_t i
    log.list_guard.lock()
    while is_moved and first_offset < end_offset:
        is_moved = False
        for i in range(log.holes.size()):
            if log.holes[i].first_offset <= first_offset < log.holes[i].end_offset:
                first_offset = log.holes[i].end_offset
                is_moved = True
    log.list_guard.unlock()
    return first_offset >= end_offset


cdef int holes_add(PartitionLog* log, const Hole* hole) noexcept nogil:
    cdef size_t i, kept = 0
    cdef ScopeLock saved
    saved.hold(log.saved_guard)
    # A log closed for deletion must not come back into the journal.
    if log.is_closed.load():
        return LOG_CLOSED
    log.list_guard.lock()
    for i in range(log.holes.size()):
        if not (hole.first_offset <= log.holes[i].first_offset
                and log.holes[i].end_offset <= hole.end_offset):
            log.holes[kept] = log.holes[i]
            kept += 1
    log.holes.resize(kept)
    log.holes.push_back(hole[0])
    log.list_guard.unlock()
    holes_place(log)
    return log_save_locked(log)


cdef int holes_skip(PartitionLog* log, int64_t first_offset, int64_t end_offset,
                    vector[Hole]* passed) noexcept nogil:
    cdef size_t i
    cdef ScopeLock maintenance, saved
    maintenance.hold(log.maintenance)
    saved.hold(log.saved_guard)
    # Compaction stopped before what is passed from now on: it looks again.
    log.unreadable.code = OK
    if log.is_closed.load():
        return LOG_CLOSED
    log.list_guard.lock()
    for i in range(log.holes.size()):
        if (log.holes[i].first_offset < end_offset and log.holes[i].end_offset > first_offset
                and not log.holes[i].is_skipped):
            log.holes[i].is_skipped = True
            passed.push_back(log.holes[i])
    log.list_guard.unlock()
    return log_save_locked(log) if not passed.empty() else OK


cdef void holes_fill(vector[Hole]* holes, int64_t first_offset, int64_t end_offset) noexcept nogil:
    cdef vector[Hole] left
    cdef Hole hole, part
    cdef size_t i
    for i in range(holes.size()):
        hole = holes.at(i)
        if hole.end_offset <= first_offset or hole.first_offset >= end_offset:
            left.push_back(hole)
            continue
        if hole.first_offset < first_offset:
            part = hole_new(hole.first_offset, first_offset)
            part.is_skipped = hole.is_skipped
            left.push_back(part)
        if hole.end_offset > end_offset:
            part = hole_new(end_offset, hole.end_offset)
            part.is_skipped = hole.is_skipped
            left.push_back(part)
    holes.swap(left)


cdef void holes_cut(PartitionLog* log, int64_t end_offset) noexcept nogil:
    cdef size_t i, kept = 0
    log.list_guard.lock()
    for i in range(log.holes.size()):
        if log.holes[i].first_offset < end_offset:
            log.holes[kept] = log.holes[i]
            log.holes[kept].end_offset = min(log.holes[kept].end_offset, end_offset)
            kept += 1
    log.holes.resize(kept)
    log.list_guard.unlock()


cdef void holes_forget_bytes(vector[Hole]* holes, int64_t base, int64_t end) noexcept nogil:
    cdef size_t i
    for i in range(holes.size()):
        if base <= holes.at(i).first_offset < end:
            holes.at(i).position = holes.at(i).end_position = -1

"""The high watermark and the last stable offset: the limits of readers of a log."""

from libc.stdint cimport int64_t

from appliance.native._codes cimport OK
from appliance.native._native cimport ScopeLock, mutant


# ---- without the GIL ----

cdef int64_t log_high_watermark(PartitionLog* log) noexcept nogil:
    if mutant(b"visible_ahead_of_durable"):
        return log.log_end_offset.load()
    if log.shows_appended.load() and log.failed.load() == OK:
        return log.log_end_offset.load()
    return log_acknowledged_offset(log)


cdef int64_t log_last_stable_offset(PartitionLog* log) noexcept nogil:
    cdef int64_t visible = -1, stable = 0
    cdef size_t i
    # What ends is noted among the ended before it leaves the open ones, and forgotten there only
    # when the watermark has passed it: with one watermark before and after, nothing is missed.
    while visible != log_high_watermark(log):
        visible = log_high_watermark(log)
        stable = log.first_open_offset.load()
        log.list_guard.lock()
        for i in range(log.ended.size()):
            if log.ended[i].marker_offset >= visible:
                stable = min(stable, log.ended[i].first_offset)
        log.list_guard.unlock()
    return min(stable, visible)


cdef void log_forget_ended(PartitionLog* log) noexcept nogil:
    cdef int64_t visible = log_high_watermark(log)
    cdef size_t i, kept = 0
    cdef ScopeLock lock
    lock.hold(log.list_guard)
    for i in range(log.ended.size()):
        if log.ended[i].marker_offset >= visible:
            log.ended[kept] = log.ended[i]
            kept += 1
    log.ended.resize(kept)

"""One partition's log: its state and segments; it fails, rolls, rests and closes here.

Invariants
1. log_start <= durable <= end, and high watermark and last stable offset lie between durable's past
   values and end. Offsets given to readers never move back, but for log_truncate.
2. Bytes are written, then noted in index and producer state, then log_end_offset is published; so
   whatever a reader finds below an offset is whole.
3. durable_offset moves only in log_commit_end, after every file that holds a byte below it, and the
   directory if a file in it is new, was synced with success.
4. A log that failed takes no append, syncs nothing again and shows nothing above durable_offset.
5. Checkpoints describe the log at an offset that was durable before they reached the journal.
6. log_start_offset is in the journal before a segment below it is unlinked.

States: open -> failed (log_fail, for good); open or failed -> closed (log_close).
"""

from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from appliance.native._codes cimport FILES_EXHAUSTED, LOG_CLOSED, LOG_FAILED, OK
from appliance.native._descriptors cimport descriptors_relieve, directory_hold, directory_rest
from appliance.native._files cimport failure_errno
from appliance.native._native cimport ScopeLock
from appliance.storage._producers cimport producers_store_snapshot
from appliance.storage._segment cimport (
    FileRef, Segment, SegmentRef, segment_create, segment_index_is_stored, segment_new,
    segment_rest, segment_seal_times,
)


# ---- without the GIL ----

cdef void log_fail(PartitionLog* log, int code) noexcept nogil:
    # The first reason is the true one; what follows is its echo.
    if log.failed.load() == OK:
        log.failed_errno.store(failure_errno() if code <= LOG_FAILED else 0)
        log.failed.store(code)


cdef int log_roll(PartitionLog* log) noexcept nogil:
    cdef int code = _roll(log)
    if code == FILES_EXHAUSTED and descriptors_relieve():
        code = _roll(log)
    return code


cdef int _roll(PartitionLog* log) noexcept nogil:
    cdef ScopeLock lock
    lock.hold(log.guard)
    if log.failed.load() != OK:
        return LOG_FAILED
    if log.is_closed.load():
        return LOG_CLOSED
    return log_roll_locked(log) if log.segments.back().get().size.load() > 0 else OK


cdef int log_roll_locked(PartitionLog* log) noexcept nogil:
    cdef int64_t end_offset = log.log_end_offset.load()
    cdef SegmentRef segment = segment_new(log.directory, end_offset)
    cdef FileRef directory
    cdef int code = directory_hold(log.directory.get(), &directory)
    if code == OK:
        code = segment_create(segment.get())
    if code != OK:
        return code
    segment_seal_times(log.segments.back().get())
    log.list_guard.lock()
    log.segments.push_back(segment)
    log.list_guard.unlock()
    log.active_base.store(end_offset)
    log.dirty_directory = directory
    log.is_changed.store(True)
    if not log.producers.producers.empty():
        # For Kafka's tools. Recovery believes the journal, so nothing hangs on this file.
        producers_store_snapshot(&log.producers, directory.get().fd, end_offset)
    return OK


cdef vector[SegmentRef] log_segments(PartitionLog* log) noexcept nogil:
    cdef ScopeLock lock
    lock.hold(log.list_guard)
    return log.segments


cdef void log_seal_times(PartitionLog* log) noexcept nogil:
    cdef Segment* active
    cdef ScopeLock lock
    lock.hold(log.guard)
    active = log.segments.back().get()
    # An index that nobody loaded in this life is as it was left.
    if active.index_is_loaded and log.failed.load() == OK:
        segment_seal_times(active)
        log.is_changed.store(True)


cdef void log_rest(PartitionLog* log, int64_t before_ns) noexcept nogil:
    cdef vector[SegmentRef] segments = log_segments(log)
    cdef Segment* active
    cdef size_t i
    cdef ScopeLock lock
    lock.hold(log.guard)
    for i in range(segments.size() - 1):
        if segments[i].get().index_is_final.load():
            segment_rest(segments[i].get(), before_ns, False)
    active = log.segments.back().get()
    # A write-back error is told to descriptors that were open when it happened: only a file with
    # nothing left to write may be closed, and only an index that is in its file may be dropped.
    if active.synced_size == active.size.load() and segment_index_is_stored(active):
        segment_rest(active, before_ns, False)
    directory_rest(log.directory.get())


cdef int64_t log_close_idle(PartitionLog* log, int64_t before_ns) noexcept nogil:
    cdef Segment* segment
    cdef int64_t closed = 0
    cdef size_t i
    cdef ScopeLock lock
    if not lock.try_hold(log.guard):
        return 0
    for i in range(log.segments.size()):
        segment = log.segments[i].get()
        # As in log_rest: an unsynced file stays open. The index stays, so it need be in no file.
        if segment.synced_size == segment.size.load():
            closed += segment_rest(segment, before_ns, True)
    return closed + directory_rest(log.directory.get())


cdef bint log_is_dirty(PartitionLog* log) noexcept nogil:
    return log.oldest_unflushed_ns.load() != 0

"""The index files of a log's segments: stored with its checkpoints, durable once sealed."""

from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from appliance.native._codes cimport FILES_EXHAUSTED, LOG_CLOSED, OK
from appliance.native._descriptors cimport FileRef, descriptors_relieve, directory_hold
from appliance.native._native cimport ScopeLock
from appliance.storage._index cimport txn_index_store
from appliance.storage._partition_log cimport log_segments
from appliance.storage._segment cimport SegmentRef, segment_forget_stored, segment_store_index


# ---- without the GIL ----

cdef int64_t log_unfinished(PartitionLog* log) noexcept nogil:
    cdef size_t slot
    cdef int64_t count = 0
    cdef ScopeLock lock
    lock.hold(log.list_guard)
    slot = log.segments.size() - 1
    while slot > 0 and not log.segments[slot - 1].get().index_is_final.load():
        slot -= 1
        count += 1
    return count


cdef void log_store_indexes(CommitPlan* plan, bint is_durable) noexcept nogil:
    plan.indexes = _store_indexes(plan, is_durable)
    if plan.indexes == FILES_EXHAUSTED and descriptors_relieve():
        plan.indexes = _store_indexes(plan, is_durable)


cdef int _store_indexes(CommitPlan* plan, bint is_durable) noexcept nogil:
    """A lost offset or time index costs a walk. A lost transaction index would show aborted ones,
    so the recovery point must not pass it unsynced: it is always durable.
    """
    cdef PartitionLog* log = plan.log.get()
    cdef vector[SegmentRef] segments = log_segments(log)
    cdef Segment* segment
    cdef size_t slot = segments.size()
    cdef bint is_sealed
    cdef int code = OK
    while slot > 0 and code == OK:
        slot -= 1
        segment = segments[slot].get()
        is_sealed = slot + 1 < segments.size()
        if is_sealed and segment.index_is_final.load():
            break
        if segment.txn_is_dirty.load():
            code = log_store_aborted(log, segment)
            if code != OK:
                return code
        # Derived files: a full disk leaves them short, and the next checkpoint tries again.
        if segment_store_index(segment, is_sealed and is_durable) == OK and is_sealed:
            if is_durable:
                _finish_segment(log, segment)
            else:
                plan.sealed.push_back(segments[slot])
    return code


cdef void log_finish_indexes(CommitPlan* plan, bint is_durable) noexcept nogil:
    cdef size_t i
    for i in range(plan.sealed.size()):
        if is_durable:
            _finish_segment(plan.log.get(), plan.sealed[i].get())
        else:
            segment_forget_stored(plan.sealed[i].get())
    plan.sealed.clear()


cdef void _finish_segment(PartitionLog* log, Segment* segment) noexcept nogil:
    """Sealed for good, unless it was rolled after the commit began and still has bytes to sync."""
    cdef ScopeLock lock
    lock.hold(log.guard)
    segment.index_is_final.store(segment.synced_size == segment.size.load())


cdef vector[AbortedTxn] log_aborted_in(PartitionLog* log, int64_t base, int64_t end) noexcept nogil:
    cdef vector[AbortedTxn] aborted
    cdef size_t i
    cdef ScopeLock lock
    lock.hold(log.list_guard)
    for i in range(log.aborted.size()):
        if base <= log.aborted[i].last_offset < end:
            aborted.push_back(log.aborted[i])
    return aborted


cdef int log_store_aborted_in(PartitionLog* log, int directory_fd, int64_t base,
                              int64_t end) noexcept nogil:
    cdef vector[AbortedTxn] aborted = log_aborted_in(log, base, end)
    return txn_index_store(directory_fd, base, aborted.data(), aborted.size())


cdef int log_store_aborted(PartitionLog* log, Segment* segment) noexcept nogil:
    cdef FileRef directory
    cdef int code = directory_hold(segment.directory.get(), &directory)
    if log.is_closed.load():
        code = LOG_CLOSED  # the file may be another log's by now
    if code != OK:
        return code
    # First: a marker that comes while this is under way makes it dirty again.
    segment.txn_is_dirty.store(False)
    code = log_store_aborted_in(log, directory.get().fd, segment.base_offset,
                                segment.end_offset.load())
    if code != OK:
        segment.txn_is_dirty.store(True)
    return code

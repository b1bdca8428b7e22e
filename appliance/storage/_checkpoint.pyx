"""Checkpoints of a log in the journal: where recovery starts to read, and the state before."""

from libc.stdint cimport int32_t, int64_t

from appliance.native._codes cimport LOG_CLOSED, OK, STORAGE_FULL_LATE, STORAGE_IO
from appliance.native._native cimport ScopeLock, mutant
from appliance.storage._checkpoint_journal cimport checkpoint_size, journal_put
from appliance.storage._partition_log cimport log_fail
from appliance.storage._producers cimport producers_expire, producers_store
from appliance.storage._segment cimport Segment
from appliance.storage._storage cimport storage_commit, storage_earliest_ms

cdef enum:
    CHECKPOINT_WORTH = 16          # a checkpoint may cost 1/16 of what it saves recovery


# ---- without the GIL ----

cdef void log_capture(PartitionLog* log, Checkpoint* checkpoint) noexcept nogil:
    """The log as it stands now; guard is held. What maintenance owns is filled in when saved."""
    cdef Segment* segment = log.segments.back().get()
    producers_expire(&log.producers, storage_earliest_ms(log.storage.get()),
                     log.settings.producer_expiration_ms)
    checkpoint.recovery_offset = log.log_end_offset.load()
    checkpoint.segment_base = segment.base_offset
    checkpoint.position = segment.size.load()
    checkpoint.created_ms = segment.created_ms
    checkpoint.first_timestamp = segment.first_timestamp
    checkpoint.largest_timestamp = segment.largest_timestamp.load()
    checkpoint.largest_timestamp_offset = segment.largest_timestamp_offset.load()
    checkpoint.leader_epoch = <int32_t>log.leader_epoch.load()
    checkpoint.epochs = log.epochs
    checkpoint.producers.clear()
    producers_store(&log.producers, &checkpoint.producers)


cdef bint log_checkpoint_is_due(PartitionLog* log) noexcept nogil:
    cdef int64_t appended
    cdef ScopeLock lock
    if not lock.try_hold(log.saved_guard):
        return False
    appended = log.bytes_appended.load() - log.bytes_at_saved
    # Retention and compaction stop short of the segment that recovery begins in: it must move on.
    return (appended >= CHECKPOINT_WORTH * checkpoint_size(&log.saved)
            or log.saved.segment_base != log.active_base.load())


cdef int log_checkpoint_put(CommitPlan* plan) noexcept nogil:
    """After what recovery will believe unseen was synced."""
    cdef PartitionLog* log = plan.log.get()
    cdef Checkpoint* saved = &log.saved
    cdef ScopeLock lock
    # A failed sync is final; a full disk or no free descriptor is tried again at the next point.
    if plan.indexes in (STORAGE_IO, STORAGE_FULL_LATE):
        log_fail(log, plan.indexes)
    if plan.indexes != OK:
        return plan.indexes
    lock.hold(log.saved_guard)
    # A log closed for deletion must not come back into the journal.
    if (not log.is_closed.load() and plan.truncations == log.truncations.load()
            and plan.checkpoint.recovery_offset >= saved.recovery_offset):
        plan.checkpoint.log_start_offset = saved.log_start_offset
        plan.checkpoint.end_limit = saved.end_limit
        plan.checkpoint.swap_base = saved.swap_base
        plan.checkpoint.swap_end = saved.swap_end
        plan.checkpoint.cleaned_offset = saved.cleaned_offset
        plan.checkpoint.gaps_end = saved.gaps_end
        saved[0] = plan.checkpoint
        if mutant(b"producer_state_ahead_of_log"):
            log.guard.lock()
            saved.producers.clear()
            producers_store(&log.producers, &saved.producers)
            log.guard.unlock()
        log.bytes_at_saved = log.bytes_appended.load()
        log_list_segments(log, saved)
        journal_put(&log.storage.get().journal, log.name, saved)
    return OK


cdef void log_put_locked(PartitionLog* log) noexcept nogil:
    log_list_segments(log, &log.saved)
    journal_put(&log.storage.get().journal, log.name, &log.saved)


cdef int log_save_locked(PartitionLog* log) noexcept nogil:
    # Another log may have its name in the journal by now: one that was opened again, or made anew.
    if log.is_closed.load():
        return LOG_CLOSED
    log_put_locked(log)
    return storage_commit(log.storage.get())


cdef void log_raise_epoch(PartitionLog* log, int32_t epoch) noexcept nogil:
    cdef ScopeLock saved, guard
    saved.hold(log.saved_guard)
    guard.hold(log.guard)
    if epoch > log.leader_epoch.load():
        log.leader_epoch.store(epoch)
        log.saved.leader_epoch = epoch
        log_put_locked(log)


cdef void log_hand_over(PartitionLog* log, Checkpoint* checkpoint) noexcept nogil:
    cdef ScopeLock saved
    saved.hold(log.saved_guard)
    checkpoint[0] = log.saved
    log_list_segments(log, checkpoint)


cdef void log_list_segments(PartitionLog* log, Checkpoint* checkpoint) noexcept nogil:
    cdef size_t i
    cdef ScopeLock lock
    checkpoint.bases.clear()
    lock.hold(log.list_guard)
    for i in range(log.segments.size()):
        if log.segments[i].get().base_offset < checkpoint.segment_base:
            checkpoint.bases.push_back(log.segments[i].get().base_offset)
    checkpoint.holes = log.holes

"""Offsets that a follower's log lacks because its leader has none: compaction left them out, or
retention removed all that was before them.

In a log of its own a gap is damage, so the journal says first that there may be some. How far is
not known before the leader's next batch, so for the rest of this life of the log it is anywhere.
"""

from libc.stdint cimport INT64_MAX

from appliance.native._codes cimport LOG_CLOSED, LOG_FAILED, NOT_LEADER, OFFSET_OUT_OF_RANGE, OK
from appliance.native._native cimport ScopeLock
from appliance.storage._checkpoint cimport log_save_locked
from appliance.storage._commit_requests cimport committer_checkpoint, log_committer
from appliance.storage._partition_log cimport log_roll_locked
from appliance.storage._producers cimport producers_first_open
from appliance.storage._retention cimport log_advance_start
from appliance.storage._truncation cimport log_may_be_cut, log_truncate


# ---- without the GIL ----

cdef int log_admit_gap(PartitionLog* log, int64_t base_offset) noexcept nogil:
    cdef int code
    cdef ScopeLock saved
    if base_offset <= log.log_end_offset.load() or base_offset < log.gaps_end.load():
        return OK
    saved.hold(log.saved_guard)
    log.saved.gaps_end = INT64_MAX
    code = log_save_locked(log)
    if code == OK:
        log.gaps_end.store(INT64_MAX)
    return code


cdef int log_begin_at(PartitionLog* log, int64_t offset, int64_t election) noexcept nogil:
    cdef int code = log_truncate(log, log.log_start_offset.load(), election)
    if code == OK and offset < log.log_end_offset.load():
        code = OFFSET_OUT_OF_RANGE
    if code == OK:
        code = log_admit_gap(log, offset)
    if code == OK:
        code = _forget(log, election)
    if code == OK:
        code = _roll_at(log, offset, election)
    # Recovery begins in the new segment before the old one goes.
    if code == OK:
        code = committer_checkpoint(log_committer(log))
    if code == OK:
        code = log_advance_start(log, offset)
    return code


cdef int _forget(PartitionLog* log, int64_t election) noexcept nogil:
    """Below the start there may be batches still, which no reader gets: transactions whose markers
    were behind it, producers and epochs of which the leader knows more. The last epoch would be
    said to end here, where the leader has others since."""
    cdef ScopeLock guard, list_guard
    guard.hold(log.guard)
    if not log_may_be_cut(log, election):
        return NOT_LEADER
    log.producers.producers.clear()
    log.producers.open_txns.clear()
    log.epochs.clear()
    list_guard.hold(log.list_guard)
    log.aborted.clear()
    log.ended.clear()
    log.first_open_offset.store(producers_first_open(&log.producers))
    return OK


cdef int _roll_at(PartitionLog* log, int64_t offset, int64_t election) noexcept nogil:
    cdef ScopeLock guard
    guard.hold(log.guard)
    if log.failed.load() != OK:
        return LOG_FAILED
    if log.is_closed.load():
        return LOG_CLOSED
    if not log_may_be_cut(log, election):
        return NOT_LEADER
    if offset == log.log_end_offset.load():
        return OK
    log.log_end_offset.store(offset)
    return log_roll_locked(log)

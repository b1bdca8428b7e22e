"""What a follower does with one partition of an answer: append, cut, or begin anew.

    records                 are appended as they are; their end is fetched from once it is on disk
    a point of divergence   what is behind it here is cut, and the leader asked again; not before
                            the ledger has it where that may have counted: it is older than an
                            unclean election, or below the watermark
    the leader's start is   nothing is kept, not even what is known of epochs and producers, and
    beyond the end here     the log begins there
    a leader with records   after an unclean election an empty log, which has nothing to compare,
    before the start here   takes nothing: it is to be begun anew, for a log cannot go back
    an error                the partition alone is left out for a while; the others go on

Whether the leader is the leader still is asked at each step: an election may come at any time.
"""

from libc.stdint cimport INT64_MAX, int16_t, int32_t, int64_t, uint8_t
from libcpp.memory cimport make_shared
from libcpp.string cimport string

from appliance.native._codes cimport (
    LEADER_EPOCH_UNKNOWN, NOT_LEADER, OFFSET_OUT_OF_RANGE, OK, WOULD_WAIT,
)
from appliance.native._native cimport ScopeLock, monotonic_ns, mutant
from appliance.network._quota cimport Quota, quota_charge, quota_delay
from appliance.protocol._error_codes cimport kafka_error
from appliance.storage._append cimport Appended, log_append_replicated
from appliance.storage._commit_requests cimport committer_ask, committer_notify
from appliance.storage._gaps cimport log_begin_at
from appliance.storage._last_stable_offset cimport log_high_watermark
from appliance.storage._leader_epochs cimport epochs_last
from appliance.storage._partition_log cimport PartitionLog
from appliance.storage._replicas cimport ROLE_FOLLOWER
from appliance.storage._replication cimport log_cut_offset, log_lost_from, log_replicated_to
from appliance.storage._truncation cimport log_truncate

cdef enum:
    BACKOFF_FIRST_NS = 20000000    # an election is heard of here and there within as much
    WINDOW_NS = 1000000000         # so much of a rate may be used at once


# ---- without the GIL ----

cdef FollowedRef followed_new(const string& topic_id, const string& topic, int32_t partition,
                              const LogRef& log, const CommitterRef& committer) noexcept nogil:
    cdef FollowedRef fresh = make_shared[Followed]()
    cdef Followed* it = fresh.get()
    it.topic_id, it.topic, it.partition = topic_id, topic, partition
    it.log, it.committer = log, committer
    it.is_in_session = it.is_moved = False
    it.leader_epoch = -1
    it.watermark = it.leader_start = it.offset = it.log_start_offset = -1
    it.valid_from = INT64_MAX
    it.out_until_ns = it.backoff_ns = it.bytes = it.cuts = 0
    it.unclean_epoch = -1
    it.wants_cut = -1
    it.may_cut = INT64_MAX
    it.code = it.error = 0
    return fresh


cdef bint followed_name(Followed* it, int32_t leader, int64_t backoff_max_ns, Quota* quota,
                        Named* into) noexcept nogil:
    cdef PartitionLog* log = it.log.get()
    cdef ScopeLock guard
    cdef int64_t end_offset, delay_ns
    it.leader_epoch = <int32_t>log.replicas.epoch.load()
    if log.role.load() != ROLE_FOLLOWER or log.replicas.leader.load() != leader:
        followed_leave_out(it, NOT_LEADER, 0, backoff_max_ns)
        return False
    guard.hold(log.guard)
    end_offset = log.log_end_offset.load()
    into.last_epoch = epochs_last(log)
    guard.release()
    if log.failed.load() != OK:
        followed_leave_out(it, <int>log.failed.load(), 0, backoff_max_ns)
        return False
    if log.durable_offset.load() < end_offset and not mutant(b"follower_counts_unsynced"):
        committer_ask(it.committer.get(), it.log, 0)
        return False
    if _is_slow(it):
        delay_ns = quota_delay(quota, monotonic_ns(), WINDOW_NS)
        if delay_ns > 0:
            it.code = it.error = 0
            it.out_until_ns = monotonic_ns() + delay_ns
            return False
    into.topic_id, into.partition = it.topic_id, it.partition
    into.leader_epoch = it.leader_epoch
    into.offset = it.offset = end_offset
    into.log_start_offset = it.log_start_offset = log.log_start_offset.load()
    it.is_moved = False
    it.out_until_ns = 0
    return True


cdef bint _is_slow(const Followed* it) noexcept nogil:
    """Who has what counts is never held back: it would leave the ISR."""
    cdef const PartitionLog* log = it.log.get()
    return log.replicas.follows_slowly.load() and log.log_end_offset.load() < it.watermark


cdef bint followed_is_to_be_named(const Followed* it) noexcept nogil:
    return (it.out_until_ns != 0 or it.is_moved or _is_elected_anew(it)
            or it.log.get().log_start_offset.load() != it.log_start_offset)


cdef bint _is_elected_anew(const Followed* it) noexcept nogil:
    return it.log.get().replicas.epoch.load() != it.leader_epoch


cdef void followed_leave_out(Followed* it, int code, int16_t error,
                             int64_t backoff_max_ns) noexcept nogil:
    it.code, it.error = code, error
    it.backoff_ns = min(max(2 * it.backoff_ns, <int64_t>BACKOFF_FIRST_NS), backoff_max_ns)
    it.out_until_ns = monotonic_ns() + it.backoff_ns


cdef void followed_take(Followed* it, const Answered* answer, int64_t backoff_max_ns,
                        Quota* quota) noexcept nogil:
    cdef PartitionLog* log = it.log.get()
    cdef int code
    if answer.error == kafka_error(OFFSET_OUT_OF_RANGE) and (
            answer.log_start_offset > log.log_end_offset.load()):
        code = _begin_at(it, answer.log_start_offset)
    elif answer.error != 0:
        followed_leave_out(it, OK, answer.error, backoff_max_ns)
        return
    elif answer.diverging_epoch >= 0 and _is_deleted_there(it, answer.log_start_offset):
        # Where the leader's first batch begins it tells who asks, and knows no epochs.
        code = _begin_at(it, log.log_end_offset.load())
    elif answer.diverging_epoch >= 0:
        code = _cut(it, answer)
    elif _lacks_what_is_before(it, answer.log_start_offset):
        code = OFFSET_OUT_OF_RANGE
    else:
        if _is_slow(it):
            quota_charge(quota, answer.records.size, monotonic_ns(), WINDOW_NS)
        code = _append(it, answer)
        if code == OK:
            it.watermark, it.leader_start = answer.watermark, answer.log_start_offset
            code = log_replicated_to(log, it.leader_epoch, answer.watermark)
    if code == OK:
        it.code = it.error = 0
        it.backoff_ns = 0
    elif code == OFFSET_OUT_OF_RANGE:
        followed_leave_out(it, OK, kafka_error(code), backoff_max_ns)
    elif not _is_elected_anew(it):
        followed_leave_out(it, code, 0, backoff_max_ns)


cdef bint _is_empty(const PartitionLog* log) noexcept nogil:
    return log.log_start_offset.load() == log.log_end_offset.load()


cdef bint _lacks_what_is_before(const Followed* it, int64_t leader_start) noexcept nogil:
    """Who is in sync, or whose leaders all had what counted, only knows more than the leader of
    what was deleted."""
    cdef const PartitionLog* log = it.log.get()
    return (it.unclean_epoch >= 0 and _is_empty(log)
            and leader_start < log.log_start_offset.load())


cdef bint _is_deleted_there(Followed* it, int64_t leader_start) noexcept nogil:
    """All that is here, so nothing can be compared. What an unclean election cuts is told first."""
    cdef PartitionLog* log = it.log.get()
    cdef int64_t end_offset = log.log_end_offset.load()
    cdef ScopeLock guard
    guard.hold(log.guard)
    return leader_start > end_offset and (
        _is_empty(log) or epochs_last(log) >= it.unclean_epoch)


cdef int _append(Followed* it, const Answered* answer) noexcept nogil:
    """What came before a batch that is refused stays."""
    cdef Appended appended
    cdef int64_t before = it.log.get().bytes_appended.load()
    cdef int code
    if answer.records.size <= 0:
        return OK
    code = log_append_replicated(it.committer.get(), it.log, <uint8_t*>answer.records.data,
                                 answer.records.size, it.leader_epoch, &appended)
    if not appended.duplicate:
        it.bytes += it.log.get().bytes_appended.load() - before
        _moved(it)
    return code


cdef void _moved(Followed* it) noexcept nogil:
    """Answers of requests that were sent before are about another end."""
    it.is_moved = True
    it.valid_from = INT64_MAX


cdef bint _follows(const Followed* it) noexcept nogil:
    """Removing it from the fetcher, which waits for this, comes before it may lead: so nothing that
    it has as a leader is cut."""
    return it.log.get().role.load() == ROLE_FOLLOWER and not _is_elected_anew(it)


cdef bint followed_is_maintained(Followed* it) noexcept nogil:
    if not it.log.get().maintenance.try_lock():
        return True
    it.log.get().maintenance.unlock()
    return False


cdef bint _may_have_counted(Followed* it, int64_t offset) noexcept nogil:
    cdef PartitionLog* log = it.log.get()
    cdef ScopeLock guard
    guard.hold(log.guard)
    return offset < log_high_watermark(log) or epochs_last(log) < it.unclean_epoch


cdef int _cut(Followed* it, const Answered* answer) noexcept nogil:
    cdef PartitionLog* log = it.log.get()
    cdef int64_t offset = log_cut_offset(log, answer.diverging_epoch, answer.diverging_end)
    cdef int code
    if not _follows(it):
        return NOT_LEADER
    if followed_is_maintained(it):
        return WOULD_WAIT
    if _is_empty(log) and offset < log.log_start_offset.load():
        return OFFSET_OUT_OF_RANGE  # there is nothing to be cut, and the leader's is another log
    offset = max(offset, log.log_start_offset.load())
    if offset >= log.log_end_offset.load():
        return LEADER_EPOCH_UNKNOWN  # nothing here parts from what the leader has
    if offset < it.may_cut and _may_have_counted(it, offset):
        it.wants_cut = offset
        return WOULD_WAIT
    code = log_truncate(log, offset, it.leader_epoch)
    committer_notify(it.committer.get())
    if code == OK:
        log_lost_from(log, offset)
        it.wants_cut = -1
        it.may_cut = INT64_MAX
    it.cuts += code == OK
    _moved(it)
    return code


cdef int _begin_at(Followed* it, int64_t offset) noexcept nogil:
    cdef int code
    if not _follows(it):
        return NOT_LEADER
    if followed_is_maintained(it):
        return WOULD_WAIT
    code = log_begin_at(it.log.get(), offset, it.leader_epoch)
    committer_notify(it.committer.get())
    it.cuts += code == OK
    _moved(it)
    return code

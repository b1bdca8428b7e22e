"""A partition's place among its replicas. Danger: a watermark that is too high loses records that
were acknowledged; so it moves here alone, under `replicas.guard`, and wherever the ISR or a durable
end may get smaller under the log's guard, too, so that the committer stands still meanwhile.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t
from libcpp.vector cimport vector

from appliance.native._codes cimport (
    LEADER_EPOCH_OLD, LEADER_EPOCH_UNKNOWN, LOG_CLOSED, LOG_FAILED, NOT_LEADER, OK,
    REPLICA_LIFE_OLD, REPLICA_UNKNOWN, TIMED_OUT,
)
from appliance.native._native cimport ScopeLock, monotonic_ns, mutant, wait_until
from appliance.storage._commit_requests cimport (
    committer_await, committer_notify, log_committer,
)
from appliance.storage._last_stable_offset cimport log_forget_ended, log_high_watermark
from appliance.storage._leader_epochs cimport epochs_end_of, epochs_last
from appliance.storage._log_commit cimport log_tell, log_tell_all
from appliance.storage._replicas cimport (
    ROLE_ALONE, ROLE_FOLLOWER, ROLE_LEADER, ROLE_NOBODY, Replica, Replicas,
)


# ---- without the GIL ----

# Elections

cdef void log_hold(PartitionLog* log) noexcept nogil:
    cdef ScopeLock guard, lock
    guard.hold(log.guard)
    lock.hold(log.replicas.guard)
    if log.role.load() != ROLE_ALONE:
        return
    _begin(log, -1, -1, ROLE_NOBODY)
    lock.release()
    guard.release()
    _tell_all(log)


cdef int log_lead(PartitionLog* log, int32_t epoch, int32_t leader, const vector[int32_t]* others,
                  const vector[int32_t]* in_sync, const vector[int32_t]* joining, int min_in_sync,
                  bint is_ending) noexcept nogil:
    cdef Replicas* replicas = &log.replicas
    cdef int code
    cdef ScopeLock guard, lock
    guard.hold(log.guard)
    lock.hold(replicas.guard)
    code = _heard(log, epoch)
    if code != OK:
        return code
    if replicas.epoch.load() == epoch and log.role.load() == ROLE_LEADER:
        return OK
    replicas.others.clear()
    _put_others(replicas, others)
    replicas.start.store(log.log_end_offset.load())
    _begin(log, epoch, leader, ROLE_LEADER)
    replicas.is_ending.store(is_ending)
    _set_in_sync(log, in_sync, joining, min_in_sync)
    lock.release()
    guard.release()
    _tell_all(log)
    return OK


cdef void _put_others(Replicas* replicas, const vector[int32_t]* others) noexcept nogil:
    """Who is known already stays as it is."""
    cdef vector[Replica] before
    cdef Replica replica
    cdef int64_t now = monotonic_ns()
    cdef size_t i, k
    before.swap(replicas.others)
    for i in range(others.size()):
        replica.life = replica.end = replica.start = replica.fetched_ns = replica.end_at_fetch = 0
        replica.caught_up_ns = now  # who was in sync has its time to say how far it is
        replica.is_in_sync = replica.is_joining = replica.has_caught_up = False
        replica.node = others.at(i)
        for k in range(before.size()):
            if before[k].node == replica.node:
                replica = before[k]
        replicas.others.push_back(replica)


cdef int log_follow(PartitionLog* log, int32_t epoch, int32_t leader) noexcept nogil:
    cdef int role = ROLE_NOBODY if leader < 0 else ROLE_FOLLOWER
    cdef int code
    cdef ScopeLock guard, lock
    guard.hold(log.guard)
    lock.hold(log.replicas.guard)
    code = _heard(log, epoch)
    if code != OK or (log.replicas.epoch.load() == epoch and log.role.load() == role):
        return code
    log.replicas.others.clear()
    _begin(log, epoch, leader, role)
    lock.release()
    guard.release()
    _tell_all(log)
    return OK


cdef int64_t log_end_leading(PartitionLog* log) noexcept nogil:
    cdef ScopeLock guard
    guard.hold(log.guard)
    if log.role.load() != ROLE_LEADER:
        return NOT_LEADER
    log.replicas.is_ending.store(True)
    return log.log_end_offset.load()


cdef int _heard(PartitionLog* log, int32_t epoch) noexcept nogil:
    if log.is_closed.load():
        return LOG_CLOSED
    if epoch < log.replicas.epoch.load() or epoch < epochs_last(log):
        return LEADER_EPOCH_OLD
    return OK


cdef void _begin(PartitionLog* log, int32_t epoch, int32_t leader, int role) noexcept nogil:
    """What is known to be everywhere stays; of a log that was alone nothing is, but what its ISR
    says next."""
    cdef int64_t known = log_high_watermark(log)
    if log.role.load() == ROLE_ALONE:
        known = log.log_start_offset.load()
    log.replicas.in_sync = log.replicas.min_in_sync = 0
    log.replicas.lacks_in_sync.store(False)
    log.replicas.is_ending.store(False)
    log.replicas.epoch.store(epoch)
    log.replicas.leader.store(leader)
    if epoch >= 0:
        # Not the one that an unclean end of this log alone has begun: that has no records.
        log.leader_epoch.store(epoch)
    log.shows_appended.store(False)
    log.replicated_to.store(known)
    log.role.store(role)


cdef void _tell_all(PartitionLog* log) noexcept nogil:
    log_tell_all(log)
    if log.awaited.load() > 0:
        committer_notify(log_committer(log))


# The ISR

cdef int log_set_in_sync(PartitionLog* log, int32_t epoch, const vector[int32_t]* in_sync,
                         const vector[int32_t]* joining, int min_in_sync) noexcept nogil:
    cdef ScopeLock guard, lock
    guard.hold(log.guard)
    lock.hold(log.replicas.guard)
    if log.role.load() != ROLE_LEADER or log.replicas.epoch.load() != epoch:
        return NOT_LEADER
    _set_in_sync(log, in_sync, joining, min_in_sync)
    lock.release()
    guard.release()
    _moved(log)
    return OK


cdef int log_set_others(PartitionLog* log, int32_t epoch,
                        const vector[int32_t]* others) noexcept nogil:
    cdef Replicas* replicas = &log.replicas
    cdef size_t i
    cdef ScopeLock guard, lock
    guard.hold(log.guard)
    lock.hold(replicas.guard)
    if log.role.load() != ROLE_LEADER or replicas.epoch.load() != epoch:
        return NOT_LEADER
    _put_others(replicas, others)
    replicas.in_sync = 1
    for i in range(replicas.others.size()):
        replicas.in_sync += replicas.others[i].is_in_sync
    replicas.lacks_in_sync.store(replicas.in_sync < replicas.min_in_sync)
    _recount(log)
    lock.release()
    guard.release()
    _moved(log)
    return OK


cdef void _set_in_sync(PartitionLog* log, const vector[int32_t]* in_sync,
                       const vector[int32_t]* joining, int min_in_sync) noexcept nogil:
    cdef Replicas* replicas = &log.replicas
    cdef Replica* each
    cdef size_t i
    replicas.in_sync = 1
    for i in range(replicas.others.size()):
        each = &replicas.others[i]
        each.is_in_sync = _has(in_sync, each.node)
        each.is_joining = _has(joining, each.node) and not mutant(b"joins_unwaited")
        replicas.in_sync += each.is_in_sync
    replicas.min_in_sync = min_in_sync
    replicas.lacks_in_sync.store(replicas.in_sync < min_in_sync)
    _recount(log)


cdef bint _has(const vector[int32_t]* nodes, int32_t node) noexcept nogil:
    cdef size_t i
    for i in range(nodes.size()):
        if nodes.at(i) == node:
            return True
    return False


cdef bint _recount(PartitionLog* log) noexcept nogil:
    """Whether `replicated_to` moved. With too few in sync it stands."""
    cdef Replicas* replicas = &log.replicas
    cdef int64_t least = INT64_MAX, before = log.replicated_to.load()
    cdef size_t i
    if replicas.in_sync < replicas.min_in_sync and not mutant(b"watermark_below_min_insync"):
        # What is on this disk alone has not counted yet, and shall not.
        least = log_high_watermark(log)
    elif not mutant(b"acks_before_isr"):
        for i in range(replicas.others.size()):
            if replicas.others[i].is_in_sync or replicas.others[i].is_joining:
                least = min(least, replicas.others[i].end)
        if mutant(b"watermark_of_majority") and replicas.others.size() == 2:
            least = max(replicas.others[0].end, replicas.others[1].end)
    least = max(least, log_high_watermark(log))
    log.replicated_to.store(least)
    return least != before


# Followers

cdef int log_fetched_by(PartitionLog* log, int32_t node, int64_t life, int32_t epoch,
                        int64_t offset, int64_t log_start) noexcept nogil:
    cdef Replica* replica
    cdef bint has_moved
    cdef int code
    cdef ScopeLock lock
    lock.hold(log.replicas.guard)
    code = _find(log, node, life, epoch, &replica)
    if code != OK:
        return code
    replica.start = log_start
    if offset < replica.end:
        lock.release()
        return _has_less(log, node, life, epoch, offset)
    _note_fetch(log, replica, life, offset)
    has_moved = _recount(log)
    lock.release()
    if has_moved:
        _moved(log)
    return OK


cdef int32_t log_follower_with(PartitionLog* log, const vector[int32_t]* nodes,
                               int64_t offset) noexcept nogil:
    cdef const Replica* each
    cdef int64_t most = offset - 1
    cdef int32_t found = -1
    cdef size_t i
    cdef ScopeLock lock
    lock.hold(log.replicas.guard)
    for i in range(log.replicas.others.size()):
        each = &log.replicas.others[i]
        if each.is_in_sync and each.start <= offset and each.end > most and _has(nodes, each.node):
            found, most = each.node, each.end
    return found


cdef bint log_is_settled(PartitionLog* log, int64_t behind_max_ns) noexcept nogil:
    cdef const Replica* each
    cdef size_t i
    cdef int64_t since_ns = monotonic_ns() - behind_max_ns
    cdef ScopeLock lock
    lock.hold(log.replicas.guard)
    for i in range(log.replicas.others.size()):
        each = &log.replicas.others[i]
        if not each.is_in_sync or each.caught_up_ns < since_ns:
            return False
    return True


cdef bint log_has_in_sync(PartitionLog* log, int32_t node) noexcept nogil:
    cdef size_t i
    cdef ScopeLock lock
    lock.hold(log.replicas.guard)
    for i in range(log.replicas.others.size()):
        if log.replicas.others[i].node == node:
            return log.replicas.others[i].is_in_sync
    return False


cdef int _has_less(PartitionLog* log, int32_t node, int64_t life, int32_t epoch,
                   int64_t offset) noexcept nogil:
    """Its disk was lost. The committer must not move the watermark meanwhile."""
    cdef Replica* replica
    cdef int code
    cdef ScopeLock guard, lock
    guard.hold(log.guard)
    lock.hold(log.replicas.guard)
    code = _find(log, node, life, epoch, &replica)
    if code == OK:
        _note_fetch(log, replica, life, offset)
        _recount(log)
    return code


cdef int _find(PartitionLog* log, int32_t node, int64_t life, int32_t epoch,
               Replica** found) noexcept nogil:
    cdef Replicas* replicas = &log.replicas
    cdef size_t i
    if log.role.load() != ROLE_LEADER:
        return NOT_LEADER
    if epoch < replicas.epoch.load() and not mutant(b"older_epochs_are_answered"):
        return LEADER_EPOCH_OLD
    if epoch > replicas.epoch.load():
        return LEADER_EPOCH_UNKNOWN
    for i in range(replicas.others.size()):
        if replicas.others[i].node == node:
            found[0] = &replicas.others[i]
            if life < replicas.others[i].life and not mutant(b"former_self_counts"):
                return REPLICA_LIFE_OLD
            return OK
    return REPLICA_UNKNOWN


cdef void _note_fetch(PartitionLog* log, Replica* replica, int64_t life,
                      int64_t offset) noexcept nogil:
    """Under load nobody ever has all. Who now has what there was at its last fetch was caught up
    then."""
    cdef int64_t now = monotonic_ns(), end_offset = log.log_end_offset.load()
    cdef bint has_caught_up = True, is_same = replica.life == life and offset >= replica.end
    if offset >= end_offset:
        replica.caught_up_ns = now
    elif is_same and replica.fetched_ns != 0 and offset >= replica.end_at_fetch:
        replica.caught_up_ns = max(replica.caught_up_ns, replica.fetched_ns)
    else:
        has_caught_up = is_same and replica.has_caught_up
    replica.has_caught_up = has_caught_up
    replica.fetched_ns, replica.end_at_fetch = now, end_offset
    replica.life, replica.end = life, offset


cdef void _moved(PartitionLog* log) noexcept nogil:
    log_forget_ended(log)
    log_tell(log)
    if log.awaited.load() > 0:
        committer_notify(log_committer(log))


cdef int log_replicated_to(PartitionLog* log, int32_t epoch, int64_t watermark) noexcept nogil:
    cdef ScopeLock lock
    lock.hold(log.replicas.guard)
    if log.role.load() != ROLE_FOLLOWER or log.replicas.epoch.load() != epoch:
        return NOT_LEADER
    if watermark <= log.replicated_to.load():
        return OK
    log.replicated_to.store(watermark)
    lock.release()
    _moved(log)
    return OK


cdef void log_lost_from(PartitionLog* log, int64_t offset) noexcept nogil:
    cdef ScopeLock guard, lock
    guard.hold(log.guard)
    lock.hold(log.replicas.guard)
    if log.role.load() == ROLE_FOLLOWER and log.replicated_to.load() > offset:
        log.replicated_to.store(offset)


# Histories that part

cdef void log_diverging(PartitionLog* log, int32_t last_epoch, int64_t offset, int32_t* epoch,
                        int64_t* end_offset) noexcept nogil:
    cdef int32_t common
    cdef int64_t end
    epoch[0] = -1
    end_offset[0] = -1
    if last_epoch < 0 or mutant(b"logs_may_diverge"):
        return
    epochs_end_of(log, last_epoch, &common, &end)
    if common == last_epoch and offset <= end:
        return
    epoch[0] = max(common, 0)
    end_offset[0] = end if common >= 0 else log.log_start_offset.load()


cdef int64_t log_cut_offset(PartitionLog* log, int32_t epoch, int64_t end_offset) noexcept nogil:
    cdef int32_t common
    cdef int64_t end
    epochs_end_of(log, epoch, &common, &end)
    if common < 0:
        return log.log_start_offset.load()
    return min(end, end_offset)


# Waiting

cdef int log_await(Committer* committer, const LogRef& log, int64_t offset, int64_t election,
                   int64_t deadline_ns) noexcept nogil:
    cdef int code = committer_await(committer, log, offset, deadline_ns)
    if code == OK and log.get().replicated_to.load() <= offset:
        log.get().awaited.fetch_add(1)
        code = _await_replicas(committer, log.get(), offset, election, deadline_ns)
        log.get().awaited.fetch_add(-1)
    # What counts in a later election may be another record at this offset.
    return code if log.get().replicas.epoch.load() == election else NOT_LEADER


cdef int _await_replicas(Committer* committer, PartitionLog* log, int64_t offset,
                         int64_t election, int64_t deadline_ns) noexcept nogil:
    cdef ScopeLock lock
    lock.hold(committer.guard)
    while log.replicas.epoch.load() == election and log.replicated_to.load() <= offset:
        if log.failed.load() != OK:
            return LOG_FAILED
        if log.is_closed.load() or committer.is_stopping:
            return LOG_CLOSED
        if not wait_until(committer.published, committer.guard, deadline_ns):
            return TIMED_OUT
    return OK

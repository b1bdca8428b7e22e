"""Requests to the committer: commits, checkpoints, and waits until an offset is durable.

Its thread is in `_group_commit.pyx`.
"""

from libc.stdint cimport int64_t
from libcpp.pair cimport pair

from appliance.native._codes cimport LOG_CLOSED, LOG_FAILED, OFFSET_OUT_OF_RANGE, OK, TIMED_OUT
from appliance.native._descriptors cimport descriptors_are_many
from appliance.native._native cimport ScopeLock, wait_until


# ---- without the GIL ----

cdef void committer_ask(Committer* committer, const LogRef& log,
                        int64_t deadline_ns) noexcept nogil:
    cdef ScopeLock lock
    # Already in the list: the commit to come covers this append too, since it has not begun.
    if deadline_ns == 0 and log.get().commit_is_wanted.exchange(True):
        return
    lock.hold(committer.guard)
    if committer.is_stopping:
        return
    if deadline_ns == 0:
        committer.wanted.push_back(log)
    elif not committer_list(committer, log, deadline_ns) and not descriptors_are_many():
        return  # it will wake for the deadline that is listed, and look again
    committer.wake.notify_one()


cdef bint committer_list(Committer* committer, const LogRef& log,
                         int64_t deadline_ns) noexcept nogil:
    cdef int64_t listed_ns = log.get().listed_until_ns
    if 0 < listed_ns <= deadline_ns:
        return False
    log.get().listed_until_ns = deadline_ns
    committer.deadlines.insert(pair[int64_t, LogRef](deadline_ns, log))
    return True


cdef int committer_await(Committer* committer, const LogRef& log, int64_t offset,
                         int64_t deadline_ns) noexcept nogil:
    cdef int64_t truncations = log.get().truncations.load()
    cdef ScopeLock lock
    if log.get().durable_offset.load() <= offset:
        committer_ask(committer, log, 0)
    lock.hold(committer.guard)
    while log.get().durable_offset.load() <= offset:
        if log.get().failed.load() != OK:
            return LOG_FAILED
        if log.get().is_closed.load() or committer.is_stopping:
            return LOG_CLOSED
        if log.get().truncations.load() != truncations:
            return OFFSET_OUT_OF_RANGE
        if not wait_until(committer.published, committer.guard, deadline_ns):
            return OK if log.get().durable_offset.load() > offset else TIMED_OUT
    return OK


cdef void committer_notify(Committer* committer) noexcept nogil:
    cdef ScopeLock lock
    lock.hold(committer.guard)
    committer.published.notify_all()


cdef void committer_forget(Committer* committer) noexcept nogil:
    cdef ScopeLock lock
    lock.hold(committer.guard)
    committer.has_closed = True
    committer.published.notify_all()


cdef int committer_checkpoint(Committer* committer) noexcept nogil:
    cdef int64_t mine
    cdef ScopeLock lock
    lock.hold(committer.guard)
    committer.checkpoint_is_wanted = True
    committer.wake.notify_one()
    mine = committer.checkpoints_begun + 1
    while committer.checkpoints_done < mine and not committer.is_stopping:
        committer.published.wait(committer.guard)
    return <int>committer.journal_failed.load()

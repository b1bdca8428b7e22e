"""Closes idle files of logs when few more may be opened, or none. Called by a committer when few
are left, and by the thread that needs one when none is, be it a network thread: it holds no lock of
a log's, and here no lock is waited for but this module's own.

Many are closed at once, so that whoever opens the next ones need not come here: with more
partitions in use than descriptors, a round is paid for by all the openings until the next one.
"""

from libc.stdint cimport int64_t
from libcpp.memory cimport weak_ptr
from libcpp.vector cimport vector

from appliance.native._descriptors cimport descriptors_most, descriptors_relieved_by
from appliance.native._native cimport monotonic_ns, mutex
from appliance.storage._commit_requests cimport Committer, CommitterRef, committer_ask
from appliance.storage._partition_log cimport LogRef, PartitionLog, log_close_idle, log_is_dirty

cdef enum:
    NEEDED = 2                     # for one file: also its directory, which may be what was closed
    CLOSED_MIN = 16                # in one round
    CLOSED_SHARE = 8               # of all that may be open, when that is more
    IDLE_NS = 1000000000           # first those that nobody used for so long

cdef cppclass Watched:
    weak_ptr[PartitionLog] log
    weak_ptr[Committer] committer

cdef mutex guard
cdef vector[Watched] watched       # guard
cdef size_t turn = 0               # guard; where the last round ended


# ---- without the GIL ----

cdef void relief_watch(const CommitterRef& committer, const LogRef& log) noexcept nogil:
    cdef Watched one
    one.log = weak_ptr[PartitionLog](log)
    one.committer = weak_ptr[Committer](committer)
    guard.lock()
    if watched.size() == watched.capacity():
        _forget_gone()
    watched.push_back(one)
    guard.unlock()


cdef void _forget_gone() noexcept nogil:
    cdef size_t i, kept = 0
    for i in range(watched.size()):
        if not watched[i].log.expired():
            watched[kept] = watched[i]
            kept += 1
    watched.resize(kept)


cdef int64_t _relieve() noexcept nogil:
    cdef int64_t now = monotonic_ns(), closed
    guard.lock()
    closed = _close_idle(now - IDLE_NS)
    if closed < NEEDED:
        closed += _close_idle(now)
    # Few could be closed, so what is clean runs out before what is dirty is due to be synced.
    if closed < _wanted():
        _ask_commits()
    guard.unlock()
    return closed if closed >= NEEDED else 0


cdef int64_t _close_idle(int64_t before_ns) noexcept nogil:
    cdef int64_t closed = 0, wanted = _wanted()
    cdef LogRef log
    cdef size_t _i
    for _i in range(watched.size()):
        _turn_on()
        log = watched[turn].log.lock()
        if log.get() != NULL:
            closed += log_close_idle(log.get(), before_ns)
        if closed >= wanted:
            break
    return closed


cdef int64_t _wanted() noexcept nogil:
    return max(<int64_t>CLOSED_MIN, descriptors_most() // CLOSED_SHARE)


cdef void _turn_on() noexcept nogil:
    global turn
    turn = turn + 1 if turn + 1 < watched.size() else 0


cdef void _ask_commits() noexcept nogil:
    """Most of what is open has bytes to write. What is synced soon can be closed for others."""
    cdef CommitterRef committer
    cdef LogRef log
    cdef size_t i
    for i in range(watched.size()):
        log = watched[i].log.lock()
        committer = watched[i].committer.lock()
        if log.get() != NULL and committer.get() != NULL and log_is_dirty(log.get()):
            committer_ask(committer.get(), log, 0)


descriptors_relieved_by(_relieve)

"""Group commit: one thread collects every log with waiters or an expired flush policy, syncs all of
them, and publishes their durable offsets.

During one commit requests gather for the next: the speed of the disk sets the size of the group.
Behind a slow commit of several the next one waits a moment for those who were just answered.
A commit is three steps per log (`log_commit_begin`, the syncs, `log_commit_end`); no lock of a log
is held while the disk works.
"""

from libc.stdint cimport INT64_MAX, int64_t
from libcpp.map cimport multimap
from libcpp.pair cimport pair
from libcpp.vector cimport vector

from cython.operator cimport dereference

from appliance.native._codes cimport OK
from appliance.native._descriptors cimport descriptors_look_ahead
from appliance.native._files cimport failure_errno, failure_note, storage_code, sync_code
from appliance.native._native cimport (
    EROFS, ScopeLock, errno, monotonic_ns, mutant, pthread_create, pthread_join, pthread_setname_np,
    wait_until,
)
from appliance.native._wake_soon cimport wake_soon
from appliance.storage._checkpoint cimport log_checkpoint_is_due, log_checkpoint_put
from appliance.storage._commit_requests cimport committer_list, committer_notify
from appliance.storage._commit_sync cimport (
    sync_file_system, sync_is_for_file_system, sync_plans, sync_pool_start, sync_pool_stop,
)
from appliance.storage._free_space cimport space_poll
from appliance.storage._index_files cimport log_finish_indexes, log_store_indexes, log_unfinished
from appliance.storage._log_commit cimport CommitPlan, log_commit_begin, log_commit_end, log_tell
from appliance.storage._open_logs cimport open_logs_fail_unsynced, open_logs_prune
from appliance.storage._partition_log cimport LogRef
from appliance.storage._partition_waits cimport InboxRef, inboxes_keep, inboxes_visit
from appliance.storage._storage cimport storage_commit, storage_takes_writes
from appliance.storage._write_behind cimport (
    write_behind_marks, write_behind_start, write_behind_stop,
)

cdef enum:
    LITTLE_BYTES = 16384           # of a commit: who waited for it is soon answered
    SLOW_NS = 8000000              # a commit on platters, which turn once in 8 ms; flash is faster
    GATHER_PART = 16               # of what the commit took: what a wait costs at most
    GATHER_MAX_NS = 20000000       # a client that sends again later is slow itself


# ---- without the GIL ----

cdef int committer_start(Committer* committer) noexcept nogil:
    sync_pool_start(committer)
    if pthread_create(&committer.thread, NULL, _run, committer) != 0:
        return storage_code(errno)
    pthread_setname_np(committer.thread, b"committer")
    return write_behind_start(committer)


cdef void committer_stop(Committer* committer) noexcept nogil:
    committer.guard.lock()
    committer.is_stopping = True
    committer.wake.notify_one()
    committer.published.notify_all()
    committer.guard.unlock()
    pthread_join(committer.thread, NULL)
    write_behind_stop(committer)
    sync_pool_stop(committer)
    _drop_all(committer)


cdef void _drop_all(Committer* committer) noexcept nogil:
    """It may outlive its logs: the data plane keeps it."""
    cdef vector[LogRef] wanted, changed
    cdef multimap[int64_t, LogRef] deadlines
    committer.guard.lock()
    wanted.swap(committer.wanted)
    deadlines.swap(committer.deadlines)
    committer.guard.unlock()
    changed.swap(committer.changed)


cdef void* _run(void* argument) noexcept nogil:
    cdef Committer* committer = <Committer*>argument
    cdef int64_t checkpoint_ns = monotonic_ns() + committer.checkpoint_interval_ns
    cdef int64_t poll_ns = 0, now, gather_until_ns = 0
    cdef bint with_checkpoint
    cdef vector[LogRef] batch
    wake_soon()
    committer.guard.lock()
    while True:
        now = monotonic_ns()
        _take_expired(committer, now)
        with_checkpoint = now >= checkpoint_ns or committer.checkpoint_is_wanted
        if committer.wanted.empty() and not with_checkpoint and now < poll_ns:
            if committer.is_stopping:
                break
            wait_until(committer.wake, committer.guard, _next_deadline(committer,
                                                                       min(checkpoint_ns, poll_ns)))
            # Whoever opened many files has woken this thread, for a commit or its deadline.
            committer.guard.unlock()
            descriptors_look_ahead()
            committer.guard.lock()
            continue
        if now < gather_until_ns and not committer.is_stopping:
            wait_until(committer.wake, committer.guard, gather_until_ns)
            continue
        batch.clear()
        batch.swap(committer.wanted)
        committer.guard.unlock()
        if not batch.empty():
            _commit(committer, &batch, False)
            gather_until_ns = _gather_until(now, batch.size())
        batch.clear()
        if now >= poll_ns:
            _drop_closed(committer)
            space_poll(committer.storage.get())
            poll_ns = now + committer.poll_interval_ns
            write_behind_marks(committer, now)
        if with_checkpoint:
            _checkpoint(committer)
            checkpoint_ns = monotonic_ns() + committer.checkpoint_interval_ns
        descriptors_look_ahead()
        committer.guard.lock()
    committer.guard.unlock()
    return NULL


cdef int64_t _gather_until(int64_t began_ns, size_t logs) noexcept nogil:
    """Otherwise producers fall into two groups for good, of which each waits for the commit of the
    other: who was just answered misses the next one by a moment. Who is alone waits for nobody."""
    cdef int64_t now = monotonic_ns()
    if logs < 2 or now - began_ns < SLOW_NS:
        return 0
    return now + min((now - began_ns) // GATHER_PART, <int64_t>GATHER_MAX_NS)


cdef void _take_expired(Committer* committer, int64_t now) noexcept nogil:
    """Moves logs whose oldest unflushed record is due. One committed meanwhile is dropped or listed
    again, for the records that came since: without that each commit made another, for as long as
    there were records."""
    cdef LogRef log
    cdef int64_t due_ns
    while not committer.deadlines.empty():
        it = committer.deadlines.begin()
        if dereference(it).first > now:
            return
        log = dereference(it).second
        if log.get().listed_until_ns == dereference(it).first:
            log.get().listed_until_ns = 0
        committer.deadlines.erase(it)
        if log.get().oldest_unflushed_ns.load() == 0:
            continue
        due_ns = log.get().flush_by_ns.load()
        if due_ns > now:
            if due_ns != INT64_MAX:
                committer_list(committer, log, due_ns)
        elif not log.get().commit_is_wanted.exchange(True):
            committer.wanted.push_back(log)


cdef int64_t _next_deadline(Committer* committer, int64_t latest) noexcept nogil:
    if committer.deadlines.empty():
        return latest
    return min(latest, dereference(committer.deadlines.begin()).first)


cdef void _drop_closed(Committer* committer) noexcept nogil:
    """A list here may be the last that keeps a closed log, with its descriptor and its memory. Once
    a turn of the poll: many are closed at once when a topic is deleted."""
    cdef vector[LogRef] gone  # let go of when the guard is free: a descriptor's end may take long
    cdef multimap[int64_t, LogRef] deadlines
    cdef ScopeLock lock
    lock.hold(committer.guard)
    if not committer.has_closed:
        return
    committer.has_closed = False
    _take_closed(&committer.wanted, &gone)
    for entry in committer.deadlines:
        if entry.second.get().is_closed.load():
            gone.push_back(entry.second)
        else:
            deadlines.insert(pair[int64_t, LogRef](entry.first, entry.second))
    committer.deadlines.swap(deadlines)
    lock.release()
    deadlines.clear()
    _take_closed(&committer.changed, &gone)
    gone.clear()
    open_logs_prune(&committer.open_logs)


cdef void _take_closed(vector[LogRef]* logs, vector[LogRef]* gone) noexcept nogil:
    cdef size_t i, kept = 0
    for i in range(logs.size()):
        if logs.at(i).get().is_closed.load():
            gone.push_back(logs.at(i))
        else:
            logs[0][kept] = logs.at(i)
            kept += 1
    logs.resize(kept)


cdef void _commit(Committer* committer, vector[LogRef]* logs, bint with_checkpoint) noexcept nogil:
    cdef vector[CommitPlan] plans
    cdef size_t i
    plans.resize(logs.size())
    for i in range(logs.size()):
        log_commit_begin(logs[0][i], with_checkpoint, &plans[i])
    if mutant(b"ack_before_sync"):
        _publish(committer, &plans)
    if with_checkpoint and mutant(b"checkpoint_ahead_of_durable"):
        _put_checkpoints(committer, &plans)
    sync_plans(committer, &plans)
    _publish(committer, &plans)
    if with_checkpoint:
        _put_checkpoints(committer, &plans)


cdef void _publish(Committer* committer, vector[CommitPlan]* plans) noexcept nogil:
    """Counted before anybody is told: who was told may look at the counts."""
    cdef vector[InboxRef] kept
    cdef size_t i
    committer.commits.fetch_add(1)
    committer.logs_committed.fetch_add(plans.size())
    if _has_time(committer, plans):
        inboxes_keep(&kept)
    for i in range(plans.size()):
        log_commit_end(&plans[0][i])
        if plans[0][i].result == OK and plans[0][i].log.get().is_changed.load():
            _remember_changed(committer, plans[0][i].log)
    committer_notify(committer)
    inboxes_keep(NULL)
    inboxes_visit(&kept)


cdef bint _has_time(Committer* committer, vector[CommitPlan]* plans) noexcept nogil:
    """To answer those who waited, when that is soon done and nobody waits for the next commit."""
    cdef int64_t bytes = 0
    cdef size_t i
    cdef ScopeLock lock
    for i in range(plans.size()):
        bytes += plans[0][i].bytes_appended - plans[0][i].log.get().bytes_durable.load()
    lock.hold(committer.guard)
    return bytes <= LITTLE_BYTES and committer.wanted.empty()


cdef void _remember_changed(Committer* committer, const LogRef& log) noexcept nogil:
    if not log.get().is_listed:
        log.get().is_listed = True
        committer.changed.push_back(log)


cdef void _checkpoint(Committer* committer) noexcept nogil:
    """Commits, with their recovery points, the logs that gained enough since their last one."""
    cdef vector[LogRef] due
    cdef size_t i, kept = 0
    cdef bint wanted
    committer.guard.lock()
    committer.checkpoints_begun += 1
    wanted = committer.checkpoint_is_wanted
    committer.checkpoint_is_wanted = False
    committer.guard.unlock()
    for i in range(committer.changed.size()):
        if wanted or log_checkpoint_is_due(committer.changed[i].get()):
            committer.changed[i].get().is_listed = False
            committer.changed[i].get().is_changed.store(False)
            due.push_back(committer.changed[i])
        else:
            committer.changed[kept] = committer.changed[i]
            kept += 1
    committer.changed.resize(kept)
    if not due.empty():
        _commit(committer, &due, True)
    committer.guard.lock()
    committer.checkpoints_done += 1
    committer.published.notify_all()
    committer.guard.unlock()


cdef void _put_checkpoints(Committer* committer, vector[CommitPlan]* plans) noexcept nogil:
    cdef size_t i
    _store_indexes(committer, plans)
    for i in range(plans.size()):
        if plans[0][i].result == OK and log_checkpoint_put(&plans[0][i]) != OK:
            _remember_changed(committer, plans[0][i].log)
            if plans[0][i].log.get().failed.load() != OK:
                log_tell(plans[0][i].log.get())  # who waits for a follower, too
    committer.journal_failed.store(storage_commit(committer.storage.get()))


cdef void _store_indexes(Committer* committer, vector[CommitPlan]* plans) noexcept nogil:
    """Two files of each segment that was sealed since: at a stop of many logs one sync for all."""
    cdef size_t i
    cdef int64_t files = 0
    cdef bint is_together
    cdef int code = OK
    for i in range(plans.size()):
        if plans[0][i].result == OK:
            files += 2 * log_unfinished(plans[0][i].log.get())
    is_together = files > 0 and sync_is_for_file_system(committer, files)
    for i in range(plans.size()):
        if plans[0][i].result == OK:
            log_store_indexes(&plans[0][i], not is_together)
    if not is_together:
        return
    if not sync_file_system(committer):
        code = sync_code(storage_code(failure_errno()))
    elif not storage_takes_writes(committer.storage.get()):
        code = failure_note(b"sync of the file system", b"", EROFS)
    if code != OK:
        open_logs_fail_unsynced(&committer.open_logs, code)
    for i in range(plans.size()):
        log_finish_indexes(&plans[0][i], code == OK)

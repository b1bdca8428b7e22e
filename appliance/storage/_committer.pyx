"""The committer: one thread that gathers every log with waiters or an expired policy, syncs them
together, and publishes.

While one commit is at the disk, requests gather for the next: the disk's own pace sets the size of
the group, and nobody waits on a timer. A commit is three steps per log (`log_commit_begin`, the
syncs, `log_commit_end`); no lock of a log is held while the disk works.

How a commit is made durable (`commit.sync`):
    files        fdatasync of each dirty segment and fsync of each changed directory, spread over a
                 few threads, so that the file system can merge their journal commits
    filesystem   one syncfs. It also writes what others left dirty on that file system, and says
                 once that something was lost, not what: an error fails every log that has unsynced
                 bytes, also those that are not in the commit. From then on: files
    auto         files below SYNCFS_FILES_MIN descriptors, the file system from there on
A sync that failed is never repeated on that descriptor: the log fails instead. One that succeeded
counts only if the file system still takes writes after it.
"""

from libc.stdint cimport INT64_MAX, int64_t
from libcpp.pair cimport pair
from libcpp.vector cimport vector

from cython.operator cimport dereference

from appliance.native._codes cimport (
    LOG_CLOSED, LOG_FAILED, OFFSET_OUT_OF_RANGE, OK, STORAGE_IO, TIMED_OUT,
)
from appliance.native._files cimport (
    failure_errno, failure_note, storage_code, sync_directory, sync_file,
)
from appliance.native._native cimport (
    EINTR, EROFS, errno, monotonic_ns, mutant, pthread_create, pthread_join, pthread_setname_np,
    pthread_t, syncfs, wait_until,
)
from appliance.native._traffic cimport times_note
from appliance.native._wake_soon cimport wake_soon
from appliance.storage._checkpoint cimport log_checkpoint_is_due, log_checkpoint_put
from appliance.storage._commit cimport (
    CommitPlan, log_commit_begin, log_commit_end, log_write_behind,
)
from appliance.storage._index_files cimport log_finish_indexes, log_store_indexes, log_unfinished
from appliance.storage._open_logs cimport open_logs_fail_unsynced, open_logs_prune
from appliance.storage._partition_log cimport LogRef
from appliance.storage._storage cimport storage_commit, storage_poll, storage_takes_writes
from appliance.storage._watch cimport InboxRef, inboxes_keep, inboxes_visit
from appliance.storage._watermarks cimport watermarks_sync


cdef enum:
    SYNCFS_FILES_MIN = 8           # measured: bench/commit.py, docs/decisions/group-commit.md
    POOL_JOBS_MIN = 2
    LITTLE_BYTES = 16384           # of a commit: who waited for it is soon answered
    MARKS_SYNC_NS = 1000000000     # how old the watermarks on disk may be; no commit waits for them


# ---- without the GIL ----

# Asking and waiting

cdef void committer_ask(Committer* committer, const LogRef& log,
                        int64_t deadline_ns) noexcept nogil:
    if deadline_ns == INT64_MAX:
        return
    if deadline_ns == 0:
        # Already in the list: the commit to come covers this append too, since it has not begun.
        if log.get().commit_is_wanted.exchange(True):
            return
        committer.guard.lock()
        committer.wanted.push_back(log)
    else:
        committer.guard.lock()
        committer.deadlines.insert(pair[int64_t, LogRef](deadline_ns, log))
    committer.wake.notify_one()
    committer.guard.unlock()


cdef int committer_await(Committer* committer, const LogRef& log, int64_t offset,
                         int64_t deadline_ns) noexcept nogil:
    cdef int64_t truncations = log.get().truncations.load()
    cdef int code = OK
    if log.get().durable_offset.load() <= offset:
        committer_ask(committer, log, 0)
    committer.guard.lock()
    while log.get().durable_offset.load() <= offset:
        if log.get().failed.load() != OK:
            code = LOG_FAILED
            break
        if log.get().is_closed.load() or committer.is_stopping:
            code = LOG_CLOSED
            break
        if log.get().truncations.load() != truncations:
            code = OFFSET_OUT_OF_RANGE
            break
        if not wait_until(committer.published, committer.guard, deadline_ns):
            code = OK if log.get().durable_offset.load() > offset else TIMED_OUT
            break
    committer.guard.unlock()
    return code


cdef void committer_notify(Committer* committer) noexcept nogil:
    committer.guard.lock()
    committer.published.notify_all()
    committer.guard.unlock()


cdef void committer_forget(Committer* committer) noexcept nogil:
    committer.guard.lock()
    committer.has_closed = True
    committer.published.notify_all()
    committer.guard.unlock()


cdef int committer_checkpoint(Committer* committer, bint of_all) noexcept nogil:
    cdef int64_t mine
    committer.guard.lock()
    committer.checkpoint_is_wanted = True
    committer.wake.notify_one()
    mine = committer.checkpoints_begun + 1
    while committer.checkpoints_done < mine and not committer.is_stopping:
        committer.published.wait(committer.guard)
    committer.guard.unlock()
    return <int>committer.journal_failed.load()


# The committer thread

cdef void* _run(void* argument) noexcept nogil:
    cdef Committer* committer = <Committer*>argument
    cdef int64_t checkpoint_ns = monotonic_ns() + committer.checkpoint_interval_ns
    cdef int64_t poll_ns = 0, now
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
            continue
        batch.clear()
        batch.swap(committer.wanted)
        committer.guard.unlock()
        if not batch.empty():
            _commit(committer, &batch, False)
        batch.clear()
        if now >= poll_ns:
            _drop_closed(committer)
            storage_poll(committer.storage.get())
            poll_ns = now + committer.poll_interval_ns
            _ask_marks(committer, now)
        if with_checkpoint:
            _checkpoint(committer)
            checkpoint_ns = monotonic_ns() + committer.checkpoint_interval_ns
        committer.guard.lock()
    committer.guard.unlock()
    return NULL


cdef void _ask_marks(Committer* committer, int64_t now) noexcept nogil:
    if (not committer.storage.get().marks.is_dirty.load()
            or now < committer.marks_synced_ns + MARKS_SYNC_NS):
        return
    committer.marks_synced_ns = now
    committer.behind_guard.lock()
    committer.marks_are_due = True
    committer.behind_wake.notify_one()
    committer.behind_guard.unlock()


cdef void _take_expired(Committer* committer, int64_t now) noexcept nogil:
    """Moves logs whose oldest unflushed record is due; one committed meanwhile is dropped."""
    cdef LogRef log
    cdef int64_t oldest
    while not committer.deadlines.empty():
        it = committer.deadlines.begin()
        if dereference(it).first > now:
            return
        log = dereference(it).second
        committer.deadlines.erase(it)
        oldest = log.get().oldest_unflushed_ns.load()
        if oldest != 0 and not log.get().commit_is_wanted.exchange(True):
            committer.wanted.push_back(log)


cdef void _drop_closed(Committer* committer) noexcept nogil:
    """A list here may be the last that keeps a closed log, with its descriptor and its memory. Once
    a turn of the poll: many are closed at once when a topic is deleted."""
    cdef vector[LogRef] gone  # let go of when the guard is free: a descriptor's end may take long
    cdef multimap[int64_t, LogRef] deadlines
    committer.guard.lock()
    if not committer.has_closed:
        committer.guard.unlock()
        return
    committer.has_closed = False
    _take_closed(&committer.wanted, &gone)
    for entry in committer.deadlines:
        if entry.second.get().is_closed.load():
            gone.push_back(entry.second)
        else:
            deadlines.insert(pair[int64_t, LogRef](entry.first, entry.second))
    committer.deadlines.swap(deadlines)
    committer.guard.unlock()
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


cdef int64_t _next_deadline(Committer* committer, int64_t latest) noexcept nogil:
    if committer.deadlines.empty():
        return latest
    return min(latest, dereference(committer.deadlines.begin()).first)


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
    _sync(committer, &plans)
    _publish(committer, &plans)
    if with_checkpoint:
        _put_checkpoints(committer, &plans)


cdef void _publish(Committer* committer, vector[CommitPlan]* plans) noexcept nogil:
    cdef vector[InboxRef] kept
    cdef size_t i
    if _has_time(committer, plans):
        inboxes_keep(&kept)
    for i in range(plans.size()):
        log_commit_end(&plans[0][i])
        if plans[0][i].result == OK and plans[0][i].log.get().is_changed.load():
            _remember_changed(committer, plans[0][i].log)
    committer.commits.fetch_add(1)
    committer.logs_committed.fetch_add(plans.size())
    committer_notify(committer)
    inboxes_keep(NULL)
    inboxes_visit(&kept)


cdef bint _has_time(Committer* committer, vector[CommitPlan]* plans) noexcept nogil:
    """To answer those who waited, when that is soon done and nobody waits for the next commit."""
    cdef bint is_wanted
    cdef int64_t bytes = 0
    cdef size_t i
    for i in range(plans.size()):
        bytes += plans[0][i].bytes_appended - plans[0][i].log.get().bytes_durable.load()
    committer.guard.lock()
    is_wanted = not committer.wanted.empty()
    committer.guard.unlock()
    return bytes <= LITTLE_BYTES and not is_wanted


cdef void _remember_changed(Committer* committer, const LogRef& log) noexcept nogil:
    if not log.get().is_listed:
        log.get().is_listed = True
        committer.changed.push_back(log)


# Checkpoints

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
    cdef int code = OK
    _store_indexes(committer, plans)
    for i in range(plans.size()):
        if plans[0][i].result == OK and log_checkpoint_put(&plans[0][i]) != OK:
            _remember_changed(committer, plans[0][i].log)
    code = storage_commit(committer.storage.get())
    committer.journal_failed.store(code)


cdef void _store_indexes(Committer* committer, vector[CommitPlan]* plans) noexcept nogil:
    """Two files of each segment that was sealed since: at a stop of many logs one sync for all."""
    cdef size_t i
    cdef int64_t files = 0
    cdef bint is_together, is_durable
    for i in range(plans.size()):
        if plans[0][i].result == OK:
            files += 2 * log_unfinished(plans[0][i].log.get())
    is_together = files > 0 and _is_for_file_system(committer, files)
    for i in range(plans.size()):
        if plans[0][i].result == OK:
            log_store_indexes(&plans[0][i], not is_together)
    if not is_together:
        return
    is_durable = (_sync_file_system(committer)
                  and storage_takes_writes(committer.storage.get()))
    if not is_durable:
        open_logs_fail_unsynced(&committer.open_logs, STORAGE_IO)
    for i in range(plans.size()):
        log_finish_indexes(&plans[0][i], is_durable)


# Syncing

cdef void _sync(Committer* committer, vector[CommitPlan]* plans) noexcept nogil:
    cdef vector[SyncJob] jobs
    cdef int64_t began = monotonic_ns(), took
    cdef size_t i, j
    for i in range(plans.size()):
        if plans[0][i].result != OK:
            continue
        for j in range(plans[0][i].files.size()):
            _add_job(&jobs, plans[0][i].files[j].get().fd, False, i)
        if plans[0][i].directory.get() != NULL:
            _add_job(&jobs, plans[0][i].directory.get().fd, True, i)
    if jobs.empty():
        return
    committer.storage.get().commits_at_disk.fetch_add(1)
    committer.sync_began_ns.store(began)
    if _is_for_file_system(committer, jobs.size()):
        if not _sync_file_system(committer):
            _fail_all(committer, &jobs, failure_errno())
    elif jobs.size() >= POOL_JOBS_MIN and not committer.pool.empty():
        _sync_in_pool(committer, &jobs)
    else:
        for i in range(jobs.size()):
            _sync_one(&jobs[i])
    if not storage_takes_writes(committer.storage.get()):
        _fail_all(committer, &jobs, EROFS)
    committer.storage.get().committed_ns.store(monotonic_ns())
    committer.storage.get().commits_at_disk.fetch_add(-1)
    committer.sync_began_ns.store(0)
    for i in range(jobs.size()):
        if jobs[i].result != OK:
            plans[0][jobs[i].plan].result = jobs[i].result
            plans[0][jobs[i].plan].error = jobs[i].error
    committer.syncs.fetch_add(jobs.size())
    took = monotonic_ns() - began
    committer.sync_ns.fetch_add(took)
    times_note(&committer.commit_times, took)


cdef bint _is_for_file_system(Committer* committer, size_t jobs) noexcept nogil:
    # After an error it may succeed over what was lost: syncfs tells of it once.
    if committer.syncfs_failed.load():
        return False
    return committer.sync_by == SYNC_FILESYSTEM or (committer.sync_by == SYNC_AUTO
                                                    and jobs >= SYNCFS_FILES_MIN)


cdef void _fail_all(Committer* committer, vector[SyncJob]* jobs, int error) noexcept nogil:
    """An error that stands for the whole file system: the next sync will not tell it again."""
    cdef size_t i
    failure_note(b"sync of the file system", b"", error)
    for i in range(jobs.size()):
        jobs.at(i).result = STORAGE_IO
        jobs.at(i).error = error
    open_logs_fail_unsynced(&committer.open_logs, STORAGE_IO)


cdef void _add_job(vector[SyncJob]* jobs, int fd, bint is_directory, size_t plan) noexcept nogil:
    cdef SyncJob job
    job.fd = fd
    job.is_directory = is_directory
    job.result = OK
    job.error = 0
    job.plan = plan
    jobs.push_back(job)


cdef void _sync_one(SyncJob* job) noexcept nogil:
    job.result = sync_directory(job.fd) if job.is_directory else sync_file(job.fd)
    job.error = failure_errno() if job.result != OK else 0


cdef bint _sync_file_system(Committer* committer) noexcept nogil:
    while syncfs(committer.storage.get().directory.get().fd) < 0:
        if errno != EINTR:
            failure_note(b"sync of the file system", b"", errno)
            committer.syncfs_failed.store(True)
            return False
    return True


cdef void _sync_in_pool(Committer* committer, vector[SyncJob]* jobs) noexcept nogil:
    committer.pool_guard.lock()
    committer.jobs = jobs
    committer.next_job.store(0)
    committer.jobs_left = jobs.size()
    committer.round += 1
    committer.pool_wake.notify_all()
    committer.pool_guard.unlock()
    _take_jobs(committer, jobs)
    committer.pool_guard.lock()
    # Also until nobody looks at `jobs` any more: it lives on this stack.
    while committer.jobs_left > 0 or committer.threads_inside > 0:
        committer.pool_done.wait(committer.pool_guard)
    committer.jobs = NULL
    committer.pool_guard.unlock()


cdef void _take_jobs(Committer* committer, vector[SyncJob]* jobs) noexcept nogil:
    cdef int64_t slot, done = 0
    while True:
        slot = committer.next_job.fetch_add(1)
        if slot >= <int64_t>jobs.size():
            break
        _sync_one(&jobs[0][slot])
        done += 1
    committer.pool_guard.lock()
    committer.jobs_left -= done
    committer.pool_done.notify_one()
    committer.pool_guard.unlock()


cdef void* _run_pool(void* argument) noexcept nogil:
    cdef Committer* committer = <Committer*>argument
    cdef vector[SyncJob]* jobs
    cdef int64_t seen = 0
    wake_soon()
    committer.pool_guard.lock()
    while not committer.pool_is_stopping:
        if committer.round == seen or committer.jobs == NULL:
            committer.pool_wake.wait(committer.pool_guard)
            continue
        seen = committer.round
        jobs = committer.jobs
        committer.threads_inside += 1
        committer.pool_guard.unlock()
        _take_jobs(committer, jobs)
        committer.pool_guard.lock()
        committer.threads_inside -= 1
        committer.pool_done.notify_one()
    committer.pool_guard.unlock()
    return NULL


# Write-behind

cdef void committer_write_behind(Committer* committer, const LogRef& log) noexcept nogil:
    committer.behind_guard.lock()
    committer.behind.push_back(log)
    committer.behind_wake.notify_one()
    committer.behind_guard.unlock()


cdef void* _run_behind(void* argument) noexcept nogil:
    cdef Committer* committer = <Committer*>argument
    cdef vector[LogRef] logs
    cdef bint marks_are_due
    cdef size_t i
    committer.behind_guard.lock()
    while not committer.behind_is_stopping:
        marks_are_due = committer.marks_are_due
        if committer.behind.empty() and not marks_are_due:
            committer.behind_wake.wait(committer.behind_guard)
            continue
        logs.clear()
        logs.swap(committer.behind)
        committer.marks_are_due = False
        committer.behind_guard.unlock()
        if marks_are_due:
            watermarks_sync(&committer.storage.get().marks)
        for i in range(logs.size()):
            log_write_behind(logs[i].get())
            if logs[i].get().failed.load() != OK:
                committer_notify(committer)
        logs.clear()
        committer.behind_guard.lock()
    committer.behind_guard.unlock()
    return NULL


# Life

cdef int committer_start(Committer* committer) noexcept nogil:
    cdef pthread_t thread
    cdef int _i
    for _i in range(committer.threads_count - 1):
        if pthread_create(&thread, NULL, _run_pool, committer) != 0:
            break  # fewer helpers; the committer thread syncs too
        pthread_setname_np(thread, b"commit-sync")
        committer.pool.push_back(thread)
    if pthread_create(&committer.thread, NULL, _run, committer) != 0:
        return storage_code(errno)
    pthread_setname_np(committer.thread, b"committer")
    if pthread_create(&committer.behind_thread, NULL, _run_behind, committer) != 0:
        return storage_code(errno)
    pthread_setname_np(committer.behind_thread, b"write-behind")
    return OK


cdef void committer_stop(Committer* committer) noexcept nogil:
    cdef size_t i
    committer.guard.lock()
    committer.is_stopping = True
    committer.wake.notify_one()
    committer.published.notify_all()
    committer.guard.unlock()
    pthread_join(committer.thread, NULL)
    committer.behind_guard.lock()
    committer.behind_is_stopping = True
    committer.behind_wake.notify_one()
    committer.behind_guard.unlock()
    pthread_join(committer.behind_thread, NULL)
    committer.pool_guard.lock()
    committer.pool_is_stopping = True
    committer.pool_wake.notify_all()
    committer.pool_guard.unlock()
    for i in range(committer.pool.size()):
        pthread_join(committer.pool[i], NULL)


# ---- with the GIL ----

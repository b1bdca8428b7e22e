"""How a commit reaches the disk (`commit.sync`).

    files        fdatasync of each dirty segment and fsync of each changed directory, spread over a
                 few threads, so that the file system can merge their journal commits
    filesystem   one syncfs. It also writes dirty pages of other programs, and reports a write error
                 once and without the file: an error fails every log with unsynced bytes, also those
                 outside of the commit. From then on: files
    auto         files below SYNCFS_FILES_MIN descriptors, the file system from there on
A sync that failed is never repeated on that descriptor: the log fails instead. One that succeeded
counts only if the file system still takes writes after it.
"""

from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from appliance.native._codes cimport OK
from appliance.native._files cimport (
    failure_errno, failure_note, sync_code, sync_directory, sync_file,
)
from appliance.native._histogram cimport times_note
from appliance.native._native cimport (
    EINTR, EROFS, errno, monotonic_ns, mutant, pthread_create, pthread_join, pthread_setname_np,
    pthread_t, syncfs,
)
from appliance.native._wake_soon cimport wake_soon
from appliance.storage._commit_requests cimport SYNC_AUTO, SYNC_FILESYSTEM, SyncJob
from appliance.storage._open_logs cimport open_logs_fail_unsynced
from appliance.storage._storage cimport storage_takes_writes

cdef enum:
    SYNCFS_FILES_MIN = 8           # measured: bench/commit.py, docs/decisions/group-commit.md
    POOL_JOBS_MIN = 2


# ---- without the GIL ----

cdef void sync_plans(Committer* committer, vector[CommitPlan]* plans) noexcept nogil:
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
    if sync_is_for_file_system(committer, jobs.size()):
        if not sync_file_system(committer):
            _fail_all(committer, &jobs, failure_errno())
    elif jobs.size() >= POOL_JOBS_MIN and not committer.pool.empty():
        _sync_in_pool(committer, &jobs)
    else:
        for i in range(jobs.size()):
            _sync_one(&jobs[i])
    if (not storage_takes_writes(committer.storage.get())
            and not mutant(b"commit_without_question")):
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


cdef void _add_job(vector[SyncJob]* jobs, int fd, bint is_directory, size_t plan) noexcept nogil:
    jobs.resize(jobs.size() + 1)
    jobs.back().fd = fd
    jobs.back().is_directory = is_directory
    jobs.back().plan = plan


cdef bint sync_is_for_file_system(Committer* committer, size_t jobs) noexcept nogil:
    # After an error it may succeed over what was lost: syncfs tells of it once.
    if committer.syncfs_failed.load():
        return False
    return committer.sync_by == SYNC_FILESYSTEM or (committer.sync_by == SYNC_AUTO
                                                    and jobs >= SYNCFS_FILES_MIN)


cdef bint sync_file_system(Committer* committer) noexcept nogil:
    while syncfs(committer.storage.get().directory.get().fd) < 0:
        if errno != EINTR:
            failure_note(b"sync of the file system", b"", errno)
            committer.syncfs_failed.store(True)
            return False
    return True


cdef void _fail_all(Committer* committer, vector[SyncJob]* jobs, int error) noexcept nogil:
    """An error that stands for the whole file system: the next sync will not tell it again."""
    cdef size_t i
    cdef int code = sync_code(failure_note(b"sync of the file system", b"", error))
    for i in range(jobs.size()):
        jobs.at(i).result = code
        jobs.at(i).error = error
    open_logs_fail_unsynced(&committer.open_logs, code)


cdef void _sync_one(SyncJob* job) noexcept nogil:
    job.result = sync_directory(job.fd) if job.is_directory else sync_file(job.fd)
    job.error = failure_errno() if job.result != OK else 0


cdef void sync_pool_start(Committer* committer) noexcept nogil:
    cdef pthread_t thread
    cdef int _i
    for _i in range(committer.threads_count - 1):
        if pthread_create(&thread, NULL, _run_pool, committer) != 0:
            break  # fewer helpers; the committer thread syncs too
        pthread_setname_np(thread, b"commit-sync")
        committer.pool.push_back(thread)


cdef void sync_pool_stop(Committer* committer) noexcept nogil:
    cdef size_t i
    committer.pool_guard.lock()
    committer.pool_is_stopping = True
    committer.pool_wake.notify_all()
    committer.pool_guard.unlock()
    for i in range(committer.pool.size()):
        pthread_join(committer.pool[i], NULL)


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

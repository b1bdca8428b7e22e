"""Write-behind: a thread starts to write unwritten bytes of logs, so that a commit has little left.

It is a separate thread, because the committer may be waiting for the disk. It also syncs the
watermarks, for which no commit waits.
"""

from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from appliance.native._codes cimport OK
from appliance.native._descriptors cimport FileRef
from appliance.native._files cimport failure_note, storage_code, sync_code
from appliance.native._native cimport (
    EDQUOT, EIO, ENOSPC, EROFS, SYNC_FILE_RANGE_WRITE, ScopeLock, errno, pthread_create,
    pthread_join, pthread_setname_np, sync_file_range,
)
from appliance.storage._commit_requests cimport committer_notify
from appliance.storage._log_commit cimport log_tell
from appliance.storage._partition_log cimport PartitionLog, log_fail
from appliance.storage._segment cimport Segment, segment_file
from appliance.storage._watermark_file cimport watermarks_sync

cdef enum:
    MARKS_SYNC_NS = 1000000000     # how old the watermarks on disk may be


# ---- without the GIL ----

cdef void write_behind_ask(Committer* committer, const LogRef& log) noexcept nogil:
    cdef ScopeLock lock
    lock.hold(committer.behind_guard)
    if committer.behind_is_stopping:
        return  # nobody would let go of it
    committer.behind.push_back(log)
    committer.behind_wake.notify_one()


cdef void write_behind_marks(Committer* committer, int64_t now) noexcept nogil:
    cdef ScopeLock lock
    if (not committer.storage.get().marks.is_dirty.load()
            or now < committer.marks_synced_ns + MARKS_SYNC_NS):
        return
    committer.marks_synced_ns = now
    lock.hold(committer.behind_guard)
    committer.marks_are_due = True
    committer.behind_wake.notify_one()


cdef int write_behind_start(Committer* committer) noexcept nogil:
    if pthread_create(&committer.behind_thread, NULL, _run, committer) != 0:
        return storage_code(errno)
    pthread_setname_np(committer.behind_thread, b"write-behind")
    return OK


cdef void write_behind_stop(Committer* committer) noexcept nogil:
    committer.behind_guard.lock()
    committer.behind_is_stopping = True
    committer.behind_wake.notify_one()
    committer.behind_guard.unlock()
    pthread_join(committer.behind_thread, NULL)
    committer.behind.clear()  # nothing is added any more


cdef void* _run(void* argument) noexcept nogil:
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
            _start_writing(logs[i].get())
            if logs[i].get().failed.load() != OK:
                committer_notify(committer)
        logs.clear()
        committer.behind_guard.lock()
    committer.behind_guard.unlock()
    return NULL


cdef void _start_writing(PartitionLog* log) noexcept nogil:
    cdef Segment* segment
    cdef FileRef file
    cdef int64_t position, size
    cdef int code
    log.guard.lock()
    segment = log.segments.back().get()
    code = segment_file(segment, &file)
    position = segment.written_behind
    size = segment.size.load() - position
    segment.written_behind = position + size
    log.behind_is_wanted.store(False)
    log.guard.unlock()
    if code != OK or size <= 0 or log.failed.load() != OK:
        return
    # What it could not start, the sync will do and report. But what has no place on the disk yet
    # gets it now: where that fails the bytes may be dropped, and the sync has nothing to report.
    if sync_file_range(file.get().fd, position, size, SYNC_FILE_RANGE_WRITE) < 0:
        if errno in (EIO, ENOSPC, EDQUOT, EROFS):
            code = sync_code(failure_note(b"write", b"", errno))
            log.guard.lock()  # no commit may be counting just now
            log_fail(log, code)
            log.guard.unlock()
            log_tell(log)

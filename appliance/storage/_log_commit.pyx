"""One log's part in a commit: its files to sync, and its new durable offset afterwards."""

from appliance.native._codes cimport LOG_CLOSED, LOG_FAILED, OK, STORAGE_IO
from appliance.native._files cimport failure_note
from appliance.native._native cimport ScopeLock, monotonic_ns, mutant
from appliance.storage._checkpoint cimport log_capture, log_save_locked
from appliance.storage._last_stable_offset cimport (
    log_acknowledged_offset, log_forget_ended, log_high_watermark, log_last_stable_offset,
)
from appliance.storage._partition_log cimport PartitionLog, log_fail
from appliance.storage._partition_waits cimport Reached, watches_tell
from appliance.storage._segment cimport Segment, segment_file
from appliance.storage._watermark_file cimport watermarks_note


# ---- without the GIL ----

cdef void log_commit_begin(const LogRef& log, bint with_checkpoint,
                           CommitPlan* plan) noexcept nogil:
    cdef PartitionLog* it = log.get()
    cdef Segment* segment
    cdef FileRef file
    cdef size_t slot
    cdef ScopeLock lock
    plan.log = log
    lock.hold(it.guard)
    it.commit_is_wanted.store(False)
    if it.failed.load() != OK or it.is_closed.load():
        plan.result = LOG_FAILED if it.failed.load() != OK else LOG_CLOSED
        return
    plan.end_offset = it.log_end_offset.load()
    plan.truncations = it.truncations.load()
    if not mutant(b"segment_without_directory_sync"):
        plan.directory = it.dirty_directory
    it.dirty_directory.reset()
    it.unflushed_records = 0
    it.committing_ns.store(it.oldest_unflushed_ns.exchange(0))
    plan.bytes_appended = it.bytes_appended.load()
    plan.began_ns = monotonic_ns()
    slot = it.segments.size()
    while slot > 0:
        slot -= 1
        segment = it.segments[slot].get()
        if segment.synced_size < segment.size.load():
            # Open since its first unsynced byte: log_rest lets go of no such file.
            plan.segments.push_back(it.segments[slot])
            if segment_file(segment, &file) != OK:
                plan.result = STORAGE_IO
            plan.files.push_back(file)
            plan.sizes.push_back(segment.size.load())
            segment.written_behind = segment.size.load()  # the sync writes it all
        elif slot + 1 < it.segments.size():
            break
        if mutant(b"roll_without_sync_of_old_segment"):
            break
    if mutant(b"watermark_before_sync"):
        watermarks_note(&it.storage.get().marks, it.name, plan.end_offset)
    plan.with_checkpoint = with_checkpoint
    if with_checkpoint:
        log_capture(it, &plan.checkpoint)


cdef void log_commit_end(CommitPlan* plan) noexcept nogil:
    cdef PartitionLog* log = plan.log.get()
    cdef size_t i
    cdef ScopeLock lock
    if plan.result == LOG_CLOSED:
        return
    if plan.result != OK:
        if plan.error != 0:
            failure_note(b"sync", b"", plan.error)  # another thread met it
        log_fail(log, plan.result)
        log_tell(log)
        return
    lock.hold(log.guard)
    log.committing_ns.store(0)
    if plan.truncations != log.truncations.load():
        return
    if log.failed.load() != OK:
        # A write met an error meanwhile, and the end limit may be in the journal by now.
        plan.result = LOG_FAILED
        return
    for i in range(plan.segments.size()):
        plan.segments[i].get().synced_size = max(plan.segments[i].get().synced_size, plan.sizes[i])
    if plan.end_offset > log.durable_offset.load():
        # Before anybody is answered, so that after a kill recovery knows what was. Not for a log
        # that is closed: its note was taken back, and its name may be another's soon.
        if not log.is_closed.load():
            watermarks_note(&log.storage.get().marks, log.name, plan.end_offset)
        log.durable_offset.store(plan.end_offset)
    log.bytes_durable.store(plan.bytes_appended)
    if not plan.files.empty():
        log.flushed_ns.store(monotonic_ns())
        log.flush_took_ns.store(log.flushed_ns.load() - plan.began_ns)
    log_forget_ended(log)
    lock.release()
    log_tell(log)
    if not plan.with_checkpoint and (not plan.files.empty() or plan.directory.get() != NULL):
        log.is_changed.store(True)


cdef void log_tell(PartitionLog* log) noexcept nogil:
    cdef Reached reached
    if log.failed.load() != OK:
        _end_at_durable(log)
    if log.watches.count.load() == 0:
        return
    reached.durable = log_acknowledged_offset(log)
    reached.visible = log_high_watermark(log)
    reached.stable = log_last_stable_offset(log)
    reached.appended = log.log_end_offset.load()
    reached.is_over = log.failed.load() != OK or log.is_closed.load()
    watches_tell(&log.watches, &reached)


cdef void log_tell_all(PartitionLog* log) noexcept nogil:
    cdef Reached reached
    reached.durable = reached.visible = reached.stable = reached.appended = 0
    reached.is_over = True
    watches_tell(&log.watches, &reached)


cdef void _end_at_durable(PartitionLog* log) noexcept nogil:
    """Records that were not durable at the failure of the log must not reappear after recovery.

    Their producers get an error and resend them: librdkafka may do so under its next epoch, which
    hides the duplicates. Recovery would keep records that happen to be on the disk, and so have
    them twice. So the limit is durable before any client gets the error; if the journal cannot be
    written, either, recovery keeps the records on the disk.
    """
    cdef ScopeLock lock
    lock.hold(log.saved_guard)
    if log.saved.segment_base < 0 or log.is_closed.load():
        return  # it was never open: what the journal has of it is from its last life
    if log.saved.end_limit > log.durable_offset.load():
        log.saved.end_limit = log.durable_offset.load()
        log_save_locked(log)

"""Truncation: removes every record from an offset on.

    1 journal end_limit      2 unlink the later segments, replace the one that is cut
    3 journal the new end
A crash between two steps is finished by recovery. No file that a reader may hold is shortened or
written into: the segment that is cut is replaced by a copy of what stays.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libcpp.string cimport string
from libcpp.vector cimport vector

from appliance.native._codes cimport (
    LOG_CLOSED, LOG_FAILED, NOT_LEADER, OFFSET_OUT_OF_RANGE, OK, STORAGE_IO,
)
from appliance.native._descriptors cimport directory_hold
from appliance.native._files cimport (
    NAME_SIZE, copy_whole, file_name, open_file, read_whole, storage_code, sync_directory,
    sync_file,
)
from appliance.native._native cimport (
    O_CREAT, O_RDWR, O_TRUNC, ScopeLock, close, errno, mutant, renameat,
)
from appliance.record._batch cimport ATTRIBUTE_CONTROL, BatchHeader, batch_control_type
from appliance.storage._checkpoint cimport log_capture, log_save_locked
from appliance.storage._holes cimport holes_cut, holes_place
from appliance.storage._index cimport AbortedTxn
from appliance.storage._index_files cimport log_store_aborted
from appliance.storage._leader_epochs cimport epochs_cut
from appliance.storage._log_commit cimport log_tell
from appliance.storage._partition_log cimport PartitionLog, log_fail
from appliance.storage._producers cimport (
    producers_first_open, producers_load_snapshot, producers_note, producers_note_marker,
    producers_store,
)
from appliance.storage._recovery_scan cimport log_scan
from appliance.storage._replicas cimport ROLE_ALONE, ROLE_FOLLOWER
from appliance.storage._salvage cimport Recovered
from appliance.storage._segment cimport (
    FileRef, Segment, SegmentRef, segment_drop_times, segment_file, segment_new, segment_pin,
    segment_unlink,
)
from appliance.storage._segment_find cimport (
    LocatedBatch, Walker, segment_find, walker_next, walker_start,
)
from appliance.storage._storage cimport storage_latest_ms
from appliance.storage._watermark_file cimport watermarks_take_back

cdef enum:
    MARKER_SIZE_MAX = 4096         # a control batch has some 80 bytes; a damaged length any number


# ---- without the GIL ----

cdef bint log_may_be_cut(PartitionLog* log, int64_t election) noexcept nogil:
    """Elections are told under the log's guard, too: what leads by now is never cut."""
    if election == CUT_ALONE:
        return log.role.load() == ROLE_ALONE
    return log.role.load() == ROLE_FOLLOWER and log.replicas.epoch.load() == election


cdef int log_truncate(PartitionLog* log, int64_t offset, int64_t election) noexcept nogil:
    cdef FileRef directory  # held: below, `log.directory.get().fd` is open
    cdef int code = directory_hold(log.directory.get(), &directory)
    # Appends and commits must stand still while the end moves back, also across these syncs.
    cdef ScopeLock maintenance, saved, guard
    if code != OK:
        return code
    maintenance.hold(log.maintenance)
    saved.hold(log.saved_guard)
    guard.hold(log.guard)
    if log.failed.load() != OK:
        return LOG_FAILED
    if log.is_closed.load():
        return LOG_CLOSED
    if not log_may_be_cut(log, election):
        return NOT_LEADER
    if offset < log.log_start_offset.load():
        return OFFSET_OUT_OF_RANGE
    if offset >= log.log_end_offset.load():
        return OK
    log.truncations.fetch_add(1)
    code = _truncate_locked(log, offset)
    log.truncations.fetch_add(1)
    if code == OK:
        return OK
    # Half of it is done, on disk and here. Recovery can finish it, this life cannot.
    log_fail(log, code)
    guard.release()
    saved.release()
    log_tell(log)
    return LOG_FAILED


cdef int _truncate_locked(PartitionLog* log, int64_t offset) noexcept nogil:
    cdef Recovered recovered
    cdef vector[string] names
    cdef size_t slot = 0
    cdef int64_t end_offset
    cdef int code
    while slot + 1 < log.segments.size() and log.segments[slot + 1].get().base_offset <= offset:
        slot += 1
    code = _settle(log, slot)
    if code == OK:
        names.push_back(log.name)
        # As far back as the recovery point goes: a batch that the limit cuts goes as a whole.
        code = watermarks_take_back(&log.storage.get().marks, &names,
                                    log.segments[slot].get().base_offset)
    if code == OK:
        code = _announce_truncation(log, slot, offset)
    if code != OK:
        return code
    # From the front back: whatever a crash leaves is then below the limit, or beyond a gap.
    while log.segments.size() > slot + 1:
        # Its name may be given to another file soon: a reader that holds it must not open that one.
        code = segment_pin(log.segments.back().get())
        if code == OK:
            code = segment_unlink(log.segments.back().get())
        if code != OK:
            return code
        log.list_guard.lock()
        log.segments.pop_back()
        log.list_guard.unlock()
    code = _replace_by_prefix(log, slot, offset)
    if code != OK:
        return code
    # The copy has the damaged bytes where they were; those of later segments are gone.
    holes_cut(log, offset)
    holes_place(log)
    recovered.is_noted = True
    _forget_from(log, log.segments[slot].get().base_offset)
    code = log_scan(log, slot, 0, log.segments[slot].get().base_offset, True, INT64_MAX, &recovered)
    if code != OK:
        return code
    code = log_store_aborted(log, log.segments.back().get())
    if code != OK:
        return code
    end_offset = log.segments.back().get().end_offset.load()
    log.log_end_offset.store(end_offset)
    log.active_base.store(log.segments.back().get().base_offset)
    log.durable_offset.store(end_offset)
    log.first_open_offset.store(producers_first_open(&log.producers))
    _refill_saved(log)
    return log_save_locked(log)


cdef int _settle(PartitionLog* log, size_t slot) noexcept nogil:
    """What stays must be as durable as the recovery point will say: it may move forward here."""
    cdef Segment* segment
    cdef FileRef file
    cdef size_t i
    cdef int code
    for i in range(slot + 1):
        segment = log.segments[i].get()
        if segment.synced_size < segment.size.load():
            code = segment_file(segment, &file)
            if code == OK:
                code = sync_file(file.get().fd)
            if code != OK:
                return code
            segment.synced_size = segment.size.load()
        if segment.txn_is_dirty.load():
            code = log_store_aborted(log, segment)
            if code != OK:
                return code
    return sync_directory(log.directory.get().fd)


cdef int _announce_truncation(PartitionLog* log, size_t slot, int64_t offset) noexcept nogil:
    """Recovery begins again at the start of the segment that is cut, and stops at the limit."""
    cdef Segment* segment = log.segments[slot].get()
    _forget_from(log, segment.base_offset)
    log.saved.recovery_offset = log.saved.segment_base = segment.base_offset
    log.saved.position = 0
    log.saved.end_limit = offset
    log.saved.first_timestamp = log.saved.largest_timestamp = -1
    log.saved.largest_timestamp_offset = segment.base_offset
    log.saved.created_ms = 0
    log.saved.cleaned_offset = min(log.saved.cleaned_offset, segment.base_offset)
    log.saved.epochs = log.epochs
    log.saved.producers.clear()
    producers_store(&log.producers, &log.saved.producers)
    return OK if mutant(b"truncate_without_journal") else log_save_locked(log)


cdef void _forget_from(PartitionLog* log, int64_t offset) noexcept nogil:
    """State as it was at `offset`, the base of a segment."""
    cdef bint had_producers = not log.producers.producers.empty()
    cdef size_t kept = 0
    cdef ScopeLock list_guard
    log.producers.producers.clear()
    log.producers.open_txns.clear()
    if had_producers:
        _replay_producers(log, offset)
    epochs_cut(log, offset)
    list_guard.hold(log.list_guard)
    while kept < log.aborted.size() and log.aborted[kept].last_offset < offset:
        kept += 1
    log.aborted.resize(kept)
    log.ended.clear()


cdef void _replay_producers(PartitionLog* log, int64_t offset) noexcept nogil:
    """From the newest snapshot that can be read, by the batches that follow it."""
    cdef int64_t now = storage_latest_ms(log.storage.get())
    cdef size_t end = 0, slot
    while end < log.segments.size() and log.segments[end].get().base_offset < offset:
        end += 1
    slot = end
    while not producers_load_snapshot(&log.producers, log.directory.get().fd,
                                      log.segments[slot].get().base_offset, now):
        if slot == 0:
            break
        slot -= 1
    while slot < end:
        _replay_segment(log, log.segments[slot].get(), now)
        slot += 1


cdef void _replay_segment(PartitionLog* log, Segment* segment, int64_t now) noexcept nogil:
    cdef Walker walker
    cdef FileRef file
    cdef BatchHeader header
    cdef AbortedTxn aborted
    cdef vector[uint8_t] data
    cdef int32_t coordinator_epoch
    cdef int kind
    # A batch that cannot be read ends the replay: the state is then older, which refuses more, not
    # less.
    if segment_file(segment, &file) != OK:
        return
    walker_start(&walker, segment, file.get().fd, segment.size.load())
    while walker_next(&walker, &header) == 1:
        if header.attributes & ATTRIBUTE_CONTROL:
            if header.size > MARKER_SIZE_MAX:
                return
            data.resize(header.size)
            if read_whole(walker.fd, data.data(), header.size, walker.position) < header.size:
                return
            kind = batch_control_type(data.data(), &header, &coordinator_epoch)
            producers_note_marker(&log.producers, &header, kind, coordinator_epoch, now,
                                  &aborted)
        else:
            producers_note(&log.producers, &header, now)
        walker.position += header.size


cdef int _replace_by_prefix(PartitionLog* log, size_t slot, int64_t offset) noexcept nogil:
    """A new file with what stays, renamed over the old one, which readers may go on holding."""
    cdef char[NAME_SIZE] name
    cdef char[NAME_SIZE] target
    cdef Segment* old = log.segments[slot].get()
    cdef SegmentRef fresh
    cdef FileRef file
    cdef LocatedBatch batch
    cdef int64_t position = old.size.load()
    cdef ScopeLock list_guard
    cdef int fd, code = segment_pin(old)
    if code == OK:
        code = segment_file(old, &file)
    if code == OK:
        code = segment_find(old, offset, &batch)
        if code == OK:
            position = batch.position
    if code != OK and code != OFFSET_OUT_OF_RANGE:
        return code
    file_name(name, old.base_offset, b".log.cleaned")
    file_name(target, old.base_offset, b".log")
    fd = open_file(log.directory.get().fd, name, O_RDWR | O_CREAT | O_TRUNC)
    if fd < 0:
        return fd
    code = copy_whole(file.get().fd, fd, 0, position, STORAGE_IO)
    close(fd)
    if code == OK and renameat(log.directory.get().fd, name, log.directory.get().fd, target) < 0:
        code = storage_code(errno)
    if code == OK:
        code = segment_drop_times(old)  # it has those of what was cut off
    if code == OK:
        code = sync_directory(log.directory.get().fd)
    if code != OK:
        return code
    fresh = segment_new(log.directory, old.base_offset)
    fresh.get().created_ms = old.created_ms
    fresh.get().synced_size = fresh.get().written_behind = position
    list_guard.hold(log.list_guard)
    log.segments[slot] = fresh
    return OK


cdef void _refill_saved(PartitionLog* log) noexcept nogil:
    # The cut may have taken the batch that the log start lies in.
    cdef int64_t log_start = min(log.saved.log_start_offset, log.log_end_offset.load())
    cdef int64_t cleaned = log.saved.cleaned_offset
    holes_cut(log, log.log_end_offset.load())
    log.saved.gaps_end = min(log.saved.gaps_end, log.log_end_offset.load())
    log.gaps_end.store(log.saved.gaps_end)
    log_capture(log, &log.saved)
    log.saved.log_start_offset = log_start
    log.log_start_offset.store(log_start)
    log.saved.cleaned_offset = cleaned
    log.saved.end_limit = INT64_MAX
    log.saved.swap_base = log.saved.swap_end = -1

"""What shortens a log. One rule for all: the journal first, the files after.

    retention, delete    1 journal log_start_offset   2 unlink segments wholly below it
    truncation           1 journal end_limit          2 unlink, replace   3 journal the new end
    compaction swap      1 rename to `.swap`, sync the directory   2 journal the swap (commit point)
                         3 rename over the first, unlink the covered   4 journal: no swap
A crash between two steps is finished by recovery from what the journal says.

No file that a reader may hold is ever shortened or written into: segments are unlinked whole, and
a truncated one is replaced by a copy of what stays.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libcpp.string cimport string
from libcpp.vector cimport vector

from appliance.native._codes cimport (
    BATCH_CORRUPT, LOG_CLOSED, LOG_FAILED, OFFSET_OUT_OF_RANGE, OK, STORAGE_IO,
)
from appliance.native._descriptors cimport directory_hold
from appliance.native._files cimport (
    NAME_SIZE, file_name, open_file, read_whole, storage_code, sync_directory, sync_file,
    write_whole,
)
from appliance.native._native cimport (
    O_CREAT, O_RDWR, O_TRUNC, close, errno, mutant, renameat, unlinkat,
)
from appliance.record._batch cimport ATTRIBUTE_CONTROL, BatchHeader, batch_control_type
from appliance.storage._checkpoint cimport log_capture, log_save_locked
from appliance.storage._holes cimport holes_cover, holes_cut, holes_forget_bytes, holes_place
from appliance.storage._index cimport AbortedTxn, txn_index_store
from appliance.storage._index_files cimport log_store_aborted
from appliance.storage._journal cimport Hole, journal_put
from appliance.storage._last_stable_offset cimport log_high_watermark
from appliance.storage._partition_log cimport LogSettings, PartitionLog, log_roll
from appliance.storage._producers cimport (
    producers_first_open, producers_load_snapshot, producers_note, producers_note_marker,
    producers_store,
)
from appliance.storage._read cimport log_note_fault
from appliance.storage._recovery cimport log_scan
from appliance.storage._salvage cimport Recovered, recovered_start
from appliance.storage._segment cimport (
    FileRef, Segment, SegmentRef, segment_file, segment_new, segment_pin, segment_store_index,
    segment_unlink,
)
from appliance.storage._segment_find cimport (
    Found, Walker, segment_find, segment_load_largest, walker_next, walker_start,
)
from appliance.storage._storage cimport storage_commit, storage_latest_ms
from appliance.storage._watermarks cimport watermarks_take_back

cdef enum:
    COPY_SIZE = 1048576
    MARKER_SIZE_MAX = 4096         # a control batch has some 80 bytes; a damaged length any number


# ---- without the GIL ----

# Retention

cdef int64_t log_retain(PartitionLog* log, int64_t now_ms, int64_t keep_from,
                        bint* rolled) noexcept nogil:
    cdef int64_t result
    rolled[0] = False
    log.maintenance.lock()
    result = _retain(log, now_ms, keep_from, rolled)
    log.maintenance.unlock()
    return result


cdef int64_t _retain(PartitionLog* log, int64_t now_ms, int64_t keep_from,
                     bint* rolled) noexcept nogil:
    cdef vector[SegmentRef] segments
    cdef LogSettings settings
    cdef int64_t doomed, code
    if log.failed.load() != OK or log.is_closed.load():
        return 0
    _look(log, &segments, &settings)
    if settings.cleanup_delete and settings.retention_ms >= 0:
        code = _roll_expired(log, segments.back().get(), settings.retention_ms, now_ms, rolled)
        if code != OK:
            return code
    doomed = _count_doomed(log, segments, &settings, now_ms)
    while doomed > 0 and _is_kept(log, segments[doomed - 1].get(), keep_from):
        doomed -= 1
    if doomed <= 0:
        return doomed
    code = _move_start(log, segments[doomed].get().base_offset)
    return code if code != OK else _drop_below_start(log)


cdef int64_t log_kept_bytes(PartitionLog* log, int64_t now_ms, int64_t keep_from) noexcept nogil:
    cdef vector[SegmentRef] segments
    cdef LogSettings settings
    cdef int64_t doomed, size = 0
    if log.failed.load() != OK:
        return 0
    _look(log, &segments, &settings)
    doomed = _count_doomed(log, segments, &settings, now_ms)
    while doomed > 0 and _is_kept(log, segments[doomed - 1].get(), keep_from):
        doomed -= 1
        size += segments[doomed].get().size.load()
    return min(doomed, <int64_t>0) + size


cdef void _look(PartitionLog* log, vector[SegmentRef]* segments,
                LogSettings* settings) noexcept nogil:
    log.guard.lock()
    settings[0] = log.settings
    segments[0] = log.segments
    log.guard.unlock()


cdef bint _is_kept(PartitionLog* log, Segment* segment, int64_t keep_from) noexcept nogil:
    # What was deleted by somebody's wish is gone for readers: nothing is left to be kept.
    return segment.end_offset.load() > max(keep_from, log.log_start_offset.load())


cdef int64_t _count_doomed(PartitionLog* log, const vector[SegmentRef]& segments,
                           const LogSettings* settings, int64_t now_ms) noexcept nogil:
    """How many of the oldest segments time or size have passed; or a code."""
    cdef int64_t size = 0, code
    cdef size_t i, doomed = 0
    for i in range(segments.size()):
        size += segments[i].get().size.load()
    while doomed + 1 < segments.size():
        code = _is_doomed(log, segments[doomed].get(), settings, size, now_ms)
        if code < 0 and doomed == 0:
            return code
        if code <= 0:
            break
        size -= segments[doomed].get().size.load()
        doomed += 1
    return doomed


cdef int _roll_expired(PartitionLog* log, Segment* active, int64_t retention_ms, int64_t now_ms,
                       bint* rolled) noexcept nogil:
    """So that one hour means one hour also for a topic that nobody writes to any more."""
    cdef int code = OK
    if (active.size.load() > 0 and active.largest_is_known.load()
            and 0 <= active.largest_timestamp.load() < now_ms - retention_ms):
        code = log_roll(log)
        rolled[0] = code == OK
    return code


cdef int64_t _is_doomed(PartitionLog* log, Segment* segment, const LogSettings* settings,
                        int64_t size,
                        int64_t now_ms) noexcept nogil:
    """1: delete it; 0: keep it and all after it; or a code. Only what readers were shown can go."""
    cdef int64_t end_offset = segment.end_offset.load()
    cdef int code
    if end_offset > log_high_watermark(log) or end_offset > _recovery_base(log):
        return 0
    if end_offset <= log.log_start_offset.load():
        return 1
    if not settings.cleanup_delete:
        return 0
    if settings.retention_bytes >= 0 and size - segment.size.load() >= settings.retention_bytes:
        return 1
    if settings.retention_ms < 0:
        return 0
    code = segment_load_largest(segment)
    if code != OK:
        log_note_unknown_age(log, segment, code)
        return code
    # An unknown timestamp (-1) never deletes.
    return 0 <= segment.largest_timestamp.load() < now_ms - settings.retention_ms


cdef void log_note_unknown_age(PartitionLog* log, Segment* segment, int code) noexcept nogil:
    if code == OFFSET_OUT_OF_RANGE:
        if holes_cover(log, segment.base_offset, segment.end_offset.load()):
            return  # known to be gone
        code = BATCH_CORRUPT
    log_note_fault(log, segment.base_offset, segment.base_offset, code)


cdef int64_t _recovery_base(PartitionLog* log) noexcept nogil:
    """Recovery starts reading in that segment: it must stay. The next checkpoint moves on."""
    cdef int64_t base
    log.saved_guard.lock()
    base = log.saved.segment_base
    log.saved_guard.unlock()
    return base


cdef int _move_start(PartitionLog* log, int64_t offset) noexcept nogil:
    cdef int code = OK
    log.saved_guard.lock()
    # Never back: deleting records may have moved it into the middle of a segment.
    offset = max(offset, log.saved.log_start_offset)
    log.saved.log_start_offset = offset
    if not mutant(b"log_start_after_unlink"):
        code = log_save_locked(log)
    log.saved_guard.unlock()
    if code == OK:
        log.log_start_offset.store(offset)
    return code


cdef int64_t _drop_below_start(PartitionLog* log) noexcept nogil:
    cdef vector[SegmentRef] dropped
    cdef int64_t start = log.log_start_offset.load(), recovery_base = _recovery_base(log)
    cdef size_t i
    cdef int code
    log.guard.lock()
    log.list_guard.lock()
    while (log.segments.size() > 1 and log.segments[1].get().base_offset <= start
           and log.segments[1].get().base_offset <= recovery_base):
        dropped.push_back(log.segments.front())
        log.segments.erase(log.segments.begin())
    _forget_below(log, start)
    log.list_guard.unlock()
    log.guard.unlock()
    for i in range(dropped.size()):
        code = segment_unlink(dropped[i].get())
        if code != OK:
            return code
    return dropped.size()


cdef void _forget_below(PartitionLog* log, int64_t start) noexcept nogil:
    cdef size_t i, kept = 0
    for i in range(log.aborted.size()):
        if log.aborted[i].last_offset >= start:
            log.aborted[kept] = log.aborted[i]
            kept += 1
    log.aborted.resize(kept)
    kept = 0
    for i in range(log.holes.size()):
        # One below the start whose bytes are still there is what readers' searches must step over.
        if log.holes[i].end_offset > min(start, log.segments.front().get().base_offset):
            log.holes[kept] = log.holes[i]
            kept += 1
    log.holes.resize(kept)


cdef int log_delete_before(PartitionLog* log, int64_t offset) noexcept nogil:
    cdef int64_t visible = log_high_watermark(log), result = OK
    if offset == -1:
        offset = visible
    if offset < 0 or offset > visible:
        return OFFSET_OUT_OF_RANGE
    log.maintenance.lock()
    if offset > log.log_start_offset.load():
        result = _move_start(log, offset)
        if result == OK:
            result = _drop_below_start(log)
    log.maintenance.unlock()
    return <int>min(result, <int64_t>OK)


# Truncation

cdef int log_truncate(PartitionLog* log, int64_t offset) noexcept nogil:
    cdef FileRef directory  # held: below, `log.directory.get().fd` is open
    cdef int code = directory_hold(log.directory.get(), &directory)
    if code != OK:
        return code
    log.maintenance.lock()
    log.saved_guard.lock()
    log.guard.lock()
    # Appends and commits must stand still while the end moves back, also across these syncs.
    if log.failed.load() != OK:
        code = LOG_FAILED
    elif log.is_closed.load():
        code = LOG_CLOSED
    elif offset < log.log_start_offset.load():
        code = OFFSET_OUT_OF_RANGE
    elif offset < log.log_end_offset.load():
        log.truncations.fetch_add(1)
        code = _truncate_locked(log, offset)
        log.truncations.fetch_add(1)
        if code != OK:
            # Half of it is done, on disk and here. Recovery can finish it, this life cannot.
            log.failed.store(code)
            code = LOG_FAILED
    log.guard.unlock()
    log.saved_guard.unlock()
    log.maintenance.unlock()
    return code


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
    recovered_start(&recovered)
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
    log.producers.producers.clear()
    log.producers.open_txns.clear()
    if had_producers:
        _replay_producers(log, offset)
    while kept < log.epochs.size() and log.epochs[kept].start_offset < offset:
        kept += 1
    log.epochs.resize(kept)
    log.list_guard.lock()
    kept = 0
    while kept < log.aborted.size() and log.aborted[kept].last_offset < offset:
        kept += 1
    log.aborted.resize(kept)
    log.ended.clear()
    log.list_guard.unlock()


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
    cdef Found found
    cdef int64_t position = old.size.load()
    cdef int fd, code = segment_pin(old)
    if code == OK:
        code = segment_file(old, &file)
    if code == OK:
        code = segment_find(old, offset, &found)
        if code == OK:
            position = found.position
    if code != OK and code != OFFSET_OUT_OF_RANGE:
        return code
    file_name(name, old.base_offset, b".log.cleaned")
    file_name(target, old.base_offset, b".log")
    fd = open_file(log.directory.get().fd, name, O_RDWR | O_CREAT | O_TRUNC)
    if fd < 0:
        return fd
    code = _copy_prefix(file.get().fd, fd, position)
    close(fd)
    if code == OK and renameat(log.directory.get().fd, name, log.directory.get().fd, target) < 0:
        code = storage_code(errno)
    if code == OK:
        code = sync_directory(log.directory.get().fd)
    if code != OK:
        return code
    fresh = segment_new(log.directory, old.base_offset)
    fresh.get().created_ms = old.created_ms
    fresh.get().synced_size = fresh.get().written_behind = position
    log.list_guard.lock()
    log.segments[slot] = fresh
    log.list_guard.unlock()
    return OK


cdef int _copy_prefix(int source, int target, int64_t size) noexcept nogil:
    cdef vector[uint8_t] data
    cdef int64_t done = 0, got
    cdef int code
    data.resize(min(size, <int64_t>COPY_SIZE))
    while done < size:
        got = read_whole(source, data.data(), min(<int64_t>COPY_SIZE, size - done), done)
        if got <= 0:
            return STORAGE_IO
        code = write_whole(target, data.data(), got, done)
        if code != OK:
            return code
        done += got
    return sync_file(target)


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


# Compaction's swap

cdef void log_sealed(PartitionLog* log, vector[SegmentRef]* into) noexcept nogil:
    cdef int64_t before = min(_recovery_base(log), log_high_watermark(log))
    cdef size_t i
    log.list_guard.lock()
    for i in range(log.segments.size()):
        if i + 1 < log.segments.size() and log.segments[i].get().end_offset.load() <= before:
            into.push_back(log.segments[i])
    log.list_guard.unlock()


cdef int log_swap(PartitionLog* log, const vector[SegmentRef]& group, const SegmentRef& cleaned,
                  bint leaves_gaps, const vector[Hole]* holes) noexcept nogil:
    cdef int64_t base = cleaned.get().base_offset
    cdef int64_t end = group.back().get().end_offset.load()
    cdef FileRef directory  # held: below, `log.directory.get().fd` is open
    cdef int directory_fd
    cdef size_t i
    cdef int code = directory_hold(log.directory.get(), &directory)
    if code != OK:
        return code
    directory_fd = directory.get().fd
    cleaned.get().end_offset.store(end)
    for i in range(group.size()):
        code = segment_pin(group[i].get())
        # One whose file is gone takes part all the same: what it held is put back.
        if code != OK and code != OFFSET_OUT_OF_RANGE:
            return code
    # Until it has the segment's name only its descriptor leads to it.
    cleaned.get().is_replaced = True
    if not mutant(b"swap_without_directory_sync"):
        code = _store_group_aborted(log, base, end)
        if code == OK:
            code = sync_directory(directory_fd)
        if code != OK:
            return code
    code = _decide_swap(log, group, cleaned, leaves_gaps, holes)
    if code != OK:
        return code
    # From here on the swap has happened; only finishing it is left, here or in recovery.
    code = _finish_swap(log, base)
    if code == OK:
        cleaned.get().guard.lock()
        cleaned.get().is_replaced = False
        cleaned.get().guard.unlock()
    for i in range(1, group.size()):
        if code == OK:
            code = segment_unlink(group[i].get())
    if code == OK:
        code = sync_directory(directory_fd)
    if code == OK:
        code = _end_swap(log, base, end)
    # Derived: without it the index is built anew when it is first needed.
    if code == OK and segment_store_index(cleaned.get(), True) == OK:
        cleaned.get().index_is_final.store(True)
    return code


cdef int _store_group_aborted(PartitionLog* log, int64_t base, int64_t end) noexcept nogil:
    """All of the group's aborted transactions under the one name that stays."""
    cdef vector[AbortedTxn] here
    cdef size_t i
    log.list_guard.lock()
    for i in range(log.aborted.size()):
        if base <= log.aborted[i].last_offset < end:
            here.push_back(log.aborted[i])
    log.list_guard.unlock()
    # Also when none is left: an entry without its marker would hide what the producer wrote later.
    return txn_index_store(log.directory.get().fd, base, here.data(), here.size())


cdef int _decide_swap(PartitionLog* log, const vector[SegmentRef]& group,
                      const SegmentRef& cleaned, bint leaves_gaps,
                      const vector[Hole]* holes) noexcept nogil:
    """Into the journal and the list of segments as one: saved_guard keeps every other record of
    this log out between the two, since it would have the swap with the holes of before.

    Once the journal holds the record in memory, any commit may take it to the disk. So one that
    fails undoes nothing: this life goes on with the new segment and the new holes, under the old
    names, and whichever record is on the disk, recovery finds the files that fit it."""
    cdef int64_t base = cleaned.get().base_offset, end = cleaned.get().end_offset.load()
    cdef int code = OK
    log.saved_guard.lock()
    if log.is_closed.load():
        log.saved_guard.unlock()
        return LOG_CLOSED
    log.saved.swap_base, log.saved.swap_end = base, end
    if leaves_gaps:
        log.saved.gaps_end = max(log.saved.gaps_end, end)
    log.gaps_end.store(log.saved.gaps_end)
    if not mutant(b"swap_without_journal"):
        if holes == NULL:
            code = log_save_locked(log)
        else:
            _fill_bases(log)
            log.saved.holes = holes[0]
            journal_put(&log.storage.get().journal, log.name, &log.saved)
            code = storage_commit(log.storage.get())
    _put_in_list(log, group, cleaned, holes)
    log.saved_guard.unlock()
    return code


cdef void _fill_bases(PartitionLog* log) noexcept nogil:
    """The list of segments as it is before the swap."""
    cdef size_t i
    log.saved.bases.clear()
    log.list_guard.lock()
    for i in range(log.segments.size()):
        if log.segments[i].get().base_offset < log.saved.segment_base:
            log.saved.bases.push_back(log.segments[i].get().base_offset)
    log.list_guard.unlock()


cdef int _end_swap(PartitionLog* log, int64_t base, int64_t end) noexcept nogil:
    cdef int code
    log.saved_guard.lock()
    log.saved.swap_base = log.saved.swap_end = -1
    code = log_save_locked(log)
    if code != OK:
        # The disk still says that it is to be finished: no other swap may begin in this life.
        log.saved.swap_base, log.saved.swap_end = base, end
    log.saved_guard.unlock()
    return code


cdef bint log_has_unfinished_swap(PartitionLog* log) noexcept nogil:
    cdef bint has
    log.saved_guard.lock()
    has = log.saved.swap_base >= 0
    log.saved_guard.unlock()
    return has


cdef void _put_in_list(PartitionLog* log, const vector[SegmentRef]& group,
                       const SegmentRef& cleaned, const vector[Hole]* holes) noexcept nogil:
    cdef vector[SegmentRef] kept
    cdef int64_t first = group.front().get().base_offset, last = group.back().get().base_offset
    cdef int64_t base
    cdef size_t i
    log.guard.lock()
    log.list_guard.lock()
    for i in range(log.segments.size()):
        base = log.segments[i].get().base_offset
        if base == first:
            kept.push_back(cleaned)
        elif base < first or base > last:
            kept.push_back(log.segments[i])
    log.segments.swap(kept)
    if holes != NULL:
        log.holes = holes[0]
    holes_forget_bytes(&log.holes, first, cleaned.get().end_offset.load())
    log.list_guard.unlock()
    log.guard.unlock()


cdef int _finish_swap(PartitionLog* log, int64_t base) noexcept nogil:
    cdef char[NAME_SIZE] name
    cdef char[NAME_SIZE] swap
    cdef int directory_fd = log.directory.get().fd
    # The old index files describe the old bytes: they go before the new bytes take the name.
    file_name(name, base, b".index")
    unlinkat(directory_fd, name, 0)
    file_name(name, base, b".timeindex")
    unlinkat(directory_fd, name, 0)
    file_name(name, base, b".log")
    file_name(swap, base, b".log.swap")
    if renameat(directory_fd, swap, directory_fd, name) < 0:
        return storage_code(errno)
    return OK


cdef int log_save_cleaned(PartitionLog* log, int64_t cleaned_offset) noexcept nogil:
    cdef int code
    log.saved_guard.lock()
    log.saved.cleaned_offset = cleaned_offset
    code = log_save_locked(log)
    log.saved_guard.unlock()
    return code


# ---- with the GIL ----

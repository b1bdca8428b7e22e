"""Recovery of one partition. Table of damages, and what becomes of each:

found                                             done
------------------------------------------------  -------------------------------------------------
clean stop, sizes as the journal says             nothing is read
torn or garbage tail after the recovery point     cut
the same, with whole batches behind it            copied to `.corrupt-<ms>`, then cut
a valid batch at the wrong offset                 as garbage: the CRC does not cover the offset
segments after the cut                            renamed `.corrupt-<ms>`; empty ones removed
segments below the log start                      removed: retention was interrupted
`.cleaned`; `.swap` unknown to the journal        removed: compaction had not come to its point
`.swap` in a directory of Kafka's                 finished if Kafka had decided it
`.swap` in the journal                            finished: it takes the covered segments' place
recovery segment short or missing                 a hole is noted, a new segment starts at the point
no checkpoint at all (foreign or new directory)   every byte is checked; damage with segments after
                                                  it is a hole, not an end
truncation interrupted                            cut at the journaled limit
index missing, short, wrong                       kept as far as it rises; rebuilt when first needed
transaction index that cannot be true             its segment is read, and it is put right

The page cache is not believed after an unclean end: after a failed write-back it can show bytes
that the disk lacks. So what is scanned is first synced, then dropped from the cache, then read.
"""

from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t
from libcpp.memory cimport make_shared
from libcpp.string cimport string
from libcpp.vector cimport vector

from appliance._crc cimport crc32c
from appliance.native._codes cimport BATCH_CORRUPT, OK, STORAGE_FULL
from appliance.native._descriptors cimport directory_hold, directory_leave, directory_new
from appliance.native._files cimport (
    NAME_SIZE, drop_cache, failure_errno, failure_note, file_name, file_size, read_whole,
    sync_directory,
)
from appliance.native._native cimport (
    ENOENT, S_ISREG, c_stat, errno, fstatat, mutant, renameat, unlinkat,
)
from appliance.record._batch cimport (
    ATTRIBUTE_CONTROL, BATCH_HEADER_SIZE, BatchHeader, batch_check_crc, batch_check_header,
    batch_load_header,
)
from appliance.storage._append cimport log_note
from appliance.storage._checkpoint cimport log_capture, log_put_locked
from appliance.storage._holes cimport holes_cut, holes_forget_bytes, holes_place
from appliance.storage._index cimport AbortedTxn, index_truncate, txn_index_load
from appliance.storage._index_files cimport log_store_aborted
from appliance.storage._journal cimport Checkpoint, journal_find
from appliance.storage._kafka_dir cimport finish_kafka_swaps
from appliance.storage._partition_dir cimport list_directory, unlink_base
from appliance.storage._partition_log cimport LogRef, LogSettings, PartitionLog, log_close_idle
from appliance.storage._producers cimport (
    producers_first_open, producers_load, producers_load_snapshot,
)
from appliance.storage._read cimport log_note_fault
from appliance.storage._salvage cimport (
    CAUSE_BATCH_DAMAGED, CAUSE_FILE_SHORT, CAUSE_NOT_NOTED, CAUSE_SEGMENT_MISSING, CAUSE_TXN_INDEX,
    Loss, Recovered, recovered_start, salvage_cut, salvage_hole, salvage_segment, salvage_split,
)
from appliance.storage._segment cimport (
    FileRef, Segment, SegmentRef, segment_close, segment_file, segment_new, segment_note,
    segment_seal_times,
)
from appliance.storage._segment_find cimport segment_load_index, segment_past_damage
from appliance.storage._storage cimport StorageRef, storage_latest_ms, storage_release_reserve
from appliance.storage._txn_trail cimport (
    TRAIL_FITS, TRAIL_UNSURE, TrailFound, TxnTrail, trail_lose, trail_mend, trail_note, trail_start,
)
from appliance.storage._watermarks cimport Watermarks, watermarks_find

cdef extern from "fcntl.h" nogil:
    int AT_SYMLINK_NOFOLLOW

cdef enum:
    SCAN_SIZE = 1048576
    CRC_BEGIN = 21                 # of a batch: behind the checksum itself


# ---- without the GIL ----

cdef int _finish_swap(int directory_fd, const Checkpoint* checkpoint) noexcept nogil:
    """The journal is the commit point: from there on only the compacted segment exists."""
    cdef char[NAME_SIZE] name
    cdef char[NAME_SIZE] swap
    cdef vector[int64_t] bases, txn_bases
    cdef vector[string] rubbish
    cdef size_t i
    file_name(name, checkpoint.swap_base, b".log")
    file_name(swap, checkpoint.swap_base, b".log.swap")
    if renameat(directory_fd, swap, directory_fd, name) < 0 and errno != ENOENT:
        return failure_note(b"rename", swap, errno)
    cdef int code = list_directory(directory_fd, &bases, &txn_bases, &rubbish)
    if code != OK:
        return code
    file_name(name, checkpoint.swap_base, b".index")
    unlinkat(directory_fd, name, 0)
    file_name(name, checkpoint.swap_base, b".timeindex")
    unlinkat(directory_fd, name, 0)
    # Also where only an index is left: its aborted transactions are in the first one's by now.
    bases.insert(bases.end(), txn_bases.begin(), txn_bases.end())
    for i in range(bases.size()):
        if checkpoint.swap_base < bases[i] < checkpoint.swap_end:
            code = unlink_base(directory_fd, bases[i])
            if code != OK:
                return code
    return sync_directory(directory_fd)


cdef void _forget_swapped(Checkpoint* checkpoint) noexcept nogil:
    cdef size_t i, kept = 0
    for i in range(checkpoint.bases.size()):
        if not checkpoint.swap_base < checkpoint.bases[i] < checkpoint.swap_end:
            checkpoint.bases[kept] = checkpoint.bases[i]
            kept += 1
    checkpoint.bases.resize(kept)
    holes_forget_bytes(&checkpoint.holes, checkpoint.swap_base, checkpoint.swap_end)
    checkpoint.swap_base = checkpoint.swap_end = -1


# Opening

cdef int log_open(const StorageRef& storage, const string& name, const LogSettings* settings,
                  bint is_trusted, LogRef* opened, Recovered* recovered) noexcept nogil:
    cdef LogRef log = make_shared[PartitionLog]()
    cdef PartitionLog* it = log.get()
    cdef Checkpoint checkpoint
    cdef FileRef directory
    cdef int code
    it.directory = directory_new(storage.get().directory, name)
    # Held until all is done here: below, `it.directory.get().fd` is open.
    code = directory_hold(it.directory.get(), &directory)
    if code != OK:
        return code
    it.name = name
    it.storage = storage
    it.settings = settings[0]
    it.shows_appended.store(settings.shows_appended)
    it.watches.first = NULL
    it.is_compacted.store(settings.cleanup_compact)
    it.is_mirror.store(settings.is_mirror)
    recovered_start(recovered)
    recovered.was_known = journal_find(&storage.get().journal, name, &checkpoint)
    if not recovered.was_known:
        _unknown(&checkpoint)
    _promise(it, &checkpoint, is_trusted, recovered)
    code = _load_segments(it, &checkpoint, recovered)
    if code == OK:
        code = _recover(it, &checkpoint, is_trusted, recovered)
    if code == OK and not is_trusted:
        code = _store_aborted(it)
    if code == OK and not is_trusted:
        # Names that only the page cache knew are about to be relied on.
        code = sync_directory(directory.get().fd)
    if code != OK:
        return code
    _publish(it, &checkpoint, is_trusted and recovered.losses.empty())
    code = _mend_txn_indexes(it, recovered)
    if code != OK:
        return code
    # Ten thousand logs may be opened, and few of them be used.
    directory.reset()
    log_close_idle(it, INT64_MAX)
    opened[0] = log
    # It is in the log now. What is left at the start's end is of logs that could not be opened.
    storage.get().marks.guard.lock()
    storage.get().marks.found.erase(name)
    storage.get().marks.guard.unlock()
    return OK


cdef void _promise(PartitionLog* log, const Checkpoint* checkpoint, bint is_trusted,
                   Recovered* recovered) noexcept nogil:
    """How far the log was durable when the last life ended, by journal and watermarks."""
    cdef Watermarks* marks = &log.storage.get().marks
    cdef int64_t noted = watermarks_find(marks, log.name)
    # A truncation took its own note back; a crash may have come between the note and the journal.
    noted = min(noted, checkpoint.end_limit)
    recovered.promised_offset = max(noted, checkpoint.recovery_offset)
    recovered.is_noted = is_trusted or noted >= 0 or (recovered.was_known and marks.was_found)


cdef int _store_aborted(PartitionLog* log) noexcept nogil:
    """What the scan found of aborts is on disk before the recovery point moves past them."""
    cdef size_t i
    cdef int code = OK
    for i in range(log.segments.size()):
        if code == OK and log.segments[i].get().txn_is_dirty.load():
            code = log_store_aborted(log, log.segments[i].get())
            if code == STORAGE_FULL and storage_release_reserve(log.storage.get()):
                code = log_store_aborted(log, log.segments[i].get())
    return code


cdef void _unknown(Checkpoint* checkpoint) noexcept nogil:
    checkpoint.recovery_offset = checkpoint.segment_base = -1
    checkpoint.position = 0
    checkpoint.log_start_offset = -1
    checkpoint.end_limit = INT64_MAX
    checkpoint.swap_base = checkpoint.swap_end = -1
    checkpoint.cleaned_offset = 0
    checkpoint.gaps_end = INT64_MAX
    checkpoint.created_ms = 0
    checkpoint.first_timestamp = checkpoint.largest_timestamp = -1
    checkpoint.largest_timestamp_offset = -1
    checkpoint.leader_epoch = 0
    checkpoint.epochs.clear()
    checkpoint.holes.clear()
    checkpoint.bases.clear()
    checkpoint.producers.clear()


cdef int _load_segments(PartitionLog* log, Checkpoint* checkpoint,
                        Recovered* recovered) noexcept nogil:
    """Fills log.segments from the directory, after finishing or undoing what was interrupted."""
    cdef int directory_fd = log.directory.get().fd
    cdef vector[int64_t] bases, txn_bases
    cdef vector[string] rubbish
    cdef size_t i
    cdef int code = OK
    if checkpoint.swap_base >= 0:
        code = _finish_swap(directory_fd, checkpoint)
        _forget_swapped(checkpoint)
    if code == OK:
        code = list_directory(directory_fd, &bases, &txn_bases, &rubbish)
    if code == OK and not recovered.was_known and not rubbish.empty():
        code = finish_kafka_swaps(directory_fd, &rubbish)
        bases.clear()
        txn_bases.clear()
        code = list_directory(directory_fd, &bases, &txn_bases, &rubbish) if code == OK else code
    if code != OK:
        return code
    for i in range(rubbish.size()):
        unlinkat(directory_fd, rubbish[i].c_str(), 0)
    for i in range(bases.size()):
        if i + 1 < bases.size() and bases[i + 1] <= checkpoint.log_start_offset \
                and bases[i] < checkpoint.segment_base:
            code = unlink_base(directory_fd, bases[i])
        else:
            code = _take_segment(log, bases[i])
        if code != OK:
            return code
    if log.segments.empty():
        return _first_segment(log, checkpoint, recovered.promised_offset)
    if not recovered.was_known:
        _begin_at_first(log, checkpoint)
    for i in range(txn_bases.size()):
        code = _load_txn_index(log, txn_bases[i], checkpoint, recovered)
        if code < 0:
            return code
    return OK


cdef int _load_txn_index(PartitionLog* log, int64_t base, const Checkpoint* checkpoint,
                         Recovered* recovered) noexcept nogil:
    cdef int64_t next_base = INT64_MAX
    cdef Segment* segment = NULL
    cdef size_t i
    cdef int code = txn_index_load(log.directory.get().fd, base, checkpoint.recovery_offset,
                                   &log.aborted)
    for i in range(log.segments.size()):
        if log.segments[i].get().base_offset == base:
            segment = log.segments[i].get()
        elif log.segments[i].get().base_offset > base:
            next_base = min(next_base, log.segments[i].get().base_offset)
    # Also where a compaction was interrupted: those are in the file of their own segment, too.
    while not log.aborted.empty() and log.aborted.back().last_offset >= next_base:
        log.aborted.pop_back()
        code = 1 if code == OK else code
    if segment != NULL and base >= checkpoint.segment_base:
        # It may hold aborts that the log lost: written anew before the next recovery point.
        segment.txn_is_dirty.store(True)
    if code == 1 and segment != NULL and base < checkpoint.recovery_offset:
        recovered.doubted.push_back(base)
    return min(code, OK)


cdef int _take_segment(PartitionLog* log, int64_t base) noexcept nogil:
    cdef SegmentRef segment
    cdef char[NAME_SIZE] name
    cdef c_stat status
    file_name(name, base, b".log")
    if fstatat(log.directory.get().fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0:
        return failure_note(b"stat", name, errno)
    if not S_ISREG(status.st_mode):
        return OK  # a link, a pipe: not ours, left alone
    segment = segment_new(log.directory, base)
    segment.get().size.store(status.st_size)
    segment.get().synced_size = segment.get().written_behind = status.st_size
    segment.get().index_is_final.store(True)
    if not log.segments.empty():
        log.segments.back().get().end_offset.store(base)
    log.segments.push_back(segment)
    return OK


cdef int _first_segment(PartitionLog* log, Checkpoint* checkpoint,
                        int64_t promised) noexcept nogil:
    """A new log; or one whose every segment is gone, which the recovery point then shows."""
    cdef int64_t base = max(checkpoint.recovery_offset, checkpoint.log_start_offset, <int64_t>0)
    cdef int code
    base = max(base, promised)
    code = salvage_segment(log, base)
    if checkpoint.recovery_offset < 0:
        checkpoint.recovery_offset = checkpoint.segment_base = checkpoint.log_start_offset = base
    return code


cdef void _begin_at_first(PartitionLog* log, Checkpoint* checkpoint) noexcept nogil:
    """No checkpoint: everything from the first segment on is to be checked."""
    cdef int64_t base = log.segments.front().get().base_offset
    checkpoint.recovery_offset = checkpoint.segment_base = checkpoint.log_start_offset = base
    producers_load_snapshot(&log.producers, log.directory.get().fd, base,
                            storage_latest_ms(log.storage.get()))


cdef int _recover(PartitionLog* log, Checkpoint* checkpoint, bint is_trusted,
                  Recovered* recovered) noexcept nogil:
    cdef Segment* segment
    cdef size_t slot = 0
    cdef bint is_there
    log.epochs = checkpoint.epochs
    log.holes = checkpoint.holes
    _miss_segments(log, checkpoint, recovered)
    # After that: damaged bytes are looked for in the segment before them when theirs is gone.
    holes_place(log)
    if recovered.was_known:
        producers_load(&log.producers, checkpoint.producers.data(), checkpoint.producers.size())
    while (slot + 1 < log.segments.size()
           and log.segments[slot].get().base_offset < checkpoint.segment_base):
        slot += 1
    segment = log.segments[slot].get()
    is_there = segment.base_offset == checkpoint.segment_base
    if is_there:
        segment.created_ms = checkpoint.created_ms
        segment.first_timestamp = checkpoint.first_timestamp
        segment.largest_timestamp.store(checkpoint.largest_timestamp)
        segment.largest_timestamp_offset.store(checkpoint.largest_timestamp_offset)
        segment.largest_is_known.store(True)
        segment.index_is_final.store(False)
    if not is_there or segment.size.load() < checkpoint.position:
        return _lost_below_point(log, slot, checkpoint, recovered)
    if mutant(b"trust_segments_below_recovery_point") and slot + 1 < log.segments.size():
        segment.end_offset.store(log.segments[slot + 1].get().base_offset)
        return log_scan(log, slot + 1, 0, segment.end_offset.load(), False, INT64_MAX, recovered)
    if (is_trusted and slot + 1 == log.segments.size()
            and segment.size.load() == checkpoint.position):
        segment.end_offset.store(checkpoint.recovery_offset)
        return OK
    return log_scan(log, slot, checkpoint.position, checkpoint.recovery_offset,
                    not recovered.was_known,
                    checkpoint.end_limit, recovered)


cdef void _miss_segments(PartitionLog* log, const Checkpoint* checkpoint,
                         Recovered* recovered) noexcept nogil:
    """Segments that the journal lists and the directory lacks: what they held is a hole."""
    cdef string none
    cdef size_t i, j
    cdef int64_t end
    cdef bint is_there
    for i in range(checkpoint.bases.size()):
        end = checkpoint.segment_base
        if i + 1 < checkpoint.bases.size():
            end = checkpoint.bases[i + 1]
        is_there = end <= checkpoint.log_start_offset
        for j in range(log.segments.size()):
            is_there = is_there or log.segments[j].get().base_offset == checkpoint.bases[i]
        if not is_there:
            salvage_hole(log, max(checkpoint.bases[i], checkpoint.log_start_offset), end,
                         CAUSE_SEGMENT_MISSING, none, recovered)


cdef int _lost_below_point(PartitionLog* log, size_t slot, const Checkpoint* checkpoint,
                           Recovered* recovered) noexcept nogil:
    """Bytes that were durable are gone. What is whole before and after the loss stays readable."""
    cdef int64_t first = checkpoint.segment_base, resume = checkpoint.recovery_offset
    cdef int cause = CAUSE_SEGMENT_MISSING
    cdef Segment* segment = log.segments[slot].get()
    cdef string aside
    cdef int code = OK
    if segment.base_offset == checkpoint.segment_base:
        # The size below which it is whole is found by reading it; the lost rest is a hole after it.
        code = _scan_prefix(log, slot, checkpoint, recovered)
        if code < 0:
            return code
        cause = CAUSE_BATCH_DAMAGED if code == 1 else CAUSE_FILE_SHORT
        if code == 1:
            aside = _own_name(segment)
        first = segment.end_offset.load()
        slot += 1
    elif segment.base_offset < checkpoint.segment_base:
        slot += 1
    if slot < log.segments.size():
        resume = max(resume, log.segments[slot].get().base_offset)
    else:
        resume = max(resume, recovered.promised_offset)
    salvage_hole(log, first, resume, cause, aside, recovered)
    producers_load(&log.producers, checkpoint.producers.data(), checkpoint.producers.size())
    log.epochs = checkpoint.epochs
    if slot == log.segments.size():
        code = salvage_segment(log, resume)
        log.segments.back().get().end_offset.store(resume)
        return code
    return log_scan(log, slot, 0, log.segments[slot].get().base_offset, False,
                    checkpoint.end_limit, recovered)


cdef int _scan_prefix(PartitionLog* log, size_t slot, const Checkpoint* checkpoint,
                      Recovered* recovered) noexcept nogil:
    """Reads a segment that the checkpoint lies behind, and leaves the log's state as it was then:
    of producers, epochs and aborted transactions the journal knows more than is left here."""
    cdef vector[AbortedTxn] aborted = log.aborted
    cdef Segment* segment = log.segments[slot].get()
    cdef size_t kept = 0
    cdef int code
    while kept < log.epochs.size() and log.epochs[kept].start_offset <= segment.base_offset:
        kept += 1
    log.epochs.resize(kept)
    log.producers.producers.clear()
    log.producers.open_txns.clear()
    code = _scan_segment(log, slot, 0, segment.base_offset, True, INT64_MAX, recovered)
    log.aborted = aborted
    log.ended.clear()
    return code


cdef string _own_name(Segment* segment) noexcept nogil:
    cdef char[NAME_SIZE] name
    file_name(name, segment.base_offset, b".log")
    return string(<const char*>name)


# Scanning

cdef int log_scan(PartitionLog* log, size_t slot, int64_t position, int64_t offset,
                  bint may_have_gaps,
                  int64_t end_limit, Recovered* recovered) noexcept nogil:
    """Checks every batch from `position` of segment `slot` on. The first bad one ends the log, if
    nobody was promised what follows; otherwise what was promised is a hole, and the log goes on."""
    cdef Segment* segment
    cdef int code
    while True:
        code = _scan_segment(log, slot, position, offset, may_have_gaps, end_limit, recovered)
        if code == 1:
            code = _split(log, slot, may_have_gaps, recovered)
        if code < 0:
            return code
        segment = log.segments[slot].get()
        offset = segment.end_offset.load()
        if slot + 1 == log.segments.size():
            return OK if code == 0 and offset >= recovered.promised_offset else _end(
                log, slot, code, recovered)
        if not _passes(log, slot, code, may_have_gaps, recovered):
            return _end(log, slot, code, recovered)
        segment.end_offset.store(log.segments[slot + 1].get().base_offset)
        segment_seal_times(segment)
        slot += 1
        position = 0
        offset = log.segments[slot].get().base_offset


cdef int _split(PartitionLog* log, size_t slot, bint may_have_gaps,
                Recovered* recovered) noexcept nogil:
    """0 where whole batches behind the bad one are kept; 1 where none is there, or is owed."""
    cdef int64_t offset = log.segments[slot].get().end_offset.load()
    cdef int64_t high = INT64_MAX
    cdef bint is_last = slot + 1 == log.segments.size()
    if not is_last:
        high = log.segments[slot + 1].get().base_offset
    if offset < recovered.promised_offset:
        return salvage_split(log, slot, min(high, recovered.promised_offset + 1),
                             CAUSE_BATCH_DAMAGED, recovered)
    # Nobody knows whether these were acknowledged. In the middle of a foreign log they stay as
    # they are.
    if not recovered.is_noted and is_last:
        return salvage_split(log, slot, high, CAUSE_NOT_NOTED, recovered)
    return 1


cdef bint _passes(PartitionLog* log, size_t slot, int code, bint may_have_gaps,
                  Recovered* recovered) noexcept nogil:
    """Whether the log goes on with the next segment; what is missing before it is noted."""
    cdef int64_t offset = log.segments[slot].get().end_offset.load()
    cdef int64_t next_offset = log.segments[slot + 1].get().base_offset
    cdef string aside
    if code == 0 and (may_have_gaps or next_offset == offset):
        return True
    if not may_have_gaps and next_offset > recovered.promised_offset:
        return False
    if code == 1:
        aside = _own_name(log.segments[slot].get())
    salvage_hole(log, offset, next_offset,
                 CAUSE_BATCH_DAMAGED if code == 1 else CAUSE_FILE_SHORT, aside, recovered)
    return True


cdef int _end(PartitionLog* log, size_t slot, int code, Recovered* recovered) noexcept nogil:
    """The log ends at what is good; or, if more was promised, goes on where that ended, so that no
    offset is given out twice."""
    cdef int64_t offset = log.segments[slot].get().end_offset.load()
    cdef int64_t promised = recovered.promised_offset
    cdef int cause = CAUSE_BATCH_DAMAGED if code == 1 else CAUSE_FILE_SHORT
    cdef string aside
    code = salvage_cut(log, slot, offset < promised, &aside, recovered)
    if code != OK or offset >= promised:
        return code
    salvage_hole(log, offset, promised, cause, aside, recovered)
    code = salvage_segment(log, promised)
    log.segments.back().get().end_offset.store(promised)
    return code


cdef int _scan_segment(PartitionLog* log, size_t slot, int64_t position, int64_t offset,
                       bint may_have_gaps,
                       int64_t end_limit, Recovered* recovered) noexcept nogil:
    """1 when it stopped at a batch that is not good, 0 at the end of the file, or a code.

    Leaves size and end_offset of the segment at what is good.
    """
    cdef Segment* segment = log.segments[slot].get()
    cdef vector[uint8_t] window
    cdef BatchHeader header
    cdef char[NAME_SIZE] name
    cdef FileRef file
    cdef int64_t end, past, at = 0, now = storage_latest_ms(log.storage.get())
    cdef int code = segment_file(segment, &file)
    if code != OK:
        return code
    end = file_size(file.get().fd)
    # After a failed sync the page cache shows what the disk lacks.
    code = OK if mutant(b"cache_kept_after_failed_sync") else drop_cache(file.get().fd)
    if code == OK:
        code = _forget_index(log, segment, position)
    if code != OK:
        return code
    segment.end_offset.store(offset)
    while position < end:
        past = segment_past_damage(segment, position)
        if past > position:
            # Known, and not served: what comes behind it goes on wherever it does.
            position, at, offset = past, 0, _past_hole(log, offset)
            window.clear()
            continue
        code = _load_batch(file.get().fd, position, end, &window, &at, &header)
        if code < 0:
            # The partition stays shut, and is tried again: docs/decisions/unreadable-at-start.md.
            file_name(name, segment.base_offset, b".log")
            return failure_note(b"read", name, failure_errno())
        recovered.scanned_bytes += header.size if code == 0 else 0
        if code == 1 or not _follows(log, &header, offset, may_have_gaps, end_limit):
            return 1
        segment_note(segment, &header, position, log.settings.index_interval_bytes)
        log_note(log, segment, window.data() + at, &header, now)
        offset = header.base_offset + header.last_offset_delta + 1
        position += header.size
        at += header.size
        segment.end_offset.store(offset)
    return 0


cdef int64_t _past_hole(PartitionLog* log, int64_t offset) noexcept nogil:
    cdef size_t i
    for i in range(log.holes.size()):
        if log.holes[i].first_offset <= offset < log.holes[i].end_offset:
            offset = log.holes[i].end_offset
    return offset


cdef bint _follows(PartitionLog* log, const BatchHeader* header, int64_t offset, bint may_have_gaps,
                   int64_t end_limit) noexcept nogil:
    """The CRC covers neither offset nor epoch: a stale whole batch is told by them alone."""
    if mutant(b"recovery_without_continuity"):
        return header.base_offset < end_limit
    if header.base_offset < offset or (header.base_offset > offset and not may_have_gaps):
        return False
    if not log.epochs.empty() and header.leader_epoch < log.epochs.back().epoch:
        return False
    return header.base_offset + header.last_offset_delta < end_limit


cdef int _forget_index(PartitionLog* log, Segment* segment, int64_t position) noexcept nogil:
    """Index entries, and the size, back to `position`."""
    cdef int code
    segment.size.store(position)
    code = segment_load_index(segment)
    if code != OK:
        return code
    if position == 0:
        segment.largest_timestamp.store(-1)
        segment.first_timestamp = -1
        segment.bytes_since_index = segment.created_ms = 0
    segment.largest_is_known.store(True)
    segment.index_is_final.store(False)
    index_truncate(&segment.index, position)
    return OK


cdef int _load_batch(int fd, int64_t position, int64_t end, vector[uint8_t]* window, int64_t* at,
                     BatchHeader* header) noexcept nogil:
    """Whole and with a good CRC at window[at]: 0; not a good batch: 1; or a code."""
    cdef int64_t have = <int64_t>window.size() - at[0]
    cdef int64_t need = BATCH_HEADER_SIZE
    cdef int64_t got
    cdef int code
    header.size = 0
    while True:
        if have < need:
            if end - position < need:
                return 1
            at[0] = 0
            window.resize(min(max(need, <int64_t>SCAN_SIZE), end - position))
            got = read_whole(fd, window.data(), window.size(), position)
            if got < 0:
                return <int>got
            window.resize(got)
            have = got
            if have < need:
                return 1
        batch_load_header(window.data() + at[0], header)
        code = batch_check_header(header, end - position)
        if code != OK:
            return 1
        if have >= header.size:
            break
        if header.size > SCAN_SIZE:
            return _check_large(fd, position, header)
        need = header.size
    if mutant(b"recovery_without_crc"):
        return 0
    return 0 if batch_check_crc(window.data() + at[0], header) == OK else 1


cdef int _check_large(int fd, int64_t position, const BatchHeader* header) noexcept nogil:
    """As above, in pieces: a flipped bit may claim as much as the file holds. Only its head is in
    the window, which is all that anybody wants of a batch of records."""
    cdef vector[uint8_t] piece
    cdef int64_t done = CRC_BEGIN, got
    cdef uint32_t crc = 0
    piece.resize(SCAN_SIZE)
    while done < header.size:
        got = read_whole(fd, piece.data(), min(<int64_t>SCAN_SIZE, header.size - done),
                         position + done)
        if got <= 0:
            return <int>got if got < 0 else 1
        crc = crc32c(crc, piece.data(), got)
        done += got
    # A marker is small, and its key is read from the window.
    return 0 if crc == header.crc and not header.attributes & ATTRIBUTE_CONTROL else 1


cdef void _publish(PartitionLog* log, Checkpoint* checkpoint, bint is_trusted) noexcept nogil:
    cdef Segment* active = log.segments.back().get()
    cdef int64_t end_offset = active.end_offset.load(), epoch
    active.index_is_final.store(False)
    holes_cut(log, end_offset)
    holes_place(log)
    log.log_end_offset.store(end_offset)
    log.durable_offset.store(end_offset)
    log.active_base.store(active.base_offset)
    log.log_start_offset.store(max(checkpoint.log_start_offset,
                                   log.segments.front().get().base_offset))
    log.first_open_offset.store(producers_first_open(&log.producers))
    # After an unclean end a client may have seen records that are gone: a new epoch tells it so.
    epoch = checkpoint.leader_epoch
    if not log.epochs.empty():
        epoch = max(epoch, log.epochs.back().epoch)
    log.leader_epoch.store(epoch + (0 if is_trusted else 1))
    log_capture(log, &log.saved)
    log.saved.log_start_offset = log.log_start_offset.load()
    log.saved.end_limit = INT64_MAX
    log.saved.swap_base = log.saved.swap_end = -1
    log.saved.cleaned_offset = min(checkpoint.cleaned_offset, end_offset)
    # A foreign log may have been compacted anywhere.
    log.saved.gaps_end = min(checkpoint.gaps_end, end_offset)
    log.gaps_end.store(log.saved.gaps_end)
    log_put_locked(log)


# Transaction indexes that cannot be true

cdef int _mend_txn_indexes(PartitionLog* log, Recovered* recovered) noexcept nogil:
    """Nobody reads yet: whoever does is told what the log says."""
    cdef Segment* segment
    cdef TrailFound found
    cdef int64_t end
    cdef size_t i, j
    cdef int code = OK
    for i in range(recovered.doubted.size()):
        for j in range(log.segments.size()):
            segment = log.segments[j].get()
            if segment.base_offset != recovered.doubted[i] or code != OK:
                continue
            found = _mend_txn_index(log, segment, &end, recovered)
            if end < segment.end_offset.load():
                # Told by health, and by the scrub what it is, which knows the aborts behind it too.
                log_note_fault(log, segment.base_offset, end, BATCH_CORRUPT)
            if found == TRAIL_UNSURE:
                _note_unsure(segment, recovered)
            recovered.txn_indexes += found != TRAIL_FITS
            code = log_store_aborted(log, segment)
            if code == STORAGE_FULL and storage_release_reserve(log.storage.get()):
                code = log_store_aborted(log, segment)
    return code


cdef TrailFound _mend_txn_index(PartitionLog* log, Segment* segment, int64_t* end,
                                Recovered* recovered) noexcept nogil:
    """`end`: the offset up to which the segment could be read."""
    cdef int64_t position = 0, at = 0, past
    cdef vector[uint8_t] window
    cdef BatchHeader header
    cdef TxnTrail trail
    cdef FileRef file
    end[0] = segment.base_offset
    if segment_file(segment, &file) != OK:
        return TRAIL_FITS
    trail_start(&trail, log.directory.get().fd, segment.base_offset)
    while position < segment.size.load():
        past = segment_past_damage(segment, position)
        if past > position:
            position, at, end[0] = past, 0, _past_hole(log, end[0])
            window.clear()
            trail_lose(&trail)
            continue
        if _load_batch(file.get().fd, position, segment.size.load(), &window, &at, &header) != 0:
            return trail_mend(log, &trail, segment.base_offset, end[0])
        if header.base_offset > end[0] >= log.gaps_end.load():
            trail_lose(&trail)
        trail_note(&trail, window.data() + at, &header)
        recovered.scanned_bytes += header.size
        end[0] = header.base_offset + header.last_offset_delta + 1
        position += header.size
        at += header.size
    end[0] = segment.end_offset.load()
    return trail_mend(log, &trail, segment.base_offset, end[0])


cdef void _note_unsure(Segment* segment, Recovered* recovered) noexcept nogil:
    cdef Loss loss
    loss.first_offset, loss.end_offset = segment.base_offset, segment.end_offset.load()
    loss.cause = CAUSE_TXN_INDEX
    loss.aside = _own_name(segment)
    recovered.losses.push_back(loss)


# Closing

cdef void log_close(PartitionLog* log) noexcept nogil:
    cdef vector[SegmentRef] segments
    cdef size_t i
    log.guard.lock()
    log.is_closed.store(True)
    log.guard.unlock()
    log.list_guard.lock()
    segments = log.segments
    log.list_guard.unlock()
    # Not when the last who knows the log forgets it: that may be a client that is silent for hours,
    # and a deleted file keeps its descriptor and its blocks until it is closed.
    for i in range(segments.size()):
        segment_close(segments[i].get())
    directory_leave(log.directory.get())


# ---- with the GIL ----

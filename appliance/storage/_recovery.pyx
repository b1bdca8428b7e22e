"""Recovery of one partition. Table of damages and results:

damage                                            result
------------------------------------------------  -------------------------------------------------
clean stop, sizes as the journal says             nothing is read
torn or garbage tail after the recovery point     cut
the same, with whole batches after it             copied to `.corrupt-<ms>`, then cut
a valid batch at the wrong offset                 as garbage: the CRC does not cover the offset
segments after the cut                            renamed `.corrupt-<ms>`; empty ones removed
segments below the log start                      removed: retention was interrupted
`.cleaned`; `.swap` unknown to the journal        removed: compaction was before its commit point
`.swap` in a directory of Kafka's                 finished if Kafka had decided it
`.swap` in the journal                            finished: it takes the covered segments' place
recovery segment short or missing                 a hole is noted, a new segment starts at the point
no checkpoint at all (foreign or new directory)   every byte is checked; damage with segments after
                                                  it is a hole, not an end
truncation interrupted                            cut at the journaled limit
index missing, short, wrong                       kept as far as it rises; rebuilt when first needed
time index with a time that the batches deny      dropped
transaction index without a log                   removed, unless the recovery point has passed it
transaction index that cannot be true             its segment is read, and it is put right
"""

from libc.stdint cimport INT64_MAX, int64_t
from libcpp.algorithm cimport binary_search
from libcpp.memory cimport make_shared
from libcpp.string cimport string
from libcpp.vector cimport vector

from appliance.native._codes cimport OK
from appliance.native._descriptors cimport directory_hold, directory_leave, directory_new
from appliance.native._files cimport NAME_SIZE, failure_note, file_name, sync_directory
from appliance.native._native cimport (
    S_ISREG, ScopeLock, c_stat, errno, fstatat, mutant, unlinkat,
)
from appliance.storage._checkpoint cimport log_capture, log_put_locked
from appliance.storage._checkpoint_journal cimport Checkpoint, journal_find
from appliance.storage._holes cimport holes_cut, holes_place
from appliance.storage._index cimport AbortedTxn
from appliance.storage._kafka_takeover cimport finish_kafka_swaps
from appliance.storage._leader_epochs cimport epochs_cut, epochs_open
from appliance.storage._log_settings cimport settings_apply
from appliance.storage._partition_dir cimport list_directory, unlink_base
from appliance.storage._partition_log cimport (
    LogRef, LogSettings, PartitionLog, log_close_idle, log_segments,
)
from appliance.storage._producers cimport (
    producers_first_open, producers_load, producers_load_snapshot,
)
from appliance.storage._recovery_scan cimport log_scan, scan_segment
from appliance.storage._recovery_txn cimport txn_index_take, txn_indexes_mend, txn_indexes_store
from appliance.storage._salvage cimport (
    CAUSE_BATCH_DAMAGED, CAUSE_FILE_SHORT, CAUSE_SEGMENT_MISSING, Recovered, salvage_file_of,
    salvage_hole, salvage_segment,
)
from appliance.storage._segment cimport FileRef, Segment, SegmentRef, segment_close, segment_new
from appliance.storage._storage cimport StorageRef, storage_latest_ms
from appliance.storage._swap cimport swap_recover
from appliance.storage._watermark_file cimport Watermarks, watermarks_find

cdef extern from "fcntl.h" nogil:
    int AT_SYMLINK_NOFOLLOW


# ---- without the GIL ----

cdef int log_open(const StorageRef& storage, const string& name, const LogSettings* settings,
                  bint is_trusted, bint is_moved, LogRef* opened,
                  Recovered* recovered) noexcept nogil:
    cdef LogRef log = make_shared[PartitionLog]()
    cdef PartitionLog* it = log.get()
    cdef Checkpoint checkpoint
    cdef FileRef directory
    cdef bint is_new
    cdef int code
    cdef ScopeLock marks
    it.directory = directory_new(storage.get().directory, name)
    # Held until all is done here: below, `it.directory.get().fd` is open.
    code = directory_hold(it.directory.get(), &directory)
    if code != OK:
        return code
    it.name = name
    it.storage = storage
    it.watches.first = NULL
    it.replicated_to.store(INT64_MAX)
    it.replicas.epoch.store(-1)
    it.replicas.leader.store(-1)
    settings_apply(it, settings)
    recovered.was_known = journal_find(&storage.get().journal, name, &checkpoint)
    if not recovered.was_known:
        checkpoint = Checkpoint()
    _promise(it, &checkpoint, is_trusted, recovered)
    code = _load_segments(it, &checkpoint, recovered)
    if code == OK:
        code = _recover(it, &checkpoint, is_trusted, recovered)
    # The new recovery point passes what was scanned. Also after a clean stop, if it had no room for
    # a recovery point.
    is_new = not is_trusted or recovered.scanned_bytes > 0
    if code == OK and is_new:
        code = txn_indexes_store(it)
    if code == OK and is_new:
        # Names that only the page cache knew are about to be relied on.
        code = sync_directory(directory.get().fd)
    if code != OK:
        return code
    _publish(it, &checkpoint, (is_trusted or is_moved) and recovered.losses.empty())
    code = txn_indexes_mend(it, recovered)
    if code != OK:
        return code
    # Ten thousand logs may be opened, and few of them be used.
    directory.reset()
    log_close_idle(it, INT64_MAX)
    opened[0] = log
    # It is in the log now. What is left at the start's end is of logs that could not be opened.
    marks.hold(storage.get().marks.guard)
    storage.get().marks.found.erase(name)
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


cdef int _load_segments(PartitionLog* log, Checkpoint* checkpoint,
                        Recovered* recovered) noexcept nogil:
    """Fills log.segments from the directory, after finishing or undoing what was interrupted."""
    cdef int directory_fd = log.directory.get().fd
    cdef vector[int64_t] bases, txn_bases
    cdef vector[string] rubbish
    cdef size_t i
    cdef int code = OK
    if checkpoint.swap_base >= 0:
        code = swap_recover(directory_fd, checkpoint)
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
        # Below the recovery point compaction may have left an index without a log.
        if (txn_bases[i] >= checkpoint.recovery_offset
                and not binary_search(bases.begin(), bases.end(), txn_bases[i])):
            # Of a segment that was cut off: its aborts would hide what comes at those offsets.
            code = unlink_base(directory_fd, txn_bases[i])
        else:
            code = txn_index_take(log, txn_bases[i], checkpoint, recovered)
        if code < 0:
            return code
    return OK


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
    # A follower's log may have gaps behind the point, as its leader's had (`_gaps.pyx`).
    return log_scan(log, slot, checkpoint.position, checkpoint.recovery_offset,
                    not recovered.was_known or checkpoint.gaps_end > checkpoint.recovery_offset,
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
            aside = salvage_file_of(segment)
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
    cdef int code
    epochs_cut(log, segment.base_offset + 1)
    log.producers.producers.clear()
    log.producers.open_txns.clear()
    code = scan_segment(log, slot, 0, segment.base_offset, True, INT64_MAX, recovered)
    log.aborted = aborted
    log.ended.clear()
    return code


cdef void _publish(PartitionLog* log, Checkpoint* checkpoint, bint is_trusted) noexcept nogil:
    cdef Segment* active = log.segments.back().get()
    cdef int64_t end_offset = active.end_offset.load()
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
    epochs_open(log, checkpoint.leader_epoch, not is_trusted)
    log_capture(log, &log.saved)
    log.saved.log_start_offset = log.log_start_offset.load()
    log.saved.end_limit = INT64_MAX
    log.saved.swap_base = log.saved.swap_end = -1
    log.saved.cleaned_offset = min(checkpoint.cleaned_offset, end_offset)
    # A foreign log may have been compacted anywhere.
    log.saved.gaps_end = min(checkpoint.gaps_end, end_offset)
    log.gaps_end.store(log.saved.gaps_end)
    log_put_locked(log)


# Closing

cdef void log_close(PartitionLog* log) noexcept nogil:
    cdef vector[SegmentRef] segments
    cdef size_t i
    log.guard.lock()
    log.is_closed.store(True)
    log.guard.unlock()
    segments = log_segments(log)
    # Not when the last who knows the log forgets it: that may be a client that is silent for hours,
    # and a deleted file keeps its descriptor and its blocks until it is closed.
    for i in range(segments.size()):
        segment_close(segments[i].get())
    directory_leave(log.directory.get())

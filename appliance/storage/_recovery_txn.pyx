"""Recovery of transaction indexes. They decide which records readers of committed records see, and
have no checksum: an impossible index is restored from its segment.
"""

from libc.stdint cimport INT64_MAX, int64_t, uint8_t
from libcpp.vector cimport vector

from appliance.native._codes cimport BATCH_CORRUPT, OK, STORAGE_FULL
from appliance.record._batch cimport BatchHeader
from appliance.storage._checkpoint_journal cimport Checkpoint
from appliance.storage._free_space cimport space_release_reserve
from appliance.storage._index cimport txn_index_load
from appliance.storage._index_files cimport log_store_aborted
from appliance.storage._partition_log cimport PartitionLog
from appliance.storage._read cimport log_note_fault
from appliance.storage._recovery_scan cimport scan_batch, scan_past_hole
from appliance.storage._salvage cimport CAUSE_TXN_INDEX, Loss, Recovered, salvage_file_of
from appliance.storage._segment cimport FileRef, Segment, segment_file
from appliance.storage._segment_find cimport segment_past_damage
from appliance.storage._txn_index_check cimport (
    TRAIL_FITS, TRAIL_UNSURE, TrailVerdict, TxnTrail, trail_lose, trail_mend, trail_note,
    trail_start,
)


# ---- without the GIL ----

cdef int txn_index_take(PartitionLog* log, int64_t base, const Checkpoint* checkpoint,
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


cdef int txn_indexes_store(PartitionLog* log) noexcept nogil:
    cdef size_t i
    cdef int code = OK
    for i in range(log.segments.size()):
        if code == OK and log.segments[i].get().txn_is_dirty.load():
            code = _store(log, log.segments[i].get())
    return code


cdef int _store(PartitionLog* log, Segment* segment) noexcept nogil:
    cdef int code = log_store_aborted(log, segment)
    if code == STORAGE_FULL and space_release_reserve(log.storage.get()):
        code = log_store_aborted(log, segment)
    return code


cdef int txn_indexes_mend(PartitionLog* log, Recovered* recovered) noexcept nogil:
    cdef Segment* segment
    cdef TrailVerdict verdict
    cdef int64_t end
    cdef size_t i, j
    cdef int code = OK
    for i in range(recovered.doubted.size()):
        for j in range(log.segments.size()):
            segment = log.segments[j].get()
            if segment.base_offset != recovered.doubted[i] or code != OK:
                continue
            verdict = _mend(log, segment, &end, recovered)
            if end < segment.end_offset.load():
                # Told by health, and by the scrub what it is, which knows the aborts behind it too.
                log_note_fault(log, segment.base_offset, end, BATCH_CORRUPT)
            if verdict == TRAIL_UNSURE:
                _note_unsure(segment, recovered)
            recovered.txn_indexes += verdict != TRAIL_FITS
            code = _store(log, segment)
    return code


cdef TrailVerdict _mend(PartitionLog* log, Segment* segment, int64_t* end,
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
            position, at, end[0] = past, 0, scan_past_hole(log, end[0])
            window.clear()
            trail_lose(&trail)
            continue
        if scan_batch(file.get().fd, position, segment.size.load(), &window, &at, &header) != 0:
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
    loss.aside = salvage_file_of(segment)
    recovered.losses.push_back(loss)

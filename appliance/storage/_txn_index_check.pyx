"""Compares a transaction index with the log. The log decides:

abort marker                              its entry
----------------------------------------  ---------------------------------------------------------
of a transaction with data before it      must be there, and begin with the first data
of one whose data compaction took         may be there; begins no later than what is left of it
of one without data                       must not be there: it would hide what is committed
where an earlier segment may have data    as the last but one
no marker                                 must not be there, but where the marker is in a hole

What was open where the segment begins is known from the snapshot of producers, which has a
checksum, and at offset 0. Without it an entry that may be right is left as it is.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.vector cimport vector

from cython.operator cimport dereference

from appliance.record._batch cimport (
    ATTRIBUTE_CONTROL, CONTROL_ABORT, BatchHeader, batch_control_type,
)
from appliance.storage._holes cimport holes_cover
from appliance.storage._index cimport AbortedTxn
from appliance.storage._index_files cimport log_aborted_in
from appliance.storage._partition_log cimport PartitionLog
from appliance.storage._producers cimport (
    producers_first_open, producers_load_snapshot, producers_note, producers_note_marker,
)


# ---- without the GIL ----

cdef void trail_start(TxnTrail* trail, int directory_fd, int64_t base_offset) noexcept nogil:
    trail_lose(trail)
    trail.marks.clear()
    trail.is_whole = base_offset == 0 or producers_load_snapshot(
        &trail.table, directory_fd, base_offset, 0)


cdef void trail_lose(TxnTrail* trail) noexcept nogil:
    trail.table.producers.clear()
    trail.table.open_txns.clear()
    trail.ended.clear()
    trail.is_whole = False


cdef void trail_note(TxnTrail* trail, const uint8_t* data,
                     const BatchHeader* header) noexcept nogil:
    cdef AbortMark mark
    cdef int32_t coordinator_epoch = 0
    cdef int kind
    if not header.attributes & ATTRIBUTE_CONTROL:
        producers_note(&trail.table, header, 0)
        return
    if header.producer_id < 0 or header.records_count == 0:
        return
    kind = batch_control_type(data, header, &coordinator_epoch)
    producers_note_marker(&trail.table, header, kind, coordinator_epoch, 0, &mark.txn)
    mark.txn.last_stable_offset = min(producers_first_open(&trail.table), mark.txn.last_offset + 1)
    mark.is_whole = trail.is_whole
    mark.after = -1
    it = trail.ended.find(header.producer_id)
    if it != trail.ended.end():
        mark.after = dereference(it).second
    trail.ended[header.producer_id] = mark.txn.last_offset
    if kind == CONTROL_ABORT:
        trail.marks.push_back(mark)


cdef TrailVerdict trail_mend(PartitionLog* log, const TxnTrail* trail, int64_t base,
                           int64_t end) noexcept nogil:
    cdef vector[AbortedTxn] right
    cdef TrailVerdict verdict = TRAIL_FITS
    cdef int64_t start = max(base, log.log_start_offset.load())
    cdef bint has_gaps = base < log.gaps_end.load()
    cdef vector[AbortedTxn] entries = log_aborted_in(log, start, end)
    cdef size_t i, at = 0
    for i in range(trail.marks.size()):
        if not start <= trail.marks[i].txn.last_offset < end:
            continue
        while at < entries.size() and entries[at].last_offset < trail.marks[i].txn.last_offset:
            verdict = max(verdict, _keep_unseen(log, &entries[at], &right))
            at += 1
        if at < entries.size() and entries[at].last_offset == trail.marks[i].txn.last_offset:
            verdict = max(verdict, _judge(log, &trail.marks[i], &entries[at], has_gaps, &right))
            at += 1
        else:
            verdict = max(verdict, _judge(log, &trail.marks[i], NULL, has_gaps, &right))
    while at < entries.size():
        verdict = max(verdict, _keep_unseen(log, &entries[at], &right))
        at += 1
    if verdict != TRAIL_FITS:
        _put_right(log, start, end, &right)
    return verdict


cdef TrailVerdict _keep_unseen(PartitionLog* log, const AbortedTxn* entry,
                             vector[AbortedTxn]* right) noexcept nogil:
    """An entry for which no marker was met."""
    if not holes_cover(log, entry.last_offset, entry.last_offset + 1):
        return TRAIL_MENDED
    right.push_back(entry[0])
    return TRAIL_FITS


cdef TrailVerdict _judge(PartitionLog* log, const AbortMark* mark, const AbortedTxn* entry,
                       bint has_gaps, vector[AbortedTxn]* right) noexcept nogil:
    cdef bint has_data = mark.txn.first_offset >= 0
    if entry != NULL and _fits(mark, entry, has_gaps):
        right.push_back(entry[0])
        return TRAIL_FITS
    if has_data:
        right.push_back(mark.txn)
        if not mark.is_whole:
            # Nothing that can be read begins below it: no search for aborts ends too soon.
            right.back().last_stable_offset = min(right.back().last_stable_offset,
                                                  log.log_start_offset.load())
    elif entry == NULL:
        return TRAIL_FITS
    return TRAIL_MENDED if mark.is_whole else TRAIL_UNSURE


cdef bint _fits(const AbortMark* mark, const AbortedTxn* entry, bint has_gaps) noexcept nogil:
    cdef int64_t most = mark.txn.first_offset
    if entry.producer_id != mark.txn.producer_id:
        return False
    if mark.is_whole and not has_gaps:
        return (entry.first_offset == mark.txn.first_offset
                and entry.last_stable_offset == mark.txn.last_stable_offset)
    if most < 0:
        most = mark.txn.last_offset - 1
    return (mark.after < entry.first_offset <= most
            and entry.last_stable_offset <= mark.txn.last_stable_offset)


cdef void _put_right(PartitionLog* log, int64_t start, int64_t end,
                     const vector[AbortedTxn]* right) noexcept nogil:
    cdef vector[AbortedTxn] all
    cdef size_t i, at
    log.list_guard.lock()
    for i in range(log.aborted.size()):
        if log.aborted[i].last_offset < start:
            all.push_back(log.aborted[i])
    for at in range(right.size()):
        all.push_back(right.at(at))
    for i in range(log.aborted.size()):
        if log.aborted[i].last_offset >= end:
            all.push_back(log.aborted[i])
    log.aborted.swap(all)
    log.list_guard.unlock()

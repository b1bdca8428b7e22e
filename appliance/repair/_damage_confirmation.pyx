"""Settles the flaws of a scan: confirms damage by a second check, and rebuilds wrong indexes."""

from libc.stdint cimport INT64_MAX, int64_t
from libcpp.vector cimport vector

from appliance.native._codes cimport LOG_CLOSED, OFFSET_OUT_OF_RANGE, OK
from appliance.native._descriptors cimport FileRef
from appliance.native._native cimport ScopeLock
from appliance.record._batch cimport BatchHeader
from appliance.repair._index_check cimport dropped_size
from appliance.repair._scan cimport (
    BAD_OFFSET, GOOD, NO_FILE, NO_OFFSETS, NOT_AGAIN, UNSURE_TXN_INDEX, WRONG_INDEX,
    WRONG_TXN_INDEX, Flaw, scan_look, scan_tell,
)
from appliance.repair._unlinked_file_restore cimport file_settle
from appliance.storage._holes cimport holes_add, holes_cover
from appliance.storage._index cimport AbortedTxn, txn_index_load
from appliance.storage._index_files cimport log_aborted_in, log_store_aborted
from appliance.storage._partition_log cimport PartitionLog
from appliance.storage._segment cimport Segment, segment_file, segment_store_index
from appliance.storage._segment_find cimport segment_rebuild_index
from appliance.storage._txn_index_check cimport TRAIL_FITS, TRAIL_UNSURE, TrailVerdict, trail_mend
from appliance.storage._uncached_reader cimport disk_forget


# ---- without the GIL ----

cdef int scan_settle(Scan* scan) noexcept nogil:
    cdef size_t i
    cdef int code = OK
    cdef ScopeLock lock
    lock.hold(scan.log.get().maintenance)  # no segment is added or removed meanwhile
    if scan.is_moot or not _is_listed(scan):
        scan.is_moot = True
        scan.flaws.clear()
        return OK
    for i in range(scan.flaws.size()):
        if code == OK:
            code = _settle_flaw(scan, scan.flaws[i])
    if code == OK and scan.disk.file.get() != NULL:
        code = file_settle(scan)
    if code == OK and scan.index.is_wrong:
        code = segment_rebuild_index(scan.segment.get(), scan.index.interval)
        if code == OK:
            code = segment_store_index(scan.segment.get(), True)
        scan_tell(scan, WRONG_INDEX)
    # After new damage the next round checks the rest: entries of lost offsets are kept until then.
    if code == OK and scan.flaws.empty():
        code = _settle_aborted(scan)
    return code


cdef bint _is_listed(Scan* scan) noexcept nogil:
    cdef PartitionLog* log = scan.log.get()
    cdef size_t i
    cdef ScopeLock lock
    lock.hold(log.list_guard)
    for i in range(log.segments.size()):
        if log.segments[i].get() == scan.segment.get():
            return not log.is_closed.load()
    return False


cdef int _settle_flaw(Scan* scan, Flaw flaw) noexcept nogil:
    cdef PartitionLog* log = scan.log.get()
    cdef BatchHeader header
    cdef FileRef file
    cdef int code
    if flaw.why == NO_FILE:
        if segment_file(scan.segment.get(), &file) != OFFSET_OUT_OF_RANGE:
            flaw.why = NOT_AGAIN
    elif flaw.why != NO_OFFSETS and flaw.hole.position >= 0:
        disk_forget(&scan.disk)
        code = scan_look(scan, flaw.hole.position, flaw.hole.first_offset, &header)
        if code < 0:
            return code
        # Of two contradicting batches the first one is good by itself, also at the second check.
        if code == GOOD and (
            flaw.why != BAD_OFFSET
            or flaw.hole.position + header.size >= flaw.hole.end_position
        ):
            flaw.why = NOT_AGAIN
    if holes_cover(log, flaw.hole.first_offset, flaw.hole.end_offset):
        return OK  # another scan settled it first
    if flaw.why != NOT_AGAIN and flaw.why != NO_OFFSETS:
        scan.holes.push_back(flaw.hole)
        scan.was_refused = scan.was_refused or flaw.is_refused
    # Offsets below the log start have no readers and need no report.
    if flaw.hole.end_offset > log.log_start_offset.load():
        flaw.hole.first_offset = max(flaw.hole.first_offset, log.log_start_offset.load())
        scan.settled.push_back(flaw)
    return OK


cdef int scan_mark(Scan* scan) noexcept nogil:
    cdef size_t i
    cdef int code = OK
    cdef ScopeLock lock
    lock.hold(scan.log.get().maintenance)
    for i in range(scan.holes.size()):
        if code == OK and _is_listed(scan):
            code = holes_add(scan.log.get(), &scan.holes[i])
    scan.holes.clear()
    return OK if code == LOG_CLOSED else code


cdef int _settle_aborted(Scan* scan) noexcept nogil:
    """Checks the transaction index in memory, and the file that the next start loads."""
    cdef PartitionLog* log = scan.log.get()
    cdef Segment* segment = scan.segment.get()
    cdef TrailVerdict verdict = trail_mend(log, &scan.trail, segment.base_offset, scan.end_offset)
    cdef bint is_stored = True
    cdef int code = OK
    if verdict == TRAIL_FITS and not scan.is_active:
        code = _aborted_are_stored(scan, &is_stored)
    if code != OK or (verdict == TRAIL_FITS and is_stored):
        return code
    scan_tell(scan, UNSURE_TXN_INDEX if verdict == TRAIL_UNSURE else WRONG_TXN_INDEX)
    return log_store_aborted(log, segment)


cdef int _aborted_are_stored(Scan* scan, bint* is_stored) noexcept nogil:
    cdef PartitionLog* log = scan.log.get()
    cdef Segment* segment = scan.segment.get()
    cdef vector[AbortedTxn] stored, wanted
    cdef int64_t start = max(segment.base_offset, log.log_start_offset.load())
    cdef size_t i
    cdef int64_t size = dropped_size(segment, b".txnindex")
    cdef int code = txn_index_load(segment.directory.get().fd, segment.base_offset, INT64_MAX,
                                   &stored)
    if code < 0 or segment.txn_is_dirty.load():
        return min(code, OK)
    wanted = log_aborted_in(log, start, segment.end_offset.load())
    # Memory keeps no entries below the log start, the file keeps them.
    while not stored.empty() and stored.front().last_offset < start:
        stored.erase(stored.begin())
    is_stored[0] = stored.size() == wanted.size() and (code == OK or size < 0)
    for i in range(wanted.size()):
        is_stored[0] = is_stored[0] and (
            stored[i].producer_id == wanted[i].producer_id
            and stored[i].first_offset == wanted[i].first_offset
            and stored[i].last_offset == wanted[i].last_offset
            and stored[i].last_stable_offset == wanted[i].last_stable_offset
        )
    return OK

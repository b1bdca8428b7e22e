"""The swap that ends a compaction: one new segment takes the names of the segments it replaces.

    1 rename to `.swap`, sync the directory      2 journal the swap (commit point)
    3 rename over the first, unlink the others   4 journal: no swap
Until 2 is on disk recovery removes the `.swap` file. From then on it finishes what is left.
"""

from libc.stdint cimport int64_t
from libcpp.string cimport string
from libcpp.vector cimport vector

from appliance.native._codes cimport LOG_CLOSED, OFFSET_OUT_OF_RANGE, OK
from appliance.native._descriptors cimport directory_hold
from appliance.native._files cimport NAME_SIZE, failure_note, file_name, sync_directory
from appliance.native._native cimport ENOENT, ScopeLock, errno, mutant, renameat, unlinkat
from appliance.storage._checkpoint cimport log_list_segments, log_save_locked
from appliance.storage._checkpoint_journal cimport Checkpoint, Hole, journal_put
from appliance.storage._holes cimport holes_forget_bytes
from appliance.storage._index_files cimport log_store_aborted_in
from appliance.storage._last_stable_offset cimport log_high_watermark
from appliance.storage._partition_dir cimport list_directory, unlink_base
from appliance.storage._partition_log cimport PartitionLog
from appliance.storage._retention cimport log_recovery_base
from appliance.storage._segment cimport (
    FileRef, SegmentRef, segment_pin, segment_store_index, segment_unlink,
)
from appliance.storage._storage cimport storage_commit


# ---- without the GIL ----

cdef void log_sealed(PartitionLog* log, vector[SegmentRef]* into) noexcept nogil:
    cdef int64_t before = min(log_recovery_base(log), log_high_watermark(log))
    cdef size_t i
    cdef ScopeLock list_guard
    list_guard.hold(log.list_guard)
    for i in range(log.segments.size()):
        if i + 1 < log.segments.size() and log.segments[i].get().end_offset.load() <= before:
            into.push_back(log.segments[i])


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
        # Also when none is left: an entry without its marker would hide what the producer wrote
        # later.
        code = log_store_aborted_in(log, directory_fd, base, end)
        if code == OK:
            code = sync_directory(directory_fd)
        if code != OK:
            return code
    code = _decide_swap(log, group, cleaned, leaves_gaps, holes)
    if code != OK:
        return code
    # From here on the swap has happened; only finishing it is left, here or in recovery.
    code = _take_name(directory_fd, base, False)
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
    cdef ScopeLock saved
    saved.hold(log.saved_guard)
    if log.is_closed.load():
        return LOG_CLOSED
    log.saved.swap_base, log.saved.swap_end = base, end
    if leaves_gaps:
        log.saved.gaps_end = max(log.saved.gaps_end, end)
    log.gaps_end.store(log.saved.gaps_end)
    if not mutant(b"swap_without_journal"):
        if holes == NULL:
            code = log_save_locked(log)
        else:
            log_list_segments(log, &log.saved)
            log.saved.holes = holes[0]
            journal_put(&log.storage.get().journal, log.name, &log.saved)
            code = storage_commit(log.storage.get())
    _put_in_list(log, group, cleaned, holes)
    return code


cdef int _end_swap(PartitionLog* log, int64_t base, int64_t end) noexcept nogil:
    cdef int code
    cdef ScopeLock saved
    saved.hold(log.saved_guard)
    log.saved.swap_base = log.saved.swap_end = -1
    code = log_save_locked(log)
    if code != OK:
        # The disk still says that it is to be finished: no other swap may begin in this life.
        log.saved.swap_base, log.saved.swap_end = base, end
    return code


cdef bint log_has_unfinished_swap(PartitionLog* log) noexcept nogil:
    cdef ScopeLock saved
    saved.hold(log.saved_guard)
    return log.saved.swap_base >= 0


cdef void _put_in_list(PartitionLog* log, const vector[SegmentRef]& group,
                       const SegmentRef& cleaned, const vector[Hole]* holes) noexcept nogil:
    cdef vector[SegmentRef] kept
    cdef int64_t first = group.front().get().base_offset, last = group.back().get().base_offset
    cdef int64_t base
    cdef size_t i
    cdef ScopeLock guard, list_guard
    guard.hold(log.guard)
    list_guard.hold(log.list_guard)
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


cdef int log_save_cleaned(PartitionLog* log, int64_t cleaned_offset) noexcept nogil:
    cdef ScopeLock saved
    saved.hold(log.saved_guard)
    log.saved.cleaned_offset = cleaned_offset
    return log_save_locked(log)


# The end of a swap, in the life that decided it or in the next one

cdef int _take_name(int directory_fd, int64_t base, bint may_be_done) noexcept nogil:
    cdef char[NAME_SIZE] name
    cdef char[NAME_SIZE] swap
    # The old index files describe the old bytes: they go before the new bytes take the name.
    file_name(name, base, b".index")
    unlinkat(directory_fd, name, 0)
    file_name(name, base, b".timeindex")
    unlinkat(directory_fd, name, 0)
    file_name(name, base, b".log")
    file_name(swap, base, b".log.swap")
    if (renameat(directory_fd, swap, directory_fd, name) < 0
            and not (may_be_done and errno == ENOENT)):
        return failure_note(b"rename", swap, errno)
    return OK


cdef int swap_recover(int directory_fd, Checkpoint* checkpoint) noexcept nogil:
    cdef int64_t base = checkpoint.swap_base, end = checkpoint.swap_end
    cdef vector[int64_t] bases, txn_bases
    cdef vector[string] rubbish
    cdef size_t i, kept = 0
    cdef int code = _take_name(directory_fd, base, True)
    if code == OK:
        code = list_directory(directory_fd, &bases, &txn_bases, &rubbish)
    # Also where only an index is left: its aborted transactions are in the first one's by now.
    bases.insert(bases.end(), txn_bases.begin(), txn_bases.end())
    for i in range(bases.size()):
        if code == OK and base < bases[i] < end:
            code = unlink_base(directory_fd, bases[i])
    if code == OK:
        code = sync_directory(directory_fd)
    for i in range(checkpoint.bases.size()):
        if not base < checkpoint.bases[i] < end:
            checkpoint.bases[kept] = checkpoint.bases[i]
            kept += 1
    checkpoint.bases.resize(kept)
    holes_forget_bytes(&checkpoint.holes, base, end)
    checkpoint.swap_base = checkpoint.swap_end = -1
    return code

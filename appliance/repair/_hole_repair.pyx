"""Repair of one open log: lets readers skip holes, and restores batches into a hole.

A restore is a compaction's swap (`_swap.pyx`) with additional batches: it writes the segments
around the hole and the batches into a new file, syncs the file, and then

    1 writes the journal: the swap is decided, and the hole is smaller   (commit point)
    2 renames the new file, and unlinks the files that it replaces

After a crash before 1 the hole and the old files remain; recovery finishes a swap after 1. Every
batch is checked again while it is copied; a damaged one ends the repair before any change.

A transaction's batch is restored only if the end of the transaction is known: from a marker after
the batch, and for an aborted transaction also from its entry in the transaction index. Otherwise
aborted records could become visible to readers of committed records.
"""

from collections import namedtuple
from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.memory cimport make_shared, shared_ptr
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from cython.operator cimport dereference

from appliance._log cimport Log
from appliance.native._codes cimport (
    BATCH_CORRUPT, BATCH_LARGER_THAN_SEGMENT, LOG_CLOSED, LOG_FAILED, OFFSET_IN_HOLE,
    OFFSET_OUT_OF_RANGE, OK, STORAGE_IO, TXN_STATE_INVALID,
)
from appliance.native._descriptors cimport FileRef, directory_hold
from appliance.native._files cimport read_whole
from appliance.native._native cimport ScopeLock
from appliance.record._batch cimport (
    ATTRIBUTE_CONTROL, ATTRIBUTE_TRANSACTIONAL, BATCH_HEADER_SIZE, CONTROL_ABORT, BatchHeader,
    batch_check_crc, batch_check_header, batch_control_type, batch_load_header,
)
from appliance.repair._unlinked_file_restore cimport file_keep_aside
from appliance.storage._checkpoint_journal cimport Hole
from appliance.storage._holes cimport holes_cover, holes_fill, holes_skip
from appliance.storage._partition_log cimport LogRef, PartitionLog
from appliance.storage._segment cimport SEGMENT_SIZE_MAX, SegmentRef
from appliance.storage._swap cimport log_has_unfinished_swap, log_sealed, log_swap
from appliance.storage.compaction._replacement cimport (
    Replacement, replacement_begin, replacement_drop, replacement_finish, replacement_put,
    replacement_start,
)
from appliance.storage.compaction._segment_reader cimport (
    SegmentReader, reader_batch, reader_next, reader_open,
)

from appliance.errors import from_code

HoleInfo = namedtuple("HoleInfo", "first_offset end_offset position end_position is_skipped")

cdef struct Span:
    int64_t position               # of the batch in the source file
    int64_t size
    int64_t base_offset            # at the time of the plan
    int64_t end_offset

cdef cppclass Filling:
    LogRef log
    int source_fd
    vector[Span] spans             # by offset
    int64_t first_offset           # of all restored batches
    int64_t end_offset
    vector[SegmentRef] group
    SegmentReader reader
    Replacement into
    size_t at                      # index of the next span
    int64_t next_offset            # the next batch begins there or later
    unordered_map[int64_t, int64_t] open_txns    # of restored batches: first offset by producer
    bint is_dry


# ---- without the GIL ----

cdef int _fill(Filling* filling) except? -1 nogil:
    """The caller holds `maintenance`."""
    cdef PartitionLog* log = filling.log.get()
    cdef size_t i
    cdef int code
    if log.failed.load() != OK or log.is_closed.load():
        return LOG_FAILED if log.failed.load() != OK else LOG_CLOSED
    code = _take_spans(filling)
    if code == OK:
        code = _find_group(filling)
    if code != OK:
        return code
    filling.into.storage, filling.into.directory = log.storage, log.directory
    filling.into.may_fill = False
    filling.next_offset = filling.group.front().get().base_offset
    replacement_start(&filling.into, filling.next_offset)
    if not filling.is_dry:
        code = replacement_begin(&filling.into, -1)
    for i in range(filling.group.size()):
        if code == OK:
            code = _copy_segment(filling, filling.group[i])
    if code == OK:
        code = _put_back(filling, filling.end_offset)
    if code == OK and not filling.open_txns.empty():
        code = TXN_STATE_INVALID
    filling.reader.segment.reset()
    filling.reader.file.reset()
    if code != OK or filling.is_dry:
        replacement_drop(&filling.into, False)
        return code
    return _finish(filling)


cdef int _take_spans(Filling* filling) noexcept nogil:
    """Sets the range of the spans. Each span lies in a hole."""
    cdef BatchHeader header
    cdef size_t i
    cdef int code
    filling.first_offset = filling.end_offset = -1
    for i in range(filling.spans.size()):
        code = _span_header(filling, i, &header)
        if code != OK:
            return code
        if header.base_offset < filling.end_offset:
            return BATCH_CORRUPT
        filling.end_offset = header.base_offset + header.last_offset_delta + 1
        filling.spans[i].base_offset = header.base_offset
        filling.spans[i].end_offset = filling.end_offset
        if filling.first_offset < 0:
            filling.first_offset = header.base_offset
        if not holes_cover(filling.log.get(), header.base_offset, filling.end_offset):
            return OFFSET_IN_HOLE
    return OK if filling.first_offset >= 0 else OFFSET_IN_HOLE


cdef int _span_header(Filling* filling, size_t i, BatchHeader* header) noexcept nogil:
    cdef uint8_t[BATCH_HEADER_SIZE] head
    cdef int64_t position = filling.spans[i].position
    if read_whole(filling.source_fd, head, BATCH_HEADER_SIZE, position) != BATCH_HEADER_SIZE:
        return BATCH_CORRUPT
    batch_load_header(head, header)
    return batch_check_header(header, filling.spans[i].size)


cdef int _find_group(Filling* filling) noexcept nogil:
    """Selects the segments for the offsets; only segments that recovery will not read again."""
    cdef PartitionLog* log = filling.log.get()
    cdef vector[SegmentRef] sealed
    cdef size_t i
    log_sealed(log, &sealed)
    for i in range(sealed.size()):
        if (sealed[i].get().base_offset < filling.end_offset
                and sealed[i].get().end_offset.load() > filling.first_offset):
            filling.group.push_back(sealed[i])
    if (filling.group.empty() or filling.group.front().get().base_offset > filling.first_offset
            or filling.group.back().get().end_offset.load() < filling.end_offset):
        return OFFSET_OUT_OF_RANGE
    if (filling.group.back().get().end_offset.load() - filling.group.front().get().base_offset
            > SEGMENT_SIZE_MAX):
        return BATCH_LARGER_THAN_SEGMENT
    log.guard.lock()
    filling.into.index_interval = log.settings.index_interval_bytes
    log.guard.unlock()
    return OK


cdef int _copy_segment(Filling* filling, const SegmentRef& segment) except? -1 nogil:
    cdef SegmentReader* reader = &filling.reader
    cdef int code = reader_open(reader, segment)
    if code == OFFSET_OUT_OF_RANGE:
        return OK  # the file is gone, which caused the hole
    if code == OK:
        code = reader_next(reader)
    while code == 1:
        code = _put_back(filling, reader.header.base_offset)
        if code == OK:
            code = _put(filling, reader_batch(reader), &reader.header, False)
        if code == OK:
            code = reader_next(reader)
    return code


cdef int _put_back(Filling* filling, int64_t before) except? -1 nogil:
    """Copies the batches of the source file below the offset."""
    cdef vector[uint8_t] data
    cdef BatchHeader header
    cdef Span span
    cdef int code = OK
    while code == OK and filling.at < filling.spans.size():
        span = filling.spans[filling.at]
        data.resize(span.size)
        if read_whole(filling.source_fd, data.data(), span.size, span.position) != span.size:
            return BATCH_CORRUPT
        if span.size < BATCH_HEADER_SIZE:
            return BATCH_CORRUPT
        batch_load_header(data.data(), &header)
        if header.base_offset >= before:
            break
        code = batch_check_header(&header, span.size)
        if code == OK and (header.size != span.size or header.base_offset != span.base_offset
                           or header.last_offset_delta + 1 != span.end_offset - span.base_offset):
            code = BATCH_CORRUPT
        if code == OK:
            code = batch_check_crc(data.data(), &header)
        if code == OK:
            code = _put(filling, data.data(), &header, True)
        filling.at += 1
    return code


cdef int _put(Filling* filling, const uint8_t* data, const BatchHeader* header,
              bint is_put_back) except? -1 nogil:
    cdef int32_t coordinator_epoch
    if header.base_offset < filling.next_offset:
        return BATCH_CORRUPT
    filling.next_offset = header.base_offset + header.last_offset_delta + 1
    if header.attributes & ATTRIBUTE_CONTROL:
        it = filling.open_txns.find(header.producer_id)
        if it != filling.open_txns.end():
            if batch_control_type(data, header, &coordinator_epoch) == CONTROL_ABORT:
                if not _abort_is_known(filling, header, dereference(it).second):
                    return TXN_STATE_INVALID
            filling.open_txns.erase(it)
    elif is_put_back and header.attributes & ATTRIBUTE_TRANSACTIONAL:
        if filling.open_txns.count(header.producer_id) == 0:
            filling.open_txns[header.producer_id] = header.base_offset
    return replacement_put(&filling.into, data, header)


cdef bint _abort_is_known(Filling* filling, const BatchHeader* marker,
                          int64_t first_offset) noexcept nogil:
    cdef PartitionLog* log = filling.log.get()
    cdef size_t i
    cdef ScopeLock lock
    lock.hold(log.list_guard)
    for i in range(log.aborted.size()):
        if (log.aborted[i].producer_id == marker.producer_id
                and log.aborted[i].last_offset == marker.base_offset
                and log.aborted[i].first_offset <= first_offset):
            return True
    return False


cdef int _finish(Filling* filling) noexcept nogil:
    cdef PartitionLog* log = filling.log.get()
    cdef vector[Hole] after
    cdef size_t i
    cdef int code = replacement_finish(&filling.into)
    if code == OK:
        code = _keep_damaged(filling)
    if code != OK:
        replacement_drop(&filling.into, False)
        replacement_drop(&filling.into, True)
        return code
    log.list_guard.lock()
    after = log.holes
    log.list_guard.unlock()
    for i in range(filling.spans.size()):
        holes_fill(&after, filling.spans[i].base_offset, filling.spans[i].end_offset)
    code = log_swap(log, filling.group, filling.into.segment, False, &after)
    # The journal may name the file from here on, so recovery must see it.
    if code != OK and not log_has_unfinished_swap(log):
        replacement_drop(&filling.into, True)
    return code


cdef int _keep_damaged(Filling* filling) noexcept nogil:
    """Keeps segments with damaged bytes beside the new one, for manual recovery."""
    cdef FileRef directory
    cdef int code = directory_hold(filling.log.get().directory.get(), &directory)
    cdef size_t i
    for i in range(filling.group.size()):
        if code == OK and filling.group[i].get().is_damaged.load():
            code = file_keep_aside(directory.get().fd, filling.group[i].get().base_offset)
    return code


# ---- with the GIL ----

cdef _infos(const vector[Hole]& holes):
    return [
        HoleInfo(holes[i].first_offset, holes[i].end_offset, holes[i].position,
                 holes[i].end_position, bool(holes[i].is_skipped))
        for i in range(holes.size())
    ]


def holes(Log log not None):
    """The holes of the log, by offset."""
    cdef vector[Hole] holes
    with nogil:
        log.log.get().list_guard.lock()
        holes = log.log.get().holes
        log.log.get().list_guard.unlock()
    return sorted(_infos(holes))


def skip(Log log not None, int64_t first_offset, int64_t end_offset):
    """Lets readers skip the holes that touch the range. Durable when this returns, with the holes
    that changed."""
    cdef vector[Hole] passed
    cdef int code
    with nogil:
        code = holes_skip(log.log.get(), first_offset, end_offset, &passed)
    if code != OK:
        raise from_code(code, f"{log.name}: offsets {first_offset} to {end_offset - 1} cannot be "
                              "passed")
    return sorted(_infos(passed))


def fill(Log log not None, int source_fd, list batches not None, *, bint dry_run=False):
    """Restores whole batches into holes: (position, size) of each in the file, by offset. A dry run
    is refused for the same reasons."""
    cdef shared_ptr[Filling] owner = make_shared[Filling]()
    cdef Filling* filling = owner.get()
    cdef Span span
    cdef int code
    cdef ScopeLock lock
    filling.log = log.log
    filling.source_fd = source_fd
    filling.is_dry = dry_run
    for position, size in batches:
        span.position, span.size = position, size
        filling.spans.push_back(span)
    with nogil:
        lock.hold(log.log.get().maintenance)
    if log_has_unfinished_swap(log.log.get()):
        raise from_code(STORAGE_IO, f"{log.name}: its files were being replaced when the disk "
                                    "failed: open the partition again first")
    with nogil:
        code = _fill(filling)
    lock.release()
    if code != OK:
        raise from_code(code, f"{log.name}: offsets {filling.first_offset} to "
                              f"{filling.end_offset - 1} cannot be put back{_WHY.get(code, '')}")


_WHY = {
    TXN_STATE_INVALID: ": the end of their transaction is unknown; bring "
                       "them into another topic",
    OFFSET_IN_HOLE: ": some of them exist in the log",
    OFFSET_OUT_OF_RANGE: ": they are below the log start; bring them into another topic",
    BATCH_LARGER_THAN_SEGMENT: ": the segment would be too large; bring them into another topic",
}

"""Verifies one segment of an open log, batch after batch, and continues after damage.

The next batch after damage is the good batch at the end by the damaged header, if there is one.
Otherwise it is the first good batch that the search accepts (`_next_good_batch.pyx`).
"""

from libc.stdint cimport int64_t

from appliance.native._codes cimport BATCH_CORRUPT, BATCH_TORN, OFFSET_OUT_OF_RANGE, OK
from appliance.native._descriptors cimport directory_hold
from appliance.native._native cimport ScopeLock
from appliance.record._batch cimport (
    ATTRIBUTE_CONTROL, BATCH_HEADER_SIZE, batch_check_header, batch_load_header,
)
from appliance.repair._index_check cimport (
    index_check_end, index_check_load, index_check_pass, index_check_take,
)
from appliance.storage._checkpoint_journal cimport hole_new
from appliance.storage._holes cimport holes_cover
from appliance.storage._leader_epochs cimport epochs_fit
from appliance.storage._next_good_batch cimport (
    SEARCH_MORE, SEARCH_SIZE_MAX, search_crc, search_good, search_next, search_start,
)
from appliance.storage._partition_log cimport PartitionLog
from appliance.storage._segment cimport Segment, segment_file
from appliance.storage._segment_find cimport segment_past_damage
from appliance.storage._txn_index_check cimport trail_lose, trail_note, trail_start
from appliance.storage._uncached_reader cimport disk_at, disk_have, disk_open

cdef enum:
    MARKER_SIZE_MAX = 4096


# ---- without the GIL ----

cdef int scan_start(Scan* scan, int64_t base_offset) noexcept nogil:
    cdef PartitionLog* log = scan.log.get()
    cdef size_t i
    cdef ScopeLock lock
    scan.is_moot = True
    lock.hold(log.guard)
    for i in range(log.segments.size()):
        if log.segments[i].get().base_offset == base_offset:
            scan.segment = log.segments[i]
            scan.is_moot = False
            scan.is_active = i + 1 == log.segments.size()
    if not scan.is_moot:
        _bound(scan)
    lock.release()
    return OK if scan.is_moot else _open(scan)


cdef void _bound(Scan* scan) noexcept nogil:
    cdef PartitionLog* log = scan.log.get()
    cdef Segment* segment = scan.segment.get()
    cdef int64_t durable = log.durable_offset.load()
    scan.epochs = log.epochs
    scan.index.interval = log.settings.index_interval_bytes
    scan.index.base_offset = segment.base_offset
    scan.index.largest_timestamp = -1
    scan.position, scan.next_offset = 0, segment.base_offset
    scan.last_position = scan.last_next = -1
    scan.gaps_end = log.gaps_end.load()
    scan.end = min(segment.size.load(), segment.synced_size)
    scan.end_offset = durable if scan.is_active else segment.end_offset.load()
    # Not durable yet, or of a failed log: readers do not see these bytes, or they are not sealed.
    scan.is_moot = scan.end_offset > durable or log.is_closed.load()
    scan.index.is_on = not scan.is_active and segment.index_is_final.load()


cdef int _open(Scan* scan) noexcept nogil:
    cdef FileRef file
    cdef Flaw flaw
    cdef int code = directory_hold(scan.segment.get().directory.get(), &scan.directory)
    if code == OK:
        trail_start(&scan.trail, scan.directory.get().fd, scan.segment.get().base_offset)
        code = segment_file(scan.segment.get(), &file)
    if code == OFFSET_OUT_OF_RANGE:
        flaw.why, flaw.is_refused = NO_FILE, False
        flaw.hole = hole_new(scan.next_offset, scan.end_offset)
        if not holes_cover(scan.log.get(), scan.next_offset, scan.end_offset):
            scan.flaws.push_back(flaw)
        scan.position = scan.end = 0
        scan.index.is_on = False
        return OK
    if code == OK:
        code = disk_open(&scan.disk, scan.log.get().storage, file, scan.end)
    if code == OK and scan.index.is_on:
        code = index_check_load(&scan.index, scan.segment.get(), scan.end)
    return code


cdef int scan_step(Scan* scan, int64_t most) noexcept nogil:
    cdef int64_t begin = scan.disk.read_bytes
    cdef BatchHeader header
    cdef int why
    if scan.is_moot:
        return 0
    while scan.position < scan.end:
        if scan.disk.read_bytes - begin >= most:
            return 1
        if scan.is_searching:
            why = _resync(scan, most)
            if why == SEARCH_MORE:
                return 1
            if why < 0:
                return why
            continue
        if segment_past_damage(scan.segment.get(), scan.position) > scan.position:
            _pass_known(scan)
            continue
        why = scan_look(scan, scan.position, scan.next_offset, &header)
        if why == GOOD:
            why = _follow_txns(scan, &header)
        if why == GOOD:
            _take(scan, &header)
        elif why > GOOD:
            why = _meet(scan, <Why>why, &header)
        if why < GOOD:
            return why
    _end(scan)
    return 0


cdef int _follow_txns(Scan* scan, const BatchHeader* header) noexcept nogil:
    cdef int code
    if header.base_offset > scan.next_offset >= scan.gaps_end:
        trail_lose(&scan.trail)
    if not header.attributes & ATTRIBUTE_CONTROL:
        trail_note(&scan.trail, NULL, header)
        return OK
    if header.size > MARKER_SIZE_MAX:
        return OK  # not a transaction marker
    code = disk_have(&scan.disk, scan.position, header.size)
    if code == OK:
        trail_note(&scan.trail, disk_at(&scan.disk, scan.position), header)
    return code


cdef void _pass_known(Scan* scan) noexcept nogil:
    cdef PartitionLog* log = scan.log.get()
    cdef size_t i
    trail_lose(&scan.trail)
    scan.position = segment_past_damage(scan.segment.get(), scan.position)
    log.list_guard.lock()
    for i in range(log.holes.size()):
        if log.holes[i].first_offset <= scan.next_offset < log.holes[i].end_offset:
            scan.next_offset = min(log.holes[i].end_offset, scan.end_offset)
    log.list_guard.unlock()
    scan.last_position = -1
    index_check_pass(&scan.index, scan.position, scan.next_offset)


cdef int scan_look(Scan* scan, int64_t position, int64_t next_offset,
                   BatchHeader* header) noexcept nogil:
    cdef int64_t last
    cdef int code = disk_have(&scan.disk, position, BATCH_HEADER_SIZE)
    header.size = 0
    if code == BATCH_TORN:
        return BAD_END
    if code != OK:
        return code
    batch_load_header(disk_at(&scan.disk, position), header)
    code = batch_check_header(header, scan.end - position)
    if code != OK:
        header.size = 0
        return BAD_END if code == BATCH_TORN else BAD_FRAME
    code = search_crc(&scan.disk, position, header)
    if code == BATCH_TORN or code == BATCH_CORRUPT:
        return BAD_END if code == BATCH_TORN else BAD_CRC
    if code != OK:
        return code
    last = header.base_offset + header.last_offset_delta
    if header.base_offset < next_offset or last >= scan.end_offset:
        return BAD_OFFSET
    if header.base_offset > next_offset >= scan.gaps_end:
        if not holes_cover(scan.log.get(), next_offset, header.base_offset):
            return BAD_OFFSET
    return GOOD if epochs_fit(&scan.epochs, header) else BAD_EPOCH


cdef void _take(Scan* scan, const BatchHeader* header) noexcept nogil:
    index_check_take(&scan.index, scan.position, header)
    scan.last_position, scan.last_next = scan.position, scan.next_offset
    scan.position += header.size
    scan.next_offset = header.base_offset + header.last_offset_delta + 1


cdef void scan_tell(Scan* scan, Why why) noexcept nogil:
    cdef Flaw flaw
    flaw.why, flaw.is_refused = why, False
    flaw.hole = hole_new(scan.segment.get().base_offset, scan.segment.get().end_offset.load())
    scan.settled.push_back(flaw)


# Damage

cdef int _meet(Scan* scan, Why why, const BatchHeader* header) noexcept nogil:
    """Skips missing offsets, or starts the search for the next batch after damage. OK or a code."""
    cdef int64_t first = scan.next_offset, position = scan.position
    cdef int code
    if why == BAD_OFFSET and header.base_offset > first:
        code = _goes_on(scan, header)
        if code < 0:
            return code
        if code:
            # The batch is whole and its successor confirms it: batches before it are missing.
            _add(scan, NO_BATCH, hole_new(first, header.base_offset))
            scan.next_offset = header.base_offset
            trail_lose(&scan.trail)
            return OK
    if (why == BAD_OFFSET and scan.last_position >= 0 and scan.last_next < scan.gaps_end
            and scan.last_next <= header.base_offset < first):
        # One of the two batches has wrong offsets, and it is unknown which one.
        position, first = scan.last_position, scan.last_next
        scan.index.is_wrong = scan.index.was_wrong
    _search(scan, why, header, position, first)
    return OK


cdef int _goes_on(Scan* scan, const BatchHeader* header) noexcept nogil:
    """Whether the successor of a batch continues its offsets; or a code."""
    cdef int64_t last = header.base_offset + header.last_offset_delta
    cdef BatchHeader next
    cdef int why
    if last >= scan.end_offset:
        return False
    if scan.position + header.size >= scan.end:
        return last + 1 == scan.end_offset
    why = scan_look(scan, scan.position + header.size, last + 1, &next)
    return why if why < 0 else why == GOOD


cdef void _add(Scan* scan, Why why, Hole hole) noexcept nogil:
    cdef Flaw flaw
    flaw.why, flaw.hole = why, hole
    flaw.is_refused = scan.disk.refused >= 0
    scan.disk.refused = -1
    if hole.first_offset >= hole.end_offset:
        flaw.why = NO_OFFSETS
    elif holes_cover(scan.log.get(), hole.first_offset, hole.end_offset):
        return  # known and reported already
    scan.flaws.push_back(flaw)


cdef void _search(Scan* scan, Why why, const BatchHeader* header, int64_t position,
                  int64_t first) noexcept nogil:
    """Starts the search for the next good batch, which `_resync` continues step by step."""
    cdef Search* search = &scan.search
    search_start(search, scan.position + 1, scan.end, first)
    search.high = search.end_offset = scan.end_offset
    search.epochs = &scan.epochs
    search.index = &scan.index.index
    scan.flaw.why = why
    scan.flaw.hole = hole_new(first, first)
    scan.flaw.hole.position = position
    scan.claimed = -1
    if why in (BAD_CRC, BAD_OFFSET, BAD_EPOCH):
        scan.claimed = scan.position + header.size
    scan.is_searching = True


cdef int _resync(Scan* scan, int64_t most) noexcept nogil:
    """OK, with the scan after the damage; SEARCH_MORE; or a code."""
    cdef Search* search = &scan.search
    cdef BatchHeader next
    cdef int64_t at = scan.claimed
    cdef int code = 0
    if at >= scan.end:
        _pass_damage(scan, scan.end, &next)
        return OK
    if at >= 0:
        code = search_good(&scan.disk, search, at, search.low, search.high, &next)
        scan.claimed = -1
    if code == 0:
        search.size_max = max(scan.log.get().settings.max_message_bytes,
                              <int64_t>SEARCH_SIZE_MAX)
        code = search_next(&scan.disk, search, most, &next)
        at = search.at if code == 1 else scan.end
    if code < 0 or code == SEARCH_MORE:
        return code
    _pass_damage(scan, at, &next)
    return OK


cdef void _pass_damage(Scan* scan, int64_t past, const BatchHeader* next) noexcept nogil:
    cdef Hole hole = scan.flaw.hole
    hole.end_offset = scan.end_offset if past >= scan.end else next.base_offset
    hole.end_position = past
    _add(scan, scan.flaw.why, hole)
    scan.position, scan.next_offset = past, hole.end_offset
    scan.last_position = -1
    trail_lose(&scan.trail)
    scan.is_searching = False
    index_check_pass(&scan.index, scan.position, scan.next_offset)


cdef void _end(Scan* scan) noexcept nogil:
    """Checks at the end of the segment."""
    cdef Hole hole = hole_new(scan.next_offset, scan.end_offset)
    if scan.disk.file.get() == NULL:
        return  # the file is gone
    if scan.gaps_end <= scan.next_offset < scan.end_offset:
        _add(scan, NO_BATCH, hole)
    if scan.index.is_on and scan.flaws.empty():
        index_check_end(&scan.index)

"""The scan of a recovery: reads and checks batches. `_damaged_end` handles the first bad one.

After an unclean end the page cache is not trusted: after a failed write-back it can show bytes that
the disk lacks. So a file is first synced, then dropped from the cache, then read.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libcpp.vector cimport vector

from appliance._crc cimport crc32c
from appliance.native._codes cimport OK
from appliance.native._files cimport (
    NAME_SIZE, drop_cache, failure_errno, failure_note, file_name, file_size, read_whole,
)
from appliance.native._native cimport mutant, zeroed
from appliance.record._batch cimport (
    ATTRIBUTE_CONTROL, BATCH_HEADER_SIZE, BatchHeader, batch_check_crc, batch_check_header,
    batch_load_header,
)
from appliance.storage._append cimport log_note
from appliance.storage._damaged_end cimport (
    damage_ends_log, damage_is_passed, damage_split,
)
from appliance.storage._index cimport TimeEntry, index_truncate
from appliance.storage._leader_epochs cimport epochs_allow
from appliance.storage._partition_log cimport PartitionLog
from appliance.storage._salvage cimport Recovered
from appliance.storage._segment cimport (
    FileRef, Segment, segment_drop_times, segment_file, segment_note, segment_seal_times,
)
from appliance.storage._segment_find cimport segment_load_index, segment_past_damage
from appliance.storage._storage cimport storage_latest_ms

cdef enum:
    SCAN_SIZE = 1048576
    CRC_BEGIN = 21                 # of a batch: behind the checksum itself

# What the file of the time index says of the batches that are scanned. An entry of a record that
# is gone would be believed after the next crash: the recovery point passes the segment before its
# index is stored again.
cdef cppclass ClaimedTimes:
    vector[TimeEntry] entries
    size_t seen
    bint are_false


# ---- without the GIL ----

# Of a log

cdef int log_scan(PartitionLog* log, size_t slot, int64_t position, int64_t offset,
                  bint may_have_gaps, int64_t end_limit, Recovered* recovered) noexcept nogil:
    cdef Segment* segment
    cdef int code
    while True:
        code = scan_segment(log, slot, position, offset, may_have_gaps, end_limit, recovered)
        if code == 1:
            code = damage_split(log, slot, may_have_gaps, recovered)
        if code < 0:
            return code
        segment = log.segments[slot].get()
        offset = segment.end_offset.load()
        if slot + 1 == log.segments.size():
            return OK if code == 0 and offset >= recovered.promised_offset else damage_ends_log(
                log, slot, code, recovered)
        if not damage_is_passed(log, slot, code, may_have_gaps, recovered):
            return damage_ends_log(log, slot, code, recovered)
        segment.end_offset.store(log.segments[slot + 1].get().base_offset)
        segment_seal_times(segment)
        slot += 1
        position = 0
        offset = log.segments[slot].get().base_offset


# Of one segment

cdef int scan_segment(PartitionLog* log, size_t slot, int64_t position, int64_t offset,
                      bint may_have_gaps, int64_t end_limit,
                      Recovered* recovered) noexcept nogil:
    cdef Segment* segment = log.segments[slot].get()
    cdef ClaimedTimes claimed = zeroed[ClaimedTimes]()
    cdef int dropped = OK
    cdef int code = _scan(log, segment, position, offset, may_have_gaps, end_limit, &claimed,
                          recovered)
    if code >= 0 and (claimed.are_false or claimed.seen < claimed.entries.size()):
        dropped = segment_drop_times(segment)
        segment.index.times_stored = 0
    return code if dropped == OK else dropped


cdef int _scan(PartitionLog* log, Segment* segment, int64_t position, int64_t offset,
               bint may_have_gaps, int64_t end_limit, ClaimedTimes* claimed,
               Recovered* recovered) noexcept nogil:
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
        code = _forget_index(log, segment, position, offset, claimed)
    if code != OK:
        return code
    segment.end_offset.store(offset)
    while position < end:
        past = segment_past_damage(segment, position)
        if past > position:
            # Known, and not served: what comes behind it goes on wherever it does.
            position, at, offset = past, 0, scan_past_hole(log, offset)
            window.clear()
            continue
        code = scan_batch(file.get().fd, position, end, &window, &at, &header)
        if code < 0:
            # The partition stays shut, and is tried again: docs/decisions/unreadable-at-start.md.
            file_name(name, segment.base_offset, b".log")
            return failure_note(b"read", name, failure_errno())
        recovered.scanned_bytes += header.size if code == 0 else 0
        if code == 1 or not _follows(log, &header, offset, may_have_gaps, end_limit):
            return 1
        segment_note(segment, &header, position, log.settings.index_interval_bytes)
        _note_time(segment, &header, claimed)
        log_note(log, segment, window.data() + at, &header, now)
        offset = header.base_offset + header.last_offset_delta + 1
        position += header.size
        at += header.size
        segment.end_offset.store(offset)
    return 0


cdef int64_t scan_past_hole(PartitionLog* log, int64_t offset) noexcept nogil:
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
    if not epochs_allow(log, header):
        return False
    return header.base_offset + header.last_offset_delta < end_limit


cdef int _forget_index(PartitionLog* log, Segment* segment, int64_t position, int64_t offset,
                       ClaimedTimes* claimed) noexcept nogil:
    """Index entries, and the size, back to `position`, where the batch at `offset` begins."""
    cdef vector[TimeEntry]* times = &segment.index.times
    cdef size_t i
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
    # One that was built anew in memory: what the file says was not looked at.
    claimed.are_false = segment.index.times_stored < times.size()
    for i in range(times.size()):
        if times[0][i].relative_offset >= offset - segment.base_offset:
            claimed.entries.push_back(times[0][i])
    index_truncate(&segment.index, position)
    return OK


cdef void _note_time(Segment* segment, const BatchHeader* header,
                     ClaimedTimes* claimed) noexcept nogil:
    """Behind this batch the largest timestamp so far is what the entries of its offsets say."""
    cdef int64_t last = header.base_offset + header.last_offset_delta - segment.base_offset
    while (claimed.seen < claimed.entries.size()
           and claimed.entries[claimed.seen].relative_offset <= last):
        if claimed.entries[claimed.seen].timestamp != segment.largest_timestamp.load():
            claimed.are_false = True
        claimed.seen += 1


# Of one batch

cdef int scan_batch(int fd, int64_t position, int64_t end, vector[uint8_t]* window, int64_t* at,
                    BatchHeader* header) noexcept nogil:
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

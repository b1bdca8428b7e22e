"""Verifying one segment of an open log, from the disk, while it is read, written and shortened.

    step      reads on, and checks batch after batch: length, format, CRC-32C, offsets that follow,
              leader epoch; and what the index files say of each
    settle    looks once more at what was wrong, with maintenance held so that nothing moves, and
              tells it
    mark      after the ledger has it: damage is marked. A crash before that finds it again

found                                             done
------------------------------------------------  ------------------------------------------------
bytes that are no batch, or not the one that      a hole over its offsets, durable in the journal:
must follow                                       readers are told, what is behind stays readable
offsets that no batch holds                       a hole
the file is gone, nobody has it open              a hole over the whole segment
the file is gone or another one, and we have it   written anew from our descriptor: nothing is lost
open
offset or time index that does not fit            built anew
transaction index that is not as the log has it   put right; in the ledger where the log says not
                                                  all of it (`_txn_trail.pyx`)
bytes behind the last batch                       told
all well at the second look                       told: the disk or the way from it is not well

A segment that retention, compaction or a deletion took meanwhile is no finding.

Which batch is next behind damage? The one at which the claimed length ends, if there is a good one.
Else the first good one that is known for a batch (`_search.pyx`).
"""

from collections import namedtuple
from libc.stdint cimport INT64_MAX, int64_t, uint8_t
from libcpp.vector cimport vector

from appliance._log cimport Log
from appliance.native._codes cimport (
    BATCH_CORRUPT, BATCH_TORN, LOG_CLOSED, OFFSET_OUT_OF_RANGE, OK, STORAGE_FULL,
)
from appliance.native._descriptors cimport FileRef, directory_hold, file_own
from appliance.native._files cimport (
    NAME_SIZE, failure_note, file_name, open_file, read_whole, storage_code, sync_directory,
    sync_file, write_whole,
)
from appliance.native._native cimport (
    ENOENT, O_CLOEXEC, O_CREAT, O_RDONLY, O_RDWR, O_TRUNC, POSIX_FADV_DONTNEED, close, errno,
    openat, posix_fadvise, renameat, snprintf, unlinkat, wall_ms,
)
from appliance.record._batch cimport (
    ATTRIBUTE_CONTROL, BATCH_HEADER_SIZE, BatchHeader, batch_check_header, batch_load_header,
)
from appliance.storage._disk_reader cimport (
    DiskReader, disk_at, disk_close, disk_forget, disk_have, disk_open,
)
from appliance.storage._holes cimport holes_add, holes_cover
from appliance.storage._index cimport (
    OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE, AbortedTxn, Index, index_load, txn_index_load,
)
from appliance.storage._index_files cimport log_store_aborted
from appliance.storage._journal cimport Hole, hole_new
from appliance.storage._partition_log cimport EpochEntry, LogRef, PartitionLog, log_roll
from appliance.storage._search cimport (
    SEARCH_MORE, SEARCH_SIZE_MAX, Search, search_crc, search_epoch_is_right, search_good,
    search_next, search_start,
)
from appliance.storage._segment cimport Segment, SegmentRef, segment_file, segment_store_index
from appliance.storage._segment_find cimport segment_past_damage, segment_rebuild_index
from appliance.storage._txn_trail cimport (
    TRAIL_FITS, TRAIL_UNSURE, TrailFound, TxnTrail, trail_lose, trail_mend, trail_note, trail_start,
)

from appliance.errors import from_code

cdef extern from "sys/stat.h" nogil:
    struct file_status "stat":
        unsigned long st_dev
        unsigned long st_ino
        int64_t st_size
    int fstat(int fd, file_status* status)
    int fstatat(int directory_fd, const char* path, file_status* status, int flags)

cdef extern from "fcntl.h" nogil:
    int AT_SYMLINK_NOFOLLOW

cdef extern from "unistd.h" nogil:
    int linkat(int old_directory_fd, const char* old_path, int new_directory_fd,
               const char* new_path, int flags)

cdef enum Why:
    GOOD = 0
    BAD_END = 1                    # the file ends in the batch
    BAD_FRAME = 2                  # length, format or structure
    BAD_CRC = 3
    BAD_OFFSET = 4                 # whole, and not what must follow
    BAD_EPOCH = 5
    NO_BATCH = 6                   # offsets that no batch holds
    NO_FILE = 7
    NO_OFFSETS = 8                 # bytes that hold no offset that is missed
    NOT_AGAIN = 9                  # all well at the second look
    FILE_RESTORED = 10
    WRONG_INDEX = 11
    WRONG_TXN_INDEX = 12
    UNSURE_TXN_INDEX = 13

cdef enum:
    _AGAIN = 1                     # no code: those are negative
    COPY_SIZE = 1048576
    MARKER_SIZE_MAX = 4096
    SPARSE = 4                     # an index with fewer than one entry in so many is built anew
    SPARSE_MIN = 8

_WHAT = {
    BAD_END: ("damaged", "a record batch is longer than what is left of the file"),
    BAD_FRAME: ("damaged", "the bytes are no record batch"),
    BAD_CRC: ("damaged", "a record batch does not match its checksum"),
    BAD_OFFSET: ("damaged", "a record batch has other offsets than those that must follow"),
    BAD_EPOCH: ("damaged", "a record batch has another leader epoch than its offsets have"),
    NO_BATCH: ("lost", "no record batch holds these offsets"),
    NO_FILE: ("lost", "the segment's file is gone"),
    NO_OFFSETS: ("odd", "bytes that are no record batch, where no offset is missing"),
    NOT_AGAIN: ("odd", "bytes that were wrong when read first, and right at the second look"),
    FILE_RESTORED: ("restored", "the segment's file was gone or another one, and was written anew"),
    WRONG_INDEX: ("index", "the offset or time index did not fit, and was built anew"),
    WRONG_TXN_INDEX: ("index", "the transaction index did not fit, and was written anew"),
    UNSURE_TXN_INDEX: ("damaged", "the transaction index did not fit, and the log says not all of "
                       "it: aborted records before these offsets may be shown"),
}

ScrubFinding = namedtuple(
    "ScrubFinding", "what first_offset end_offset file position end_position text"
)

cdef cppclass Flaw:
    Why why
    Hole hole
    bint is_refused                # by the disk

cdef cppclass Scan:
    LogRef log
    SegmentRef segment
    FileRef directory              # held: `segment.directory.get().fd` is open
    DiskReader disk
    bint is_active
    bint is_moot                   # there is nothing to verify, or not any more
    int64_t position               # of the batch to come
    int64_t end
    int64_t next_offset            # it begins there, or later where compaction was
    int64_t end_offset             # and all end before
    int64_t last_position          # of the batch before it, and what was next then; -1: none
    int64_t last_next
    int64_t gaps_end
    vector[EpochEntry] epochs
    bint is_searching              # for what comes behind damage: nothing is missed at a stop
    Search search
    int64_t claimed                # where the damaged batch says that it ends; -1: not looked at
    Flaw found                     # what it is that ends where the search does
    bint was_refused               # by the disk, some of what was settled
    vector[Flaw] flaws
    vector[Flaw] told              # settled
    vector[Hole] holes             # of these, to be marked

    bint has_index                 # its files are to be checked
    bint index_is_wrong
    bint index_was_wrong           # before the batch that last_position is of
    Index index
    size_t offsets_at              # entries that batches were seen for
    size_t times_at
    int64_t index_interval
    int64_t since_entry
    int64_t entries                # that an index of ours would have
    int64_t largest_timestamp
    TxnTrail trail


# ---- without the GIL ----

# Beginning

cdef int _start(Scan* scan, int64_t base_offset) noexcept nogil:
    cdef PartitionLog* log = scan.log.get()
    cdef size_t i
    scan.is_moot = True
    log.guard.lock()
    for i in range(log.segments.size()):
        if log.segments[i].get().base_offset == base_offset:
            scan.segment = log.segments[i]
            scan.is_moot = False
            scan.is_active = i + 1 == log.segments.size()
    if not scan.is_moot:
        _bound(scan)
    log.guard.unlock()
    return OK if scan.is_moot else _open(scan)


cdef void _bound(Scan* scan) noexcept nogil:
    cdef PartitionLog* log = scan.log.get()
    cdef Segment* segment = scan.segment.get()
    cdef int64_t durable = log.durable_offset.load()
    scan.epochs = log.epochs
    scan.index_interval = log.settings.index_interval_bytes
    scan.position, scan.next_offset = 0, segment.base_offset
    scan.last_position = scan.last_next = -1
    scan.is_searching = False
    scan.gaps_end = log.gaps_end.load()
    scan.end = min(segment.size.load(), segment.synced_size)
    scan.end_offset = durable if scan.is_active else segment.end_offset.load()
    scan.largest_timestamp = -1
    scan.offsets_at = scan.times_at = scan.since_entry = scan.entries = 0
    # Not durable yet, or a log that failed: what it shows is read by nobody, or is not sealed.
    scan.is_moot = scan.end_offset > durable or log.is_closed.load()
    scan.has_index = (not scan.is_active and segment.index_is_final.load())
    scan.index_is_wrong = scan.index_was_wrong = False


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
        scan.has_index = False
        return OK
    if code == OK:
        code = disk_open(&scan.disk, scan.log.get().storage, file, scan.end)
    if code == OK and scan.has_index:
        code = _load_index(scan)
    return code


cdef int _load_index(Scan* scan) noexcept nogil:
    cdef Segment* segment = scan.segment.get()
    cdef int64_t offsets = _dropped_size(segment, b".index")
    cdef int64_t times = _dropped_size(segment, b".timeindex")
    cdef int code = index_load(&scan.index, segment.directory.get().fd, segment.base_offset,
                               scan.end)
    # What does not rise was not taken, and would be taken by nobody.
    scan.index_is_wrong = (
        offsets != <int64_t>scan.index.offsets.size() * OFFSET_ENTRY_SIZE
        or times != <int64_t>scan.index.times.size() * TIME_ENTRY_SIZE
    )
    return code


cdef int64_t _dropped_size(Segment* segment, const char* suffix) noexcept nogil:
    """Of a small file, whose pages are dropped, so that the disk is read; -1: it is not there."""
    cdef char[NAME_SIZE] name
    cdef file_status status
    cdef int64_t size = -1
    file_name(name, segment.base_offset, suffix)
    cdef int fd = openat(segment.directory.get().fd, name, O_RDONLY | O_CLOEXEC)
    if fd < 0:
        return -1
    if fstat(fd, &status) == 0:
        size = status.st_size
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED)
    close(fd)
    return size


# Reading

cdef int _step(Scan* scan, int64_t most) noexcept nogil:
    """1: there is more; 0: that was all; or a code."""
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
        why = _look(scan, scan.position, scan.next_offset, False, &header)
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
        return OK  # no marker of a transaction
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
    _pass_entries(scan)


cdef void _pass_entries(Scan* scan) noexcept nogil:
    """Those of the index that are about what was passed: right once, and of no use."""
    cdef int64_t base = scan.segment.get().base_offset
    cdef Index* index = &scan.index
    while (scan.offsets_at < index.offsets.size()
           and index.offsets[scan.offsets_at].position < scan.position):
        scan.offsets_at += 1
    while (scan.times_at < index.times.size()
           and base + index.times[scan.times_at].relative_offset < scan.next_offset):
        scan.largest_timestamp = max(scan.largest_timestamp,
                                     index.times[scan.times_at].timestamp)
        scan.times_at += 1


cdef int _look(Scan* scan, int64_t position, int64_t next_offset, bint may_gap,
               BatchHeader* header) noexcept nogil:
    """GOOD, why the batch there is not good, or a code."""
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
    if header.base_offset > next_offset >= scan.gaps_end and not may_gap:
        if not holes_cover(scan.log.get(), next_offset, header.base_offset):
            return BAD_OFFSET
    return GOOD if search_epoch_is_right(&scan.epochs, header) else BAD_EPOCH


cdef void _take(Scan* scan, const BatchHeader* header) noexcept nogil:
    cdef int64_t last = header.base_offset + header.last_offset_delta
    if header.records_count > 0:
        scan.largest_timestamp = max(scan.largest_timestamp, header.max_timestamp)
    if scan.since_entry > scan.index_interval:
        scan.entries += 1
        scan.since_entry = 0
    scan.since_entry += header.size
    scan.index_was_wrong = scan.index_is_wrong
    if scan.has_index and not scan.index_is_wrong:
        scan.index_is_wrong = not _entries_fit(scan, last)
    scan.last_position, scan.last_next = scan.position, scan.next_offset
    scan.position += header.size
    scan.next_offset = last + 1


cdef bint _entries_fit(Scan* scan, int64_t last) noexcept nogil:
    """What the index files say of the batch at hand."""
    cdef int64_t base = scan.segment.get().base_offset
    cdef Index* index = &scan.index
    if scan.offsets_at < index.offsets.size():
        if index.offsets[scan.offsets_at].position < scan.position:
            return False
        if index.offsets[scan.offsets_at].position == scan.position:
            if base + index.offsets[scan.offsets_at].relative_offset != last:
                return False
            scan.offsets_at += 1
    while (scan.times_at < index.times.size()
           and base + index.times[scan.times_at].relative_offset <= last):
        # A running maximum: readers by time pass all batches up to there.
        if index.times[scan.times_at].timestamp != scan.largest_timestamp:
            return False
        scan.times_at += 1
    return True


# What is not good

cdef int _meet(Scan* scan, Why why, const BatchHeader* header) noexcept nogil:
    """OK, with the scan behind what is missing, or in search of what follows damage; or a code."""
    cdef int64_t first = scan.next_offset, position = scan.position
    cdef int code
    if why == BAD_OFFSET and header.base_offset > first:
        code = _goes_on(scan, header)
        if code < 0:
            return code
        if code:
            # Whole, and what follows says so too: batches before it are missing.
            _add(scan, NO_BATCH, hole_new(first, header.base_offset))
            scan.next_offset = header.base_offset
            trail_lose(&scan.trail)
            return OK
    if (why == BAD_OFFSET and scan.last_position >= 0 and scan.last_next < scan.gaps_end
            and scan.last_next <= header.base_offset < first):
        # One of the two claims what is not its own, and nothing tells which.
        position, first = scan.last_position, scan.last_next
        scan.index_is_wrong = scan.index_was_wrong
    _search(scan, why, header, position, first)
    return OK


cdef int _goes_on(Scan* scan, const BatchHeader* header) noexcept nogil:
    """Whether what is behind a batch goes on from the offsets that it claims; or a code."""
    cdef int64_t last = header.base_offset + header.last_offset_delta
    cdef BatchHeader next
    cdef int why
    if last >= scan.end_offset:
        return False
    if scan.position + header.size >= scan.end:
        return last + 1 == scan.end_offset
    why = _look(scan, scan.position + header.size, last + 1, False, &next)
    return why if why < 0 else why == GOOD


cdef void _add(Scan* scan, Why why, Hole hole) noexcept nogil:
    cdef Flaw flaw
    flaw.why, flaw.hole = why, hole
    flaw.is_refused = scan.disk.refused >= 0
    scan.disk.refused = -1
    if hole.first_offset >= hole.end_offset:
        flaw.why = NO_OFFSETS
    elif holes_cover(scan.log.get(), hole.first_offset, hole.end_offset):
        return  # known, and told when it was found
    scan.flaws.push_back(flaw)


cdef void _search(Scan* scan, Why why, const BatchHeader* header, int64_t position,
                  int64_t first) noexcept nogil:
    """Begins to look for the next good batch: `_resync` goes on, step by step."""
    cdef Search* search = &scan.search
    search_start(search, scan.position + 1, scan.end, first)
    search.high = search.end_offset = scan.end_offset
    search.epochs = &scan.epochs
    search.index = &scan.index
    scan.found.why = why
    scan.found.hole = hole_new(first, first)
    scan.found.hole.position = position
    scan.claimed = -1
    if why in (BAD_CRC, BAD_OFFSET, BAD_EPOCH):
        scan.claimed = scan.position + header.size
    scan.is_searching = True


cdef int _resync(Scan* scan, int64_t most) noexcept nogil:
    """OK, with the scan behind the damage; SEARCH_MORE; or a code."""
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
    cdef Hole hole = scan.found.hole
    hole.end_offset = scan.end_offset if past >= scan.end else next.base_offset
    hole.end_position = past
    _add(scan, scan.found.why, hole)
    scan.position, scan.next_offset = past, hole.end_offset
    scan.last_position = -1
    trail_lose(&scan.trail)
    scan.is_searching = False
    _pass_entries(scan)


cdef void _end(Scan* scan) noexcept nogil:
    """What only the end of the segment tells."""
    cdef Hole hole = hole_new(scan.next_offset, scan.end_offset)
    if scan.disk.file.get() == NULL:
        return  # no file
    if scan.gaps_end <= scan.next_offset < scan.end_offset:
        _add(scan, NO_BATCH, hole)
    if scan.has_index and scan.flaws.empty():
        scan.index_is_wrong = (
            scan.index_is_wrong
            or scan.offsets_at < scan.index.offsets.size()
            or scan.times_at < scan.index.times.size()
            or (scan.index.offsets.empty() and scan.entries > 0)
            or <int64_t>scan.index.offsets.size() * SPARSE + SPARSE_MIN < scan.entries
        )


# Settling

cdef int _settle(Scan* scan) noexcept nogil:
    """maintenance is held: no segment comes or goes."""
    cdef size_t i
    cdef int code = OK
    if scan.is_moot or not _is_listed(scan):
        scan.is_moot = True
        scan.flaws.clear()
        return OK
    for i in range(scan.flaws.size()):
        if code == OK:
            code = _settle_flaw(scan, scan.flaws[i])
    if code == OK and scan.disk.file.get() != NULL:
        code = _settle_name(scan)
    if code == OK and scan.index_is_wrong:
        code = segment_rebuild_index(scan.segment.get(), scan.index_interval)
        if code == OK:
            code = segment_store_index(scan.segment.get(), True)
        _tell(scan, WRONG_INDEX)
    # With new damage the next round sees what is left: an entry of what was lost is kept till then.
    if code == OK and scan.flaws.empty():
        code = _settle_aborted(scan)
    return code


cdef bint _is_listed(Scan* scan) noexcept nogil:
    cdef PartitionLog* log = scan.log.get()
    cdef bint found = False
    cdef size_t i
    log.list_guard.lock()
    for i in range(log.segments.size()):
        found = found or log.segments[i].get() == scan.segment.get()
    log.list_guard.unlock()
    return found and not log.is_closed.load()


cdef void _tell(Scan* scan, Why why) noexcept nogil:
    cdef Flaw flaw
    flaw.why, flaw.is_refused = why, False
    flaw.hole = hole_new(scan.segment.get().base_offset, scan.segment.get().end_offset.load())
    scan.told.push_back(flaw)


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
        code = _look(scan, flaw.hole.position, flaw.hole.first_offset, False, &header)
        if code < 0:
            return code
        # Of two that contradict each other the first is good by itself, also when looked at again.
        if code == GOOD and (
            flaw.why != BAD_OFFSET
            or flaw.hole.position + header.size >= flaw.hole.end_position
        ):
            flaw.why = NOT_AGAIN
    if holes_cover(log, flaw.hole.first_offset, flaw.hole.end_offset):
        return OK  # another look was faster
    if flaw.why != NOT_AGAIN and flaw.why != NO_OFFSETS:
        scan.holes.push_back(flaw.hole)
        scan.was_refused = scan.was_refused or flaw.is_refused
    # Below the log start nobody reads, and nobody need be told.
    if flaw.hole.end_offset > log.log_start_offset.load():
        flaw.hole.first_offset = max(flaw.hole.first_offset, log.log_start_offset.load())
        scan.told.push_back(flaw)
    return OK


cdef int _mark(Scan* scan) noexcept nogil:
    """maintenance is held."""
    cdef size_t i
    cdef int code = OK
    for i in range(scan.holes.size()):
        if code == OK and _is_listed(scan):
            code = holes_add(scan.log.get(), &scan.holes[i])
    scan.holes.clear()
    return OK if code == LOG_CLOSED else code


cdef int _settle_name(Scan* scan) noexcept nogil:
    """The name in the directory must lead to the file that is served: the next start goes by it."""
    cdef char[NAME_SIZE] name
    cdef file_status named, opened
    cdef FileRef file
    cdef int code = segment_file(scan.segment.get(), &file)
    if code == OFFSET_OUT_OF_RANGE:
        return OK  # it went since, and nobody has it: the next round tells
    if code != OK:
        return code
    file_name(name, scan.segment.get().base_offset, b".log")
    if fstat(file.get().fd, &opened) < 0:
        return storage_code(errno)
    if fstatat(scan.segment.get().directory.get().fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0:
        if named.st_ino == opened.st_ino and named.st_dev == opened.st_dev:
            return OK
    _hold(scan.segment.get(), file)
    code = _AGAIN
    while code == _AGAIN:
        if scan.is_active:
            # Who appends goes on in a new file, and what is here stands still: unless it is empty.
            code = log_roll(scan.log.get())
            if code != OK:
                return code
        code = _restore(scan, file)
    if code == OK:
        _tell(scan, FILE_RESTORED)
    return code


cdef void _hold(Segment* segment, const FileRef& file) noexcept nogil:
    """Nobody closes the one way left to the bytes, however long it takes to restore them."""
    segment.guard.lock()
    if not segment.is_closed:
        segment.file = file
        segment.is_replaced = True
    segment.guard.unlock()


cdef int _restore(Scan* scan, const FileRef& file) noexcept nogil:
    """The bytes that our descriptor still has, under the name they had; what has it now is kept."""
    cdef char[NAME_SIZE] fresh
    cdef Segment* segment = scan.segment.get()
    cdef int directory_fd = segment.directory.get().fd
    cdef int64_t size = segment.size.load()
    cdef FileRef owner
    cdef int fd, code
    if size > 0 and scan.log.get().storage.get().is_full.load():
        return STORAGE_FULL
    file_name(fresh, segment.base_offset, b".log.cleaned")
    fd = open_file(directory_fd, fresh, O_RDWR | O_CREAT | O_TRUNC)
    if fd < 0:
        return fd
    owner = file_own(fd)
    code = _copy(file.get().fd, fd, size)
    if code == OK:
        code = _keep_other(segment)
    if code == OK:
        code = _take_name(scan, owner, size)
    if code != OK:
        unlinkat(directory_fd, fresh, 0)  # not there any more, where only the last sync failed
    return code


cdef int _keep_other(Segment* segment) noexcept nogil:
    cdef char[NAME_SIZE] name
    cdef char[NAME_SIZE] aside
    cdef int directory_fd = segment.directory.get().fd
    file_name(name, segment.base_offset, b".log")
    snprintf(aside, NAME_SIZE, b"%020lld.log.corrupt-%lld", <long long>segment.base_offset,
             <long long>wall_ms())
    if linkat(directory_fd, name, directory_fd, aside, 0) < 0 and errno != ENOENT:
        return failure_note(b"link", name, errno)
    return OK


cdef int _take_name(Scan* scan, const FileRef& fresh, int64_t size) noexcept nogil:
    """With the log's guard: no append and no beginning commit is between the look and the change.

    A batch that came since the bytes were copied is in the old file alone: then _AGAIN."""
    cdef char[NAME_SIZE] name
    cdef char[NAME_SIZE] taken
    cdef PartitionLog* log = scan.log.get()
    cdef Segment* segment = scan.segment.get()
    cdef int directory_fd = segment.directory.get().fd
    cdef int code = OK
    file_name(name, segment.base_offset, b".log")
    file_name(taken, segment.base_offset, b".log.cleaned")
    log.guard.lock()
    if segment.size.load() != size:
        code = _AGAIN
    elif renameat(directory_fd, taken, directory_fd, name) < 0:
        code = failure_note(b"rename", taken, errno)
    else:
        segment.guard.lock()
        segment.file, segment.is_replaced = fresh, False
        segment.guard.unlock()
        # Also when the sync below fails: nothing more is acknowledged before the name is on disk.
        log.dirty_directory = scan.directory
        log.is_changed.store(True)
    log.guard.unlock()
    return code if code != OK else sync_directory(directory_fd)


cdef int _copy(int source, int target, int64_t size) noexcept nogil:
    cdef vector[uint8_t] data
    cdef int64_t done = 0, got
    cdef int code
    data.resize(min(size, <int64_t>COPY_SIZE))
    while done < size:
        got = read_whole(source, data.data(), min(<int64_t>COPY_SIZE, size - done), done)
        if got <= 0:
            return <int>min(got, <int64_t>BATCH_TORN)
        code = write_whole(target, data.data(), got, done)
        if code != OK:
            return code
        done += got
    return sync_file(target)


cdef int _settle_aborted(Scan* scan) noexcept nogil:
    """What aborted transactions readers are told of, and after the next start."""
    cdef PartitionLog* log = scan.log.get()
    cdef Segment* segment = scan.segment.get()
    cdef TrailFound found = trail_mend(log, &scan.trail, segment.base_offset, scan.end_offset)
    cdef bint is_stored = True
    cdef int code = OK
    if found == TRAIL_FITS and not scan.is_active:
        code = _aborted_are_stored(scan, &is_stored)
    if code != OK or (found == TRAIL_FITS and is_stored):
        return code
    _tell(scan, UNSURE_TXN_INDEX if found == TRAIL_UNSURE else WRONG_TXN_INDEX)
    return log_store_aborted(log, segment)


cdef int _aborted_are_stored(Scan* scan, bint* is_stored) noexcept nogil:
    cdef PartitionLog* log = scan.log.get()
    cdef Segment* segment = scan.segment.get()
    cdef vector[AbortedTxn] stored, wanted
    cdef int64_t start = max(segment.base_offset, log.log_start_offset.load())
    cdef size_t i
    cdef int64_t size = _dropped_size(segment, b".txnindex")
    cdef int code = txn_index_load(segment.directory.get().fd, segment.base_offset, INT64_MAX,
                                   &stored)
    if code < 0 or segment.txn_is_dirty.load():
        return min(code, OK)
    log.list_guard.lock()
    for i in range(log.aborted.size()):
        if start <= log.aborted[i].last_offset < segment.end_offset.load():
            wanted.push_back(log.aborted[i])
    log.list_guard.unlock()
    # Below the log's start nobody reads: memory forgets till the next start, the file does not.
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


# ---- with the GIL ----

cdef class SegmentScan:
    """Verifies one segment. One thread at a time."""

    cdef Scan scan
    cdef Log log

    def __cinit__(self, Log log not None, int64_t base_offset):
        cdef int code
        self.log = log
        self.scan.log = log.log
        with nogil:
            code = _start(&self.scan, base_offset)
        self._check(code)

    def step(self, int64_t bytes_max):
        """Reads about so much on; whether there is more."""
        cdef int code
        with nogil:
            code = _step(&self.scan, bytes_max)
        self._check(code)
        return code == 1

    def mark(self):
        """Readers are told of the damage from here on, and after a restart."""
        cdef int code
        with nogil:
            self.scan.log.get().maintenance.lock()
            code = _mark(&self.scan)
            self.scan.log.get().maintenance.unlock()
        self._check(code)

    def let_go(self):
        """Of its descriptor and of what was read: only `mark` is to follow, some day."""
        disk_close(&self.scan.disk)

    def settle(self):
        """What was found; of indexes and names after they were mended. Damage waits for `mark`."""
        cdef int code
        cdef size_t i
        with nogil:
            self.scan.log.get().maintenance.lock()
            code = _settle(&self.scan)
            self.scan.log.get().maintenance.unlock()
        found = [self._finding(&self.scan.told[i]) for i in range(self.scan.told.size())]
        self.scan.told.clear()
        if code != OK:
            found.append(self._failed(code))
        return found

    @property
    def is_moot(self):
        """The segment is gone, or not durable yet."""
        return bool(self.scan.is_moot)

    @property
    def was_refused(self):
        """Whether the disk refused to read some of what `settle` found damaged."""
        return bool(self.scan.was_refused)

    @property
    def read_bytes(self):
        return self.scan.disk.read_bytes

    @property
    def position(self):
        return self.scan.position

    @property
    def held_bytes(self):
        """Of memory, for what was read."""
        return <int64_t>self.scan.disk.space.size()

    @property
    def is_direct(self):
        """Read past the page cache."""
        return bool(self.scan.disk.is_direct)

    cdef _finding(self, const Flaw* flaw):
        what, text = _WHAT[flaw.why]
        if flaw.is_refused:
            text += "; the disk refused to read it"
        return ScrubFinding(what, flaw.hole.first_offset, flaw.hole.end_offset, self._file(),
                            flaw.hole.position, flaw.hole.end_position, text)

    cdef _failed(self, int code):
        error = from_code(code, "what was found cannot be dealt with")
        return ScrubFinding("failed", self.scan.next_offset, self.scan.end_offset, self._file(),
                            -1, -1, str(error))

    cdef _file(self):
        return f"{self.log.name}/{self.scan.segment.get().base_offset:020d}.log"

    cdef _check(self, int code):
        if code < 0:
            raise from_code(code, f"{self._file()}: cannot be verified at position "
                                  f"{self.scan.position}")

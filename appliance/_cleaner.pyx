"""Compaction: of every key only the last record stays, at the offset it always had.

A round
1. finds the segments it may touch and whether they are worth it (`_cleanable.pyx`);
2. reads the dirty ones and maps each key to its last offset. A full map ends the round there;
3. writes all of them anew, clean ones too, in groups of neighbours that fit one segment:
   `.cleaned`, sync, `.swap`, then log_swap, which is the commit point of that group;
4. saves how far it came.
A crash or an error between groups loses nothing: each group is whole, and the next round starts
from the same dirty offset. Groups go from old to new, so that a tombstone is never passed by.

What becomes of a record below the end of the map
    a later record of its key is mapped          dropped
    no key                                       dropped
    no value (a tombstone)                       its batch gets a delete horizon, now +
                                                 delete.retention.ms, and it goes in a later round
                                                 after that
    of an aborted transaction                    dropped
of a transaction's marker
    data of the transaction was read before it   stays: as long as a byte of it is there, readers
                                                 must learn how it ended
    none was                                     a horizon, then dropped, as a tombstone
of a batch with nothing left
    last of a living producer, or of the round   stays as a header: it shows sequence and offset
    otherwise                                    dropped
Batches of which everything stays are copied byte for byte. The horizon stands in the batch itself
(base timestamp, with its own attribute bit), for a file's time is changed by every backup.

What cannot be read is not dropped: the round ends before that segment, and says so once.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libcpp.algorithm cimport sort
from libcpp.memory cimport make_shared, shared_ptr
from libcpp.unordered_map cimport unordered_map
from libcpp.unordered_set cimport unordered_set
from libcpp.vector cimport vector

from cython.operator cimport dereference

from appliance._batch cimport (
    ATTRIBUTE_APPEND_TIME, ATTRIBUTE_CODEC, ATTRIBUTE_CONTROL, ATTRIBUTE_DELETE_HORIZON,
    ATTRIBUTE_TRANSACTIONAL, BATCH_CRC_FROM, BATCH_HEADER_SIZE, CONTROL_ABORT, BatchHeader,
    batch_check_crc, batch_check_header, batch_claim, batch_control_type, batch_load_header,
    batch_store_header,
)
from appliance._bytes cimport Cursor
from appliance._cleanable cimport Cleanable, cleanable_find, cleanable_group
from appliance._codes cimport (
    BATCH_CORRUPT, BATCH_INVALID, BATCH_LARGER_THAN_SEGMENT, BATCH_TORN, OK, STORAGE_FULL,
    STORAGE_IO,
)
from appliance._crc cimport crc32c
from appliance._files cimport (
    NAME_SIZE, file_name, open_file, read_whole, storage_code, sync_file, write_whole,
)
from appliance._index cimport AbortedTxn
from appliance._log cimport LogRef, PartitionLog
from appliance._native cimport O_CREAT, O_RDWR, O_TRUNC, errno, renameat, unlinkat
from appliance._offset_map cimport (
    OffsetMap, offset_map_get, offset_map_put, offset_map_start,
)
from appliance._records cimport (
    RecordsClaim, RecordView, record_next, record_timestamp, records_check, records_retain,
)
from appliance._retention cimport log_save_cleaned, log_swap
from appliance._segment cimport (
    SEGMENT_SIZE_MAX, FileRef, Segment, SegmentRef, file_own, segment_file, segment_new,
    segment_note, segment_seal_times,
)

from appliance import compression
from appliance.errors import ApplianceError, from_code

cdef enum:
    READ_SIZE = 1048576            # of one read; a larger batch is read whole
    WRITE_SIZE = 1048576           # of one write, at most, unless a single batch is larger

    # Where the walk over the batches stopped, besides 0 (its end) and the codes.
    UNPACK = 1                     # the batch is compressed, and its records are wanted
    PACK = 2                       # the batch was rewritten and must be compressed again

cdef enum Verdict:
    COPY
    REWRITE
    EMPTY
    DROP

# A segment's batches, one after the other.
cdef cppclass Source:
    FileRef file                   # empty: not open
    int64_t position               # in the file, of the batch
    int64_t end
    int64_t next_offset            # the next batch starts there or later
    vector[uint8_t] window
    int64_t at                     # in the window, of the batch
    BatchHeader header

# Transactions as a walk from old to new meets them.
cdef cppclass Transactions:
    vector[AbortedTxn] aborted     # by first offset
    size_t next                    # of them, not reached yet
    unordered_map[int64_t, int64_t] aborting     # producer id -> offset of the abort marker
    unordered_set[int64_t] with_data             # producers with a batch since their last marker

# The last thing that a living producer wrote here.
cdef struct LastOfProducer:
    int64_t data_offset            # -1: no data in this epoch
    int32_t epoch

# The segment that takes the place of a group.
cdef cppclass Output:
    SegmentRef segment
    FileRef file                   # empty while it would equal the one segment it is made from
    vector[uint8_t] waiting        # whole batches, not written yet
    int64_t written                # bytes in the file
    int64_t position               # where the next batch goes

cdef cppclass Round:
    LogRef log
    int64_t now_ms
    int64_t horizon_ms             # for tombstones that get one in this round
    bint was_full                  # at the start; see _write_waiting
    Cleanable found
    OffsetMap map
    int64_t mapped_end             # the map speaks of the offsets below
    unordered_map[int64_t, LastOfProducer] living
    Transactions transactions
    vector[int64_t] forgotten      # abort markers whose transactions have no data any more
    Source source
    size_t slot                    # of the segment being read
    size_t slots_end               # where this walk stops
    bint is_unpacked               # `records` and `claim` are of the batch at hand
    Cursor records
    RecordsClaim claim
    vector[uint8_t] keep           # per record
    vector[uint8_t] rewritten      # a batch: header, then records
    BatchHeader rewritten_header
    Output output
    int damage                     # what made a segment unreadable, and where
    int64_t damaged_base
    int64_t damaged_position


# ---- without the GIL ----

# Reading

cdef int _open_source(Source* source, Segment* segment) except? -1 nogil:
    source.position = source.at = 0
    source.end = segment.size.load()
    source.next_offset = segment.base_offset
    source.window.clear()
    source.header.size = 0
    return segment_file(segment, &source.file)


cdef int _have(Source* source, int64_t need) except? -1 nogil:
    """The window holds `need` bytes of the batch."""
    cdef int64_t left = source.end - source.position
    cdef int64_t got
    if <int64_t>source.window.size() - source.at >= need:
        return OK
    if left < need:
        return BATCH_TORN
    source.at = 0
    source.window.resize(min(max(need, <int64_t>READ_SIZE), left))
    got = read_whole(
        source.file.get().fd, source.window.data(), source.window.size(), source.position
    )
    if got < 0:
        return <int>got
    source.window.resize(got)
    return OK if got >= need else BATCH_TORN


cdef int _read_on(Source* source) except? -1 nogil:
    """1: the next batch is whole and sound; 0: there is none; or a code."""
    cdef int code
    source.position += source.header.size
    source.at += source.header.size
    source.header.size = 0
    if source.position >= source.end:
        return 0
    code = _have(source, BATCH_HEADER_SIZE)
    if code != OK:
        return code
    batch_load_header(source.window.data() + source.at, &source.header)
    code = batch_check_header(&source.header, source.end - source.position)
    if code == OK:
        code = _have(source, source.header.size)
    if code == OK:
        code = batch_check_crc(source.window.data() + source.at, &source.header)
    if code == OK and source.header.base_offset < source.next_offset:
        code = BATCH_CORRUPT
    source.next_offset = source.header.base_offset + source.header.last_offset_delta + 1
    return 1 if code == OK else code


cdef int _next_batch(Round* round) except? -1 nogil:
    """1: a batch is at hand; 0: the walk is over; or a code, which for damage is remembered."""
    cdef int code
    if round.is_unpacked:
        return 1
    while True:
        if round.source.file.get() == NULL:
            if round.slot == round.slots_end:
                return 0
            code = _open_source(&round.source, round.found.segments[round.slot].get())
        else:
            code = _read_on(&round.source)
            if code == 0:
                round.source.file.reset()
                round.slot += 1
        if code > 0:
            return 1
        if code < 0:
            return _damaged(round, code)


cdef int _damaged(Round* round, int code) noexcept nogil:
    if BATCH_INVALID <= code <= BATCH_TORN or code == STORAGE_IO:
        round.damage = code
        round.damaged_base = round.found.segments[round.slot].get().base_offset
        round.damaged_position = round.source.position
    return code


cdef int _open_records(Round* round) noexcept nogil:
    """Cursor over the records of the batch at hand; the edge has done so for a compressed one."""
    cdef const uint8_t* batch = round.source.window.data() + round.source.at
    if round.is_unpacked:
        return OK
    if round.source.header.attributes & ATTRIBUTE_CODEC:
        return UNPACK
    round.records.at = batch + BATCH_HEADER_SIZE
    round.records.end = batch + round.source.header.size
    return _check_records(round)


cdef int _check_records(Round* round) noexcept nogil:
    cdef int64_t max_timestamp
    cdef int code
    round.records.failed = False
    round.claim = batch_claim(&round.source.header)
    code = records_check(
        round.records.at, round.records.end - round.records.at, &round.claim, &max_timestamp
    )
    return OK if code == OK else _damaged(round, code)


cdef int64_t _last_offset(const BatchHeader* header) noexcept nogil:
    return header.base_offset + header.last_offset_delta


# Transactions

cdef bint _begins_before(const AbortedTxn& one, const AbortedTxn& other) noexcept nogil:
    return one.first_offset < other.first_offset


cdef int _start_transactions(Round* round) except? -1 nogil:
    cdef PartitionLog* log = round.log.get()
    cdef Transactions fresh
    log.list_guard.lock()
    fresh.aborted = log.aborted
    log.list_guard.unlock()
    fresh.next = 0
    sort(fresh.aborted.begin(), fresh.aborted.end(), _begins_before)
    round.transactions = fresh
    return OK


cdef bint _is_aborted(Transactions* transactions, const BatchHeader* header) except? -1 nogil:
    """Whether a data batch belongs to an aborted transaction; batches come in order."""
    cdef AbortedTxn* each
    while transactions.next < transactions.aborted.size():
        each = &transactions.aborted[transactions.next]
        if each.first_offset > _last_offset(header):
            break
        transactions.aborting[each.producer_id] = each.last_offset
        transactions.next += 1
    if not header.attributes & ATTRIBUTE_TRANSACTIONAL:
        return False
    it = transactions.aborting.find(header.producer_id)
    return it != transactions.aborting.end() and header.base_offset <= dereference(it).second


# Mapping

cdef int _start(Round* round, int64_t keys_max) except? -1 nogil:
    cdef PartitionLog* log = round.log.get()
    cdef int code = cleanable_find(log, round.now_ms, &round.found)
    if code != OK or not round.found.is_due:
        return code
    round.was_full = log.storage.get().is_full.load()
    round.horizon_ms = round.now_ms + min(
        round.found.settings.delete_retention_ms, INT64_MAX - max(round.now_ms, <int64_t>0)
    )
    _note_living(round)
    code = _start_transactions(round)
    if code == OK:
        code = offset_map_start(&round.map, keys_max)
    round.slots_end = round.found.segments.size()
    while round.found.segments[round.slot].get().end_offset.load() <= round.found.dirty_offset:
        round.slot += 1
    round.mapped_end = round.found.segments.back().get().end_offset.load()
    return code


cdef void _note_living(Round* round) noexcept nogil:
    cdef PartitionLog* log = round.log.get()
    cdef LastOfProducer last
    log.guard.lock()
    for entry in log.producers.producers:
        last.epoch = entry.second.epoch
        last.data_offset = -1
        if entry.second.count > 0:
            last.data_offset = entry.second.batches[entry.second.count - 1].last_offset
        round.living[entry.first] = last
    log.guard.unlock()


cdef int _map_on(Round* round) except? -1 nogil:
    """0: all is mapped that can be; UNPACK; or a code."""
    cdef BatchHeader* header = &round.source.header
    cdef bint is_full = False
    cdef int code
    while not is_full:
        code = _next_batch(round)
        if code <= 0:
            return code
        if header.attributes & ATTRIBUTE_CONTROL or header.records_count == 0:
            continue
        if _last_offset(header) < round.found.dirty_offset:
            continue
        if _is_aborted(&round.transactions, header):
            continue
        code = _open_records(round)
        if code != OK:
            return code
        is_full = _map_batch(round)
        round.is_unpacked = False
    return OK


cdef bint _map_batch(Round* round) except? -1 nogil:
    """Whether the map is full; then it ends before the first record that it has not got."""
    cdef RecordView record
    cdef int64_t offset
    cdef int32_t _i
    for _i in range(round.claim.count):
        record_next(&round.records, &record)
        offset = round.source.header.base_offset + record.offset_delta
        if record.key_size < 0 or offset < round.found.dirty_offset:
            continue
        if not offset_map_put(&round.map, record.key, record.key_size, offset):
            round.mapped_end = offset
            return True
    return False


cdef void _end_map_before_damage(Round* round) noexcept nogil:
    round.found.segments.resize(round.slot)
    round.mapped_end = min(round.mapped_end, round.damaged_base)


# Judging

cdef int _judge(Round* round, Verdict* verdict, bint* sets_horizon) except? -1 nogil:
    """What becomes of the batch; fills `keep` where it is rewritten. OK, UNPACK or a code."""
    cdef BatchHeader* header = &round.source.header
    cdef bint is_aborted
    verdict[0] = COPY
    sets_horizon[0] = False
    if header.base_offset >= round.mapped_end:
        return OK  # a later round's
    is_aborted = _is_aborted(&round.transactions, header)
    if header.attributes & ATTRIBUTE_CONTROL:
        return _judge_marker(round, verdict, sets_horizon)
    if header.attributes & ATTRIBUTE_TRANSACTIONAL:
        round.transactions.with_data.insert(header.producer_id)
    if header.records_count == 0:
        verdict[0] = COPY if _must_show(round) else DROP
        return OK
    if is_aborted:
        verdict[0] = EMPTY if _must_show(round) else DROP
        return OK
    return _judge_records(round, verdict, sets_horizon)


cdef int _judge_marker(Round* round, Verdict* verdict, bint* sets_horizon) except? -1 nogil:
    cdef BatchHeader* header = &round.source.header
    cdef int32_t coordinator_epoch
    cdef int kind = -1
    if header.records_count == 0:
        verdict[0] = COPY if _must_show(round) else DROP
        return OK
    kind = batch_control_type(
        round.source.window.data() + round.source.at, header, &coordinator_epoch
    )
    if kind < 0 or header.producer_id < 0:
        return OK  # another kind of control record: not ours to judge
    if round.transactions.with_data.erase(header.producer_id) > 0:
        return OK
    if kind == CONTROL_ABORT:
        round.forgotten.push_back(_last_offset(header))
    if not header.attributes & ATTRIBUTE_DELETE_HORIZON:
        verdict[0] = REWRITE
        sets_horizon[0] = True
        round.keep.assign(header.records_count, 1)
        return _open_records(round)
    if round.now_ms >= header.base_timestamp:
        verdict[0] = EMPTY if _must_show(round) else DROP
    return OK


cdef bint _must_show(Round* round) noexcept nogil:
    """Whether the batch stays as a header once it has no records."""
    cdef BatchHeader* header = &round.source.header
    cdef LastOfProducer last
    if _last_offset(header) + 1 == round.mapped_end:
        return True
    it = round.living.find(header.producer_id)
    if header.producer_id < 0 or it == round.living.end():
        return False
    last = dereference(it).second
    if last.data_offset >= 0:
        return last.data_offset == _last_offset(header)
    # A marker is all that shows the producer's epoch.
    return header.attributes & ATTRIBUTE_CONTROL != 0 and last.epoch == header.producer_epoch


cdef int _judge_records(Round* round, Verdict* verdict, bint* sets_horizon) except? -1 nogil:
    cdef BatchHeader* header = &round.source.header
    cdef bint has_horizon = header.attributes & ATTRIBUTE_DELETE_HORIZON != 0
    cdef bint tombstones_go = has_horizon and round.now_ms >= header.base_timestamp
    cdef bint has_tombstone = False
    cdef Cursor records
    cdef RecordView record
    cdef int64_t offset
    cdef int32_t i, kept = 0
    cdef int code = _open_records(round)
    if code != OK:
        return code
    records = round.records
    round.keep.resize(round.claim.count)
    for i in range(round.claim.count):
        record_next(&records, &record)
        offset = header.base_offset + record.offset_delta
        round.keep[i] = _stays(round, offset, &record, tombstones_go)
        kept += round.keep[i]
        has_tombstone = has_tombstone or (round.keep[i] and record.value_size < 0)
    # A tombstone that the map does not know yet has not removed anything yet.
    sets_horizon[0] = has_tombstone and not has_horizon and _last_offset(header) < round.mapped_end
    if kept == 0:
        verdict[0] = EMPTY if _must_show(round) else DROP
    elif kept < round.claim.count or sets_horizon[0]:
        verdict[0] = REWRITE
    return OK


cdef inline bint _stays(
    Round* round, int64_t offset, const RecordView* record, bint tombstones_go
) noexcept nogil:
    cdef int64_t mapped
    if offset >= round.mapped_end:
        return True
    if record.key_size < 0 or (tombstones_go and record.value_size < 0):
        return False
    mapped = offset_map_get(&round.map, record.key, record.key_size)
    # Beyond the end of the map lies what could not be read on: it replaces nothing.
    return mapped <= offset or mapped >= round.mapped_end


# Rewriting

cdef int _rewrite(Round* round, bint sets_horizon) except? -1 nogil:
    """Puts what stays of the batch into `rewritten`, uncompressed. OK, or PACK."""
    cdef BatchHeader* header = &round.rewritten_header
    header[0] = round.source.header
    if sets_horizon:
        header.base_timestamp = round.horizon_ms
        header.attributes |= ATTRIBUTE_DELETE_HORIZON
    round.rewritten.resize(BATCH_HEADER_SIZE)
    records_retain(
        round.records, &round.claim, round.keep.data(), header.base_timestamp, round.rewritten
    )
    _count_kept(round, header)
    return PACK if header.attributes & ATTRIBUTE_CODEC else OK


cdef void _count_kept(Round* round, BatchHeader* header) noexcept nogil:
    cdef bint has_own_time = not header.attributes & ATTRIBUTE_APPEND_TIME
    cdef Cursor records = round.records
    cdef RecordView record
    cdef int64_t timestamp
    cdef int32_t i
    header.records_count = 0
    for i in range(round.claim.count):
        record_next(&records, &record)
        if not round.keep[i]:
            continue
        timestamp = record_timestamp(&round.claim, &record, -1)
        if has_own_time and (header.records_count == 0 or timestamp > header.max_timestamp):
            header.max_timestamp = timestamp
        header.records_count += 1


cdef void _empty(Round* round) noexcept nogil:
    """A header without records is what `rewritten` becomes; the largest timestamp stays in it."""
    round.rewritten_header = round.source.header
    round.rewritten_header.attributes &= ~(ATTRIBUTE_CODEC | ATTRIBUTE_DELETE_HORIZON)
    round.rewritten_header.base_timestamp = -1
    round.rewritten_header.records_count = 0


cdef int _put_rewritten(Round* round) except? -1 nogil:
    """Seals `rewritten` under its header and gives it to the output. The batch is done with."""
    cdef BatchHeader* header = &round.rewritten_header
    cdef uint8_t* data = round.rewritten.data()
    header.size = round.rewritten.size()
    batch_store_header(data, header)
    header.crc = crc32c(0, data + BATCH_CRC_FROM, header.size - BATCH_CRC_FROM)
    batch_store_header(data, header)
    round.is_unpacked = False
    return _put(round, data, header)


# Writing

cdef int _start_group(Round* round, size_t first, size_t end) except? -1 nogil:
    cdef PartitionLog* log = round.log.get()
    cdef Output* output = &round.output
    output.segment = segment_new(
        log.directory, round.found.segments[first].get().base_offset
    )
    output.segment.get().index_is_loaded = True
    output.segment.get().largest_is_known = True
    output.file.reset()
    output.waiting.clear()
    output.written = output.position = 0
    round.slot = first
    round.slots_end = end
    # A segment alone may turn out to need no change; several become one file in any case.
    return OK if end - first == 1 else _begin_file(round)


cdef int _clean_on(Round* round) except? -1 nogil:
    """0: the group is through; UNPACK; PACK; or a code."""
    cdef Verdict verdict
    cdef bint sets_horizon
    cdef int code
    while True:
        code = _next_batch(round)
        if code <= 0:
            return code
        code = _judge(round, &verdict, &sets_horizon)
        if code == OK and verdict != COPY:
            code = _begin_file(round)
        if code == OK:
            code = _carry_out(round, verdict, sets_horizon)
        if code != OK:
            return code
        round.is_unpacked = False


cdef int _carry_out(Round* round, Verdict verdict, bint sets_horizon) except? -1 nogil:
    cdef int code = OK
    if verdict == COPY:
        return _put(round, round.source.window.data() + round.source.at, &round.source.header)
    if verdict == EMPTY:
        _empty(round)
        round.rewritten.resize(BATCH_HEADER_SIZE)
    elif verdict == REWRITE:
        code = _rewrite(round, sets_horizon)
    return code if code != OK or verdict == DROP else _put_rewritten(round)


cdef int _put(Round* round, const uint8_t* data, const BatchHeader* header) except? -1 nogil:
    cdef Output* output = &round.output
    cdef int code
    if output.position + header.size > SEGMENT_SIZE_MAX:
        return BATCH_LARGER_THAN_SEGMENT  # 2 GiB of batches that all got larger: not in this world
    segment_note(
        output.segment.get(), header, output.position, round.found.settings.index_interval_bytes
    )
    output.position += header.size
    if output.file.get() == NULL:
        return OK
    if <int64_t>output.waiting.size() + header.size > WRITE_SIZE:
        code = _write_waiting(round)
        if code != OK:
            return code
    output.waiting.insert(output.waiting.end(), data, data + header.size)
    return OK


cdef int _write_waiting(Round* round) noexcept nogil:
    cdef Output* output = &round.output
    cdef int code
    # Compaction gives space back, but first it takes some: clients must not be refused for that.
    if not round.was_full and round.log.get().storage.get().is_full.load():
        return STORAGE_FULL
    code = write_whole(
        output.file.get().fd, output.waiting.data(), output.waiting.size(), output.written
    )
    output.written += output.waiting.size()
    output.waiting.clear()
    return code


cdef int _begin_file(Round* round) except? -1 nogil:
    """Creates the file, with the batches that were noted so far and all come from this segment."""
    cdef char[NAME_SIZE] name
    cdef Output* output = &round.output
    cdef int64_t got
    cdef int fd, code = OK
    if output.file.get() != NULL:
        return OK
    file_name(name, output.segment.get().base_offset, b".log.cleaned")
    fd = open_file(round.log.get().directory.get().fd, name, O_RDWR | O_CREAT | O_TRUNC)
    if fd < 0:
        return fd
    output.file = file_own(fd)
    while code == OK and output.written < output.position:
        output.waiting.resize(min(<int64_t>WRITE_SIZE, output.position - output.written))
        got = read_whole(
            round.source.file.get().fd, output.waiting.data(), output.waiting.size(), output.written
        )
        if got != <int64_t>output.waiting.size():
            return <int>min(got, <int64_t>STORAGE_IO)
        code = _write_waiting(round)
    return code


cdef int _finish_group(Round* round, size_t first, size_t end) except? -1 nogil:
    cdef PartitionLog* log = round.log.get()
    cdef Output* output = &round.output
    cdef vector[SegmentRef] group
    cdef size_t i
    cdef int code
    for i in range(first, end):
        group.push_back(round.found.segments[i])
        # The old file goes with its last reader, which this round shall not be.
        round.found.segments[i].reset()
    if output.file.get() == NULL:
        return OK
    code = _write_waiting(round)
    if code == OK:
        code = sync_file(output.file.get().fd)
    if code == OK:
        code = _name_swap(round)
    if code != OK:
        return code
    segment_seal_times(output.segment.get())
    output.segment.get().file = output.file
    output.segment.get().synced_size = output.position
    output.segment.get().written_behind = output.position
    _forget(round)
    code = log_swap(log, group, output.segment)
    output.file.reset()
    if code != OK:
        _drop_swap(round)
    return code


cdef int _name_swap(Round* round) noexcept nogil:
    cdef char[NAME_SIZE] name
    cdef char[NAME_SIZE] swap
    cdef int directory_fd = round.log.get().directory.get().fd
    file_name(name, round.output.segment.get().base_offset, b".log.cleaned")
    file_name(swap, round.output.segment.get().base_offset, b".log.swap")
    if renameat(directory_fd, name, directory_fd, swap) < 0:
        return storage_code(errno)
    return OK


cdef void _drop_swap(Round* round) noexcept nogil:
    """Only before the commit point: once the journal may name the file, recovery must find it."""
    cdef char[NAME_SIZE] name
    cdef PartitionLog* log = round.log.get()
    log.saved_guard.lock()
    if log.saved.swap_base < 0:
        file_name(name, round.output.segment.get().base_offset, b".log.swap")
        unlinkat(log.directory.get().fd, name, 0)
    log.saved_guard.unlock()


cdef void _give_up_group(Round* round) noexcept nogil:
    cdef char[NAME_SIZE] name
    if round.output.file.get() != NULL:
        file_name(name, round.output.segment.get().base_offset, b".log.cleaned")
        unlinkat(round.log.get().directory.get().fd, name, 0)
        round.output.file.reset()


cdef void _forget(Round* round) noexcept nogil:
    """Aborted transactions without data must not be told to readers once their marker is gone: a
    reader ignores the producer until it meets that marker."""
    cdef PartitionLog* log = round.log.get()
    cdef unordered_set[int64_t] markers
    cdef size_t i, kept = 0
    if round.forgotten.empty():
        return
    for marker in round.forgotten:
        markers.insert(marker)
    round.forgotten.clear()
    log.list_guard.lock()
    for i in range(log.aborted.size()):
        if markers.count(log.aborted[i].last_offset) == 0:
            log.aborted[kept] = log.aborted[i]
            kept += 1
    log.aborted.resize(kept)
    log.list_guard.unlock()


cdef int _start_cleaning(Round* round, size_t* end) except? -1 nogil:
    """The walk over everything; `end` is the slot behind the last segment that the map reaches."""
    round.source.file.reset()
    round.is_unpacked = False
    end[0] = round.found.segments.size()
    while end[0] > 0 and round.found.segments[end[0] - 1].get().base_offset >= round.mapped_end:
        end[0] -= 1
    return _start_transactions(round)


# ---- with the GIL ----

# The maintenance lock is held while this waits for the GIL. That is safe because nobody waits for
# that lock with the GIL in hand, and no thread of the data plane ever takes it.

cdef bint compact(const LogRef& log, int64_t now_ms, int64_t keys_max) except? -1:
    cdef shared_ptr[Round] owner = make_shared[Round]()
    owner.get().log = log
    owner.get().now_ms = now_ms
    with nogil:
        log.get().maintenance.lock()
    try:
        return _compact(owner.get(), keys_max)
    finally:
        log.get().maintenance.unlock()


cdef bint _compact(Round* round, int64_t keys_max) except? -1:
    cdef int code
    with nogil:
        code = _start(round, keys_max)
    _raise(round, code)
    if not round.found.is_due:
        return False
    problem = _map(round)
    if round.mapped_end > round.found.dirty_offset:
        problem = _clean(round) or problem
    if problem is not None:
        raise problem
    return True


# A loop around the block, for once: each turn is as long as decompressing a batch.

cdef object _map(Round* round):
    """Fills the map. None, or the damage that ends it early, as an exception."""
    cdef int code = UNPACK
    cdef bytes payload
    text = ""
    while code == UNPACK:
        with nogil:
            code = _map_on(round)
        if code == UNPACK:
            payload, text = _unpacked(round)
        if round.damage != OK:
            _end_map_before_damage(round)
            return _report_damage(round, text)
    _raise(round, code)
    return None


cdef object _clean(Round* round):
    """Group by group. None, or the damage that ends the round before its group, as an exception."""
    cdef size_t first = 0, group_end, end = 0
    cdef int code
    _start_cleaning(round, &end)
    while first < end:
        group_end = cleanable_group(&round.found, first, end)
        try:
            problem = _clean_group(round, first, group_end)
        finally:
            _give_up_group(round)
        if problem is not None:
            return problem
        first = group_end
    with nogil:
        code = log_save_cleaned(round.log.get(), round.mapped_end)
    _raise(round, code)
    return None


cdef object _clean_group(Round* round, size_t first, size_t end):
    cdef int code
    with nogil:
        code = _start_group(round, first, end)
    _raise(round, code)
    problem = _filter(round)
    if problem is None:
        _finish(round, first, end)
    return problem


cdef object _filter(Round* round):
    cdef int code = UNPACK
    cdef bytes payload
    text = ""
    while code != OK:
        with nogil:
            code = _clean_on(round)
        if code == UNPACK:
            payload, text = _unpacked(round)
        elif code == PACK:
            _raise(round, _put_packed(round))
        if round.damage != OK:
            return _report_damage(round, text)
        _raise(round, code)
    return None


cdef int _finish(Round* round, size_t first, size_t end) except -1:
    cdef int code
    with nogil:
        code = _finish_group(round, first, end)
    return _raise(round, code)


cdef tuple _unpacked(Round* round):
    """The records of the batch, for `round.records` to point into; or why there are none."""
    cdef BatchHeader* header = &round.source.header
    cdef const uint8_t* batch = round.source.window.data() + round.source.at
    packed = PyBytes_FromStringAndSize(
        <const char*>batch + BATCH_HEADER_SIZE, header.size - BATCH_HEADER_SIZE
    )
    try:
        payload = compression.decompress(header.attributes & ATTRIBUTE_CODEC, packed)
    except ApplianceError as error:
        _damaged(round, BATCH_INVALID)
        return None, f": {error}"
    round.records.at = <const uint8_t*>PyBytes_AS_STRING(payload)
    round.records.end = round.records.at + len(payload)
    round.is_unpacked = _check_records(round) == OK
    return payload, ""


cdef int _put_packed(Round* round) except? -1:
    cdef vector[uint8_t]* batch = &round.rewritten
    cdef const char* records = <const char*>batch.data() + BATCH_HEADER_SIZE
    packed = compression.compress(
        round.rewritten_header.attributes & ATTRIBUTE_CODEC,
        PyBytes_FromStringAndSize(records, batch.size() - BATCH_HEADER_SIZE),
    )
    cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(packed)
    cdef size_t size = len(packed)
    batch.resize(BATCH_HEADER_SIZE)
    batch.insert(batch.end(), data, data + size)
    return _put_rewritten(round)


cdef object _report_damage(Round* round, str text):
    """The exception for it, once: later rounds of this life stop before that segment in silence."""
    cdef int code = round.damage
    round.damage = OK
    round.log.get().damaged_from = round.damaged_base + 1
    return from_code(code, (
        f"{_name(round)}: compaction stops before segment {round.damaged_base}, which cannot be "
        f"read at position {round.damaged_position}{text}"
    ))


cdef str _name(Round* round):
    return (<bytes>round.log.get().name).decode()


cdef int _raise(Round* round, int code) except -1:
    if code >= 0:
        return 0
    facts = f"{_name(round)}: compaction given up"
    if round.output.segment.get() != NULL:
        facts += (
            f" at the new segment {round.output.segment.get().base_offset}, "
            f"{round.output.position} bytes long so far"
        )
    raise from_code(code, facts)

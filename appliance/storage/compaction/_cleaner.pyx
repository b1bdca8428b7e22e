"""Compaction: keeps only the last record of every key, at its old offset.

A round
1. finds the segments it may touch and whether they are worth it (`_cleanable.pyx`);
2. reads the dirty ones and maps each key to its last offset (`_offset_map.pyx`). A full map ends
   the round there;
3. goes through all of them again, clean ones too, in groups of neighbours that fit one segment.
   What survives (`_survivors.pyx`) is written to a new segment (`_replacement.pyx`), and log_swap
   is the commit point of that group;
4. saves how far it came.
Groups go from old to new, so that a tombstone never goes before what it deletes. An error or a
crash between two groups loses nothing: the next round starts from the same dirty offset.

What cannot be read is not dropped: the round ends before that group. It and every later round of
this life do what can be done before that segment, and then raise why they stop there.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.memory cimport make_shared, shared_ptr
from libcpp.unordered_set cimport unordered_set
from libcpp.vector cimport vector

from appliance.native._codes cimport BATCH_INVALID, BATCH_TORN, OK, STORAGE_IO
from appliance.record._batch cimport (
    ATTRIBUTE_CODEC, ATTRIBUTE_CONTROL, BATCH_HEADER_SIZE, BatchHeader,
)
from appliance.record._records cimport RecordView, record_next
from appliance.storage._partition_log cimport LogRef, PartitionLog, Unreadable
from appliance.storage._read cimport log_note_fault
from appliance.storage._segment cimport SegmentRef
from appliance.storage._swap cimport log_save_cleaned, log_swap
from appliance.storage.compaction._cleanable cimport Cleanable, cleanable_find, cleanable_group
from appliance.storage.compaction._offset_map cimport offset_map_put, offset_map_start
from appliance.storage.compaction._replacement cimport (
    Replacement, replacement_begin, replacement_drop, replacement_finish, replacement_put,
    replacement_start,
)
from appliance.storage.compaction._segment_reader cimport (
    SegmentReader, reader_batch, reader_next, reader_open,
)
from appliance.storage.compaction._survivors cimport (
    COPY, DROP, PACK, UNPACK, Rules, Subject, Verdict, rules_is_aborted, rules_judge, rules_start,
    rules_walk, subject_open, subject_open_at, subject_rewrite, subject_seal, subject_take,
)

from appliance.errors import ApplianceError, from_code
from appliance.record import compression

cdef cppclass Round:
    LogRef log
    Cleanable cleanable
    Rules rules
    size_t slot                    # of the segment being read
    size_t slots_end               # where this walk stops
    SegmentReader reader
    Subject batch                  # at hand
    Replacement into
    Unreadable damage              # met in this round


# ---- without the GIL ----

cdef int _start(Round* round, int64_t now_ms, int64_t latest_ms, int64_t keys_max) except? -1 nogil:
    cdef PartitionLog* log = round.log.get()
    cdef int code = cleanable_find(log, now_ms, &round.cleanable)
    if code != OK or not round.cleanable.is_due:
        return code
    round.into.storage = log.storage
    round.into.directory = log.directory
    round.into.may_fill = log.storage.get().is_full.load()
    round.into.index_interval = round.cleanable.settings.index_interval_bytes
    round.rules.now_ms, round.rules.latest_ms = now_ms, latest_ms
    round.rules.mapped_end = round.cleanable.segments.back().get().end_offset.load()
    code = offset_map_start(&round.rules.map, keys_max)
    if code == OK:
        code = rules_start(&round.rules, log, round.cleanable.settings.delete_retention_ms)
    if code == OK:
        code = rules_walk(&round.rules, log)
    round.slots_end = round.cleanable.segments.size()
    while (round.cleanable.segments[round.slot].get().end_offset.load()
           <= round.cleanable.dirty_offset):
        round.slot += 1
    return code


cdef int _next_batch(Round* round) except? -1 nogil:
    """1: a batch is at hand; 0: the walk is over; or a code, which for damage is remembered."""
    cdef int code = OK
    while code == OK:
        if round.reader.file.get() == NULL:
            if round.slot == round.slots_end:
                return 0
            code = reader_open(&round.reader, round.cleanable.segments[round.slot])
        else:
            code = reader_next(&round.reader)
            if code == 0:
                round.reader.file.reset()
                round.slot += 1
    if code < 0:
        return _damaged(round, code)
    subject_take(&round.batch, reader_batch(&round.reader), &round.reader.header)
    return 1


cdef int _damaged(Round* round, int code) noexcept nogil:
    if BATCH_INVALID <= code <= BATCH_TORN or code == STORAGE_IO:
        round.damage.code = code
        round.damage.base_offset = round.cleanable.segments[round.slot].get().base_offset
        round.damage.position = round.reader.position
        round.damage.text.clear()
    return code


# Mapping

cdef int _map_on(Round* round) except? -1 nogil:
    """0: all is mapped that can be; UNPACK, to be called again with records; or a code."""
    cdef int code
    while True:
        code = 1 if round.batch.has_records else _next_batch(round)
        if code <= 0:
            return code
        code = _map_batch(round)
        if code != OK or round.slots_end == 0:
            return code
        round.batch.has_records = False


cdef int _map_batch(Round* round) except? -1 nogil:
    """OK, UNPACK or a code. When the map is full it ends before the first record it lacks."""
    cdef BatchHeader* header = &round.batch.header
    cdef RecordView record
    cdef int64_t offset
    cdef int32_t _i
    cdef int code
    if header.attributes & ATTRIBUTE_CONTROL or header.records_count == 0:
        return OK
    if header.base_offset + header.last_offset_delta < round.cleanable.dirty_offset:
        return OK
    if rules_is_aborted(&round.rules, header):
        return OK
    code = subject_open(&round.batch)
    if code != OK:
        return code if code == UNPACK else _damaged(round, code)
    for _i in range(round.batch.claim.count):
        record_next(&round.batch.records, &record)
        offset = header.base_offset + record.offset_delta
        if record.key_size < 0 or offset < round.cleanable.dirty_offset:
            continue
        if not offset_map_put(&round.rules.map, record.key, record.key_size, offset):
            round.rules.mapped_end = offset
            round.slots_end = 0
            break
    return OK


cdef void _end_before_damage(Round* round) noexcept nogil:
    round.cleanable.segments.resize(round.slot)
    round.rules.mapped_end = min(round.rules.mapped_end, round.damage.base_offset)


# Cleaning

cdef int _start_cleaning(Round* round, size_t* end) except? -1 nogil:
    """The walk over everything; `end` is the slot behind the last segment that the map reaches."""
    cdef vector[SegmentRef]* segments = &round.cleanable.segments
    round.reader.file.reset()
    round.batch.has_records = False
    end[0] = segments.size()
    while end[0] > 0 and segments.at(end[0] - 1).get().base_offset >= round.rules.mapped_end:
        end[0] -= 1
    return rules_walk(&round.rules, round.log.get())


cdef int _start_group(Round* round, size_t first, size_t end) except? -1 nogil:
    replacement_start(&round.into, round.cleanable.segments[first].get().base_offset)
    round.slot = first
    round.slots_end = end
    # A segment alone may turn out to need no change; several become one in any case.
    return OK if end - first == 1 else replacement_begin(&round.into, -1)


cdef int _clean_on(Round* round) except? -1 nogil:
    """0: the group is through; UNPACK; PACK; or a code."""
    cdef int code
    while True:
        code = 1 if round.batch.has_records else _next_batch(round)
        if code <= 0:
            return code
        code = _clean_batch(round)
        if code != OK:
            return code
        round.batch.has_records = False


cdef int _clean_batch(Round* round) except? -1 nogil:
    cdef Subject* batch = &round.batch
    cdef Verdict verdict
    cdef int code = rules_judge(&round.rules, batch, &verdict)
    if code != OK:
        return code if code == UNPACK else _damaged(round, code)
    if verdict == COPY:
        return replacement_put(&round.into, batch.data, &batch.header)
    code = replacement_begin(&round.into, round.reader.file.get().fd)
    if code != OK or verdict == DROP:
        return code
    code = subject_rewrite(batch, verdict, round.rules.horizon_ms)
    return code if code != OK else _put_rewritten(round)


cdef int _put_rewritten(Round* round) except? -1 nogil:
    subject_seal(&round.batch)
    round.batch.has_records = False
    return replacement_put(
        &round.into, round.batch.rewritten.data(), &round.batch.new_header
    )


cdef int _finish_group(Round* round, size_t first, size_t end) except? -1 nogil:
    cdef PartitionLog* log = round.log.get()
    cdef vector[SegmentRef] group
    cdef size_t i
    cdef int code
    for i in range(first, end):
        group.push_back(round.cleanable.segments[i])
        # The old file goes with its last reader, which this round shall not be.
        round.cleanable.segments[i].reset()
    round.reader.segment.reset()
    if round.into.file.get() == NULL:
        return OK
    code = replacement_finish(&round.into)
    if code != OK:
        return code
    _forget(round, group.front().get().base_offset, group.back().get().end_offset.load())
    code = log_swap(log, group, round.into.segment, True, NULL)
    if code != OK:
        log.saved_guard.lock()
        # Once the journal may name the file, recovery must find it.
        if log.saved.swap_base < 0:
            replacement_drop(&round.into, True)
        log.saved_guard.unlock()
    return code


cdef void _forget(Round* round, int64_t base, int64_t end) noexcept nogil:
    """Aborted transactions without data must not be told to readers once their marker is gone: a
    reader ignores the producer until it meets that marker. Gone is also one in a hole that readers
    pass: its data went in this round, here or in a group before."""
    cdef PartitionLog* log = round.log.get()
    cdef unordered_set[int64_t] markers
    cdef size_t i, kept = 0
    for marker in round.rules.forgotten:
        markers.insert(marker)
    round.rules.forgotten.clear()
    log.list_guard.lock()
    for i in range(log.aborted.size()):
        if markers.count(log.aborted[i].last_offset) == 0 and not (
            base <= log.aborted[i].last_offset < end
            and _is_passed(log, log.aborted[i].last_offset)
        ):
            log.aborted[kept] = log.aborted[i]
            kept += 1
    log.aborted.resize(kept)
    log.list_guard.unlock()


cdef bint _is_passed(PartitionLog* log, int64_t offset) noexcept nogil:
    """list_guard is held."""
    cdef size_t i
    for i in range(log.holes.size()):
        if log.holes[i].first_offset <= offset < log.holes[i].end_offset:
            return log.holes[i].is_skipped
    return False


# ---- with the GIL ----

# The maintenance lock is held while this waits for the GIL. That is safe because nobody waits for
# that lock with the GIL in hand, and no thread of the data plane ever takes it.

cdef bint compact(const LogRef& log, int64_t now_ms, int64_t latest_ms,
                  int64_t keys_max) except? -1:
    cdef shared_ptr[Round] owner = make_shared[Round]()
    owner.get().log = log
    with nogil:
        log.get().maintenance.lock()
    try:
        return _compact(owner.get(), now_ms, latest_ms, keys_max)
    finally:
        log.get().maintenance.unlock()


cdef bint _compact(Round* round, int64_t now_ms, int64_t latest_ms,
                   int64_t keys_max) except? -1:
    cdef int code
    with nogil:
        code = _start(round, now_ms, latest_ms, keys_max)
    _raise(round, code)
    if round.cleanable.is_due:
        _map(round)
        if round.rules.mapped_end > round.cleanable.dirty_offset:
            _clean(round)
    if round.cleanable.settings.cleanup_compact:
        _raise_damage(round)
    return round.cleanable.is_due


# A loop around the block, for once: each turn is as long as decompressing a batch.

cdef int _map(Round* round) except -1:
    """Fills the map, up to its limit or to damage."""
    cdef int code = UNPACK
    cdef bytes _payload            # what the batch points into, once it is unpacked
    while code == UNPACK:
        with nogil:
            code = _map_on(round)
        if code == UNPACK:
            _payload = _unpacked(round)
        if round.damage.code != OK:
            _end_before_damage(round)
            return _note_damage(round)
    return _raise(round, code)


cdef int _clean(Round* round) except -1:
    """Group by group, up to one that is damaged."""
    cdef size_t first = 0, group_end, end = 0
    cdef int code
    _start_cleaning(round, &end)
    while first < end:
        group_end = cleanable_group(&round.cleanable, first, end)
        try:
            _clean_group(round, first, group_end)
        finally:
            replacement_drop(&round.into, False)
        if round.damage.code != OK:
            return _note_damage(round)
        first = group_end
    with nogil:
        code = log_save_cleaned(round.log.get(), round.rules.mapped_end)
    return _raise(round, code)


cdef int _clean_group(Round* round, size_t first, size_t end) except -1:
    cdef int code
    with nogil:
        code = _start_group(round, first, end)
    _raise(round, code)
    _filter(round)
    return 0 if round.damage.code != OK else _finish(round, first, end)


cdef int _filter(Round* round) except -1:
    cdef int code = UNPACK
    cdef bytes _payload            # what the batch points into, once it is unpacked
    while code != OK and round.damage.code == OK:
        with nogil:
            code = _clean_on(round)
        if code == UNPACK:
            _payload = _unpacked(round)
        elif code == PACK:
            _raise(round, _put_packed(round))
        elif round.damage.code == OK:
            _raise(round, code)
    return 0


cdef int _finish(Round* round, size_t first, size_t end) except -1:
    cdef int code
    with nogil:
        code = _finish_group(round, first, end)
    return _raise(round, code)


cdef bytes _unpacked(Round* round):
    """The records of the batch, which it points into from now on; None when there are none."""
    cdef BatchHeader* header = &round.batch.header
    cdef int code
    packed = PyBytes_FromStringAndSize(
        <const char*>round.batch.data + BATCH_HEADER_SIZE, header.size - BATCH_HEADER_SIZE
    )
    try:
        payload = compression.decompress(header.attributes & ATTRIBUTE_CODEC, packed)
    except ApplianceError as error:
        _damaged(round, BATCH_INVALID)
        round.damage.text = f": {error}".encode()
        return None
    code = subject_open_at(
        &round.batch, <const uint8_t*>PyBytes_AS_STRING(payload), len(payload)
    )
    if code != OK:
        _damaged(round, code)
    return payload


cdef int _put_packed(Round* round) except? -1:
    cdef vector[uint8_t]* batch = &round.batch.rewritten
    cdef const uint8_t* data
    cdef size_t size
    packed = compression.compress(
        round.batch.new_header.attributes & ATTRIBUTE_CODEC,
        PyBytes_FromStringAndSize(
            <const char*>batch.data() + BATCH_HEADER_SIZE, batch.size() - BATCH_HEADER_SIZE
        ),
    )
    data = <const uint8_t*>PyBytes_AS_STRING(packed)
    size = len(packed)
    batch.resize(BATCH_HEADER_SIZE)
    batch.insert(batch.end(), data, data + size)
    return _put_rewritten(round)


cdef int _note_damage(Round* round) except -1:
    round.log.get().unreadable = round.damage
    log_note_fault(round.log.get(), round.damage.base_offset, round.damage.base_offset,
                   round.damage.code)
    round.damage.code = OK
    return 0


cdef int _raise_damage(Round* round) except -1:
    cdef Unreadable* damage = &round.log.get().unreadable
    if damage.code == OK:
        return 0
    text = (<bytes>damage.text).decode()
    raise from_code(damage.code, (
        f"{_name(round)}: compaction stops before segment {damage.base_offset}, which cannot be "
        f"read at position {damage.position}{text}"
    ))


cdef str _name(Round* round):
    return (<bytes>round.log.get().name).decode()


cdef int _raise(Round* round, int code) except -1:
    if code >= 0:
        return 0
    facts = f"{_name(round)}: compaction given up"
    if round.into.segment.get() != NULL:
        facts += (
            f" at the new segment {round.into.segment.get().base_offset}, "
            f"{round.into.position} bytes long so far"
        )
    raise from_code(code, facts)

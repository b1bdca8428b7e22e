"""The records that compaction keeps and drops.

A record below the end of the map
    a later record of its key is mapped          dropped
    no key                                       dropped
    no value (a tombstone)                       its batch gets a delete horizon, now +
                                                 delete.retention.ms, and it goes in a later round
                                                 after that
    of an aborted transaction                    dropped
A transaction's marker
    data of the transaction was read before it   stays: as long as a byte of it is there, readers
                                                 must learn how it ended
    none was                                     a horizon, then dropped, as a tombstone
A batch with nothing left
    last of a living producer, or of the round   stays as a header: it shows sequence and offset
    otherwise                                    dropped
Whatever begins behind the end of the map        stays as it is

A horizon stands in the batch itself (base timestamp, with its own attribute bit), for a file's time
is changed by every backup. That a marker goes only in a round that read none of its data, in which
the horizon was there already, means: only when the data is gone from the disk, not just from here.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libcpp.algorithm cimport sort

from cython.operator cimport dereference

from appliance._crc cimport crc32c
from appliance.native._bytes cimport Cursor
from appliance.native._codes cimport OK
from appliance.record._batch cimport (
    ATTRIBUTE_APPEND_TIME, ATTRIBUTE_CODEC, ATTRIBUTE_CONTROL, ATTRIBUTE_DELETE_HORIZON,
    ATTRIBUTE_TRANSACTIONAL, BATCH_CRC_FROM, BATCH_HEADER_SIZE, CONTROL_ABORT, BatchHeader,
    batch_claim, batch_control_type, batch_store_header,
)
from appliance.record._records cimport (
    RecordView, record_next, record_timestamp, records_check, records_retain,
)
from appliance.storage._index cimport AbortedTxn
from appliance.storage._partition_log cimport PartitionLog
from appliance.storage.compaction._offset_map cimport offset_map_get


# ---- without the GIL ----

cdef int rules_start(Rules* rules, PartitionLog* log, int64_t delete_retention_ms) except? -1 nogil:
    cdef LastOfProducer last
    rules.horizon_ms = INT64_MAX
    if rules.latest_ms < INT64_MAX - delete_retention_ms:
        rules.horizon_ms = rules.latest_ms + delete_retention_ms
    log.guard.lock()
    for entry in log.producers.producers:
        last.epoch = entry.second.epoch
        last.data_offset = -1
        if entry.second.count > 0:
            last.data_offset = entry.second.batches[entry.second.count - 1].last_offset
        rules.living[entry.first] = last
    log.guard.unlock()
    return OK


# Transactions

cdef bint _begins_before(const AbortedTxn& one, const AbortedTxn& other) noexcept nogil:
    return one.first_offset < other.first_offset


cdef int rules_walk(Rules* rules, PartitionLog* log) except? -1 nogil:
    cdef Transactions fresh
    log.list_guard.lock()
    fresh.aborted = log.aborted
    log.list_guard.unlock()
    fresh.next = 0
    sort(fresh.aborted.begin(), fresh.aborted.end(), _begins_before)
    rules.transactions = fresh
    return OK


cdef int64_t _last_offset(const BatchHeader* header) noexcept nogil:
    return header.base_offset + header.last_offset_delta


cdef bint rules_is_aborted(Rules* rules, const BatchHeader* header) except? -1 nogil:
    cdef Transactions* transactions = &rules.transactions
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


# Judging

cdef int rules_judge(Rules* rules, Subject* batch, Verdict* verdict) except? -1 nogil:
    cdef BatchHeader* header = &batch.header
    cdef bint is_aborted
    verdict[0] = COPY
    batch.sets_horizon = False
    if header.base_offset >= rules.mapped_end:
        return OK  # a later round's
    is_aborted = rules_is_aborted(rules, header)
    if header.attributes & ATTRIBUTE_CONTROL:
        return _judge_marker(rules, batch, verdict)
    if header.attributes & ATTRIBUTE_TRANSACTIONAL:
        rules.transactions.with_data.insert(header.producer_id)
    if header.records_count == 0:
        verdict[0] = COPY if _must_show(rules, header) else DROP
        return OK
    if is_aborted:
        verdict[0] = EMPTY if _must_show(rules, header) else DROP
        return OK
    return _judge_records(rules, batch, verdict)


cdef int _judge_marker(Rules* rules, Subject* batch, Verdict* verdict) except? -1 nogil:
    cdef BatchHeader* header = &batch.header
    cdef int32_t coordinator_epoch
    cdef int kind = -1
    if header.records_count == 0:
        verdict[0] = COPY if _must_show(rules, header) else DROP
        return OK
    kind = batch_control_type(batch.data, header, &coordinator_epoch)
    if kind < 0 or header.producer_id < 0:
        return OK  # another kind of control record: not ours to judge
    if rules.transactions.with_data.erase(header.producer_id) > 0:
        return OK
    if kind == CONTROL_ABORT:
        rules.forgotten.push_back(_last_offset(header))
    if not header.attributes & ATTRIBUTE_DELETE_HORIZON:
        verdict[0] = REWRITE
        batch.sets_horizon = True
        batch.keep.assign(header.records_count, 1)
        return subject_open(batch)
    if rules.now_ms >= header.base_timestamp:
        verdict[0] = EMPTY if _must_show(rules, header) else DROP
    return OK


cdef bint _must_show(Rules* rules, const BatchHeader* header) noexcept nogil:
    """Whether the batch stays as a header once it has no records."""
    cdef LastOfProducer last
    if _last_offset(header) + 1 == rules.mapped_end:
        return True
    it = rules.living.find(header.producer_id)
    if header.producer_id < 0 or it == rules.living.end():
        return False
    last = dereference(it).second
    if last.data_offset >= 0:
        return last.data_offset == _last_offset(header)
    # A marker is all that shows the producer's epoch.
    return header.attributes & ATTRIBUTE_CONTROL != 0 and last.epoch == header.producer_epoch


cdef int _judge_records(Rules* rules, Subject* batch, Verdict* verdict) except? -1 nogil:
    cdef BatchHeader* header = &batch.header
    cdef bint has_horizon = header.attributes & ATTRIBUTE_DELETE_HORIZON != 0
    cdef bint tombstones_go = has_horizon and rules.now_ms >= header.base_timestamp
    cdef bint has_tombstone = False
    cdef Cursor records
    cdef RecordView record
    cdef int64_t offset
    cdef int32_t i, kept = 0
    cdef int code = subject_open(batch)
    if code != OK:
        return code
    records = batch.records
    batch.keep.resize(batch.claim.count)
    for i in range(batch.claim.count):
        record_next(&records, &record)
        offset = header.base_offset + record.offset_delta
        batch.keep[i] = _stays(rules, offset, &record, tombstones_go)
        kept += batch.keep[i]
        has_tombstone = has_tombstone or (batch.keep[i] and record.value_size < 0)
    # A tombstone that the map does not know yet has not removed anything yet.
    if has_tombstone and not has_horizon:
        batch.sets_horizon = _last_offset(header) < rules.mapped_end
    if kept == 0:
        verdict[0] = EMPTY if _must_show(rules, header) else DROP
    elif kept < batch.claim.count or batch.sets_horizon:
        verdict[0] = REWRITE
    return OK


cdef inline bint _stays(
    Rules* rules, int64_t offset, const RecordView* record, bint tombstones_go
) noexcept nogil:
    cdef int64_t mapped
    if offset >= rules.mapped_end:
        return True
    if record.key_size < 0 or (tombstones_go and record.value_size < 0):
        return False
    mapped = offset_map_get(&rules.map, record.key, record.key_size)
    # Beyond the end of the map lies what could not be read on: it replaces nothing.
    return mapped <= offset or mapped >= rules.mapped_end


# The batch

cdef void subject_take(
    Subject* batch, const uint8_t* data, const BatchHeader* header
) noexcept nogil:
    batch.data = data
    batch.header = header[0]
    batch.has_records = False


cdef int subject_open(Subject* batch) noexcept nogil:
    if batch.has_records:
        return OK
    if batch.header.attributes & ATTRIBUTE_CODEC:
        return UNPACK
    return subject_open_at(
        batch, batch.data + BATCH_HEADER_SIZE, batch.header.size - BATCH_HEADER_SIZE
    )


cdef int subject_open_at(Subject* batch, const uint8_t* records, int64_t size) noexcept nogil:
    cdef int64_t max_timestamp
    cdef int code
    batch.records.at = records
    batch.records.end = records + size
    batch.records.failed = False
    batch.claim = batch_claim(&batch.header)
    code = records_check(records, size, &batch.claim, &max_timestamp)
    batch.has_records = code == OK
    return code


cdef int subject_rewrite(Subject* batch, Verdict verdict, int64_t horizon_ms) except? -1 nogil:
    cdef BatchHeader* header = &batch.new_header
    header[0] = batch.header
    batch.rewritten.resize(BATCH_HEADER_SIZE)
    if verdict == EMPTY:
        # The largest timestamp stays; there is nothing else left to say.
        header.attributes &= ~(ATTRIBUTE_CODEC | ATTRIBUTE_DELETE_HORIZON)
        header.base_timestamp = -1
        header.records_count = 0
        return OK
    if batch.sets_horizon:
        header.base_timestamp = horizon_ms
        header.attributes |= ATTRIBUTE_DELETE_HORIZON
    records_retain(
        batch.records, &batch.claim, batch.keep.data(), header.base_timestamp, batch.rewritten
    )
    _count_kept(batch)
    return PACK if header.attributes & ATTRIBUTE_CODEC else OK


cdef void _count_kept(Subject* batch) noexcept nogil:
    cdef BatchHeader* header = &batch.new_header
    cdef bint has_own_time = not header.attributes & ATTRIBUTE_APPEND_TIME
    cdef Cursor records = batch.records
    cdef RecordView record
    cdef int64_t timestamp
    cdef int32_t i
    header.records_count = 0
    for i in range(batch.claim.count):
        record_next(&records, &record)
        if not batch.keep[i]:
            continue
        timestamp = record_timestamp(&batch.claim, &record, -1)
        if has_own_time and (header.records_count == 0 or timestamp > header.max_timestamp):
            header.max_timestamp = timestamp
        header.records_count += 1


cdef void subject_seal(Subject* batch) noexcept nogil:
    cdef BatchHeader* header = &batch.new_header
    cdef uint8_t* data = batch.rewritten.data()
    header.size = batch.rewritten.size()
    batch_store_header(data, header)
    header.crc = crc32c(0, data + BATCH_CRC_FROM, header.size - BATCH_CRC_FROM)
    batch_store_header(data, header)

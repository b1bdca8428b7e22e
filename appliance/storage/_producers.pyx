"""Producer state: duplicates answered with their first offset, gaps refused, transactions tracked.

Sequences count records and wrap from 2^31 - 1 to 0, so all arithmetic on them is modulo 2^31.

A client takes the answer to a duplicate as proof that its records are here. So only that is one of
which the log knows just this: the same first and last sequence, among the last batches, and no end
marker behind it. All else that does not follow the last batch is refused, be it newer or older:
    part of a batch, or more than it       its other records may be new
    older than those remembered            nobody knows what was written under those numbers
    a batch whose transaction has ended    a client that aborted counts on from its last answer, so
                                           new records of its next transaction come under the
                                           numbers of a batch whose answer was lost; what was
                                           written then is aborted, or was answered as committed
"""

from libc.stdint cimport INT64_MAX, int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memmove
from libcpp.pair cimport pair
from libcpp.vector cimport vector

from cython.operator cimport dereference, preincrement

from appliance._crc cimport crc32c
from appliance.native._bytes cimport (
    load_i16, load_i32, load_i64, load_u32, store_i16, store_i32, store_i64, store_u32,
)
from appliance.native._codes cimport (
    OK, PRODUCER_EPOCH_OLD, SEQUENCE_OUT_OF_ORDER, TXN_COORDINATOR_FENCED, TXN_STATE_INVALID,
)
from appliance.native._files cimport NAME_SIZE, file_name, load_file, open_file, write_whole
from appliance.native._native cimport O_CREAT, O_RDWR, O_TRUNC, close
from appliance.record._batch cimport ATTRIBUTE_TRANSACTIONAL, CONTROL_ABORT, BatchHeader
from appliance.storage._index cimport AbortedTxn

ctypedef pair[int64_t, Producer] Entry

cdef enum:
    ENTRY_FIXED = 44               # a producer in the journal, without its batches
    ENTRY_BATCH = 24
    SNAPSHOT_HEAD = 10
    SNAPSHOT_ENTRY = 46
    SEQUENCE_MASK = 0x7FFFFFFF


# ---- without the GIL ----

cdef inline int32_t _after(int32_t sequence, int32_t delta) noexcept nogil:
    return <int32_t>((<uint32_t>sequence + <uint32_t>delta) & <uint32_t>SEQUENCE_MASK)


cdef Producer* _find(ProducerTable* table, int64_t producer_id) noexcept nogil:
    it = table.producers.find(producer_id)
    if it == table.producers.end():
        return NULL
    return &dereference(it).second


cdef int producers_check(ProducerTable* table, const BatchHeader* header,
                         BatchSeen* seen) noexcept nogil:
    cdef Producer* producer
    cdef bint transactional = (header.attributes & ATTRIBUTE_TRANSACTIONAL) != 0
    if header.producer_id < 0:
        return OK
    producer = _find(table, header.producer_id)
    if producer == NULL:
        # Its state expired or never was here. Any first sequence is taken, as Kafka does: refusing
        # would strand a producer that outlived its own expiry.
        return OK
    if header.producer_epoch < producer.epoch:
        return PRODUCER_EPOCH_OLD
    if header.base_sequence < 0:
        return OK  # the coordinator's, which counts nothing
    if header.producer_epoch > producer.epoch:
        return OK if header.base_sequence == 0 else SEQUENCE_OUT_OF_ORDER
    if _find_duplicate(producer, header, seen):
        return DUPLICATE
    if producer.txn_first_offset >= 0 and not transactional:
        return TXN_STATE_INVALID
    if producer.count == 0:
        # Only a marker of this epoch was seen: the epoch's first batch is still to come.
        return OK if header.base_sequence == 0 else SEQUENCE_OUT_OF_ORDER
    return OK if header.base_sequence == _next_sequence(producer) else SEQUENCE_OUT_OF_ORDER


cdef bint _find_duplicate(const Producer* producer, const BatchHeader* header,
                          BatchSeen* seen) noexcept nogil:
    cdef int32_t last = _after(header.base_sequence, header.last_offset_delta)
    cdef int i
    for i in range(producer.ended, producer.count):
        if (producer.batches[i].last_sequence == last
                and producer.batches[i].offset_delta == header.last_offset_delta):
            seen[0] = producer.batches[i]
            return True
    return False


cdef int32_t _next_sequence(const Producer* producer) noexcept nogil:
    return _after(producer.batches[producer.count - 1].last_sequence, 1)


cdef int producers_check_marker(ProducerTable* table, const BatchHeader* header,
                                int32_t coordinator_epoch) noexcept nogil:
    cdef Producer* producer = _find(table, header.producer_id)
    if producer == NULL:
        return OK
    if header.producer_epoch < producer.epoch:
        return PRODUCER_EPOCH_OLD
    if coordinator_epoch < producer.coordinator_epoch:
        return TXN_COORDINATOR_FENCED
    return OK


cdef Producer* _producer_of(ProducerTable* table, const BatchHeader* header,
                            int64_t now_ms) noexcept nogil:
    """The entry for this batch's producer, new or moved to its epoch."""
    cdef Producer* producer = _find(table, header.producer_id)
    if producer == NULL:
        producer = &table.producers[header.producer_id]
        producer.count = producer.ended = 0
        producer.txn_first_offset = -1
        producer.coordinator_epoch = -1
        producer.epoch = header.producer_epoch
    elif header.producer_epoch > producer.epoch:
        producer.count = producer.ended = 0
        producer.epoch = header.producer_epoch
    producer.last_timestamp = header.max_timestamp
    producer.seen_ms = now_ms
    return producer


cdef void _remember(Producer* producer, const BatchHeader* header) noexcept nogil:
    cdef BatchSeen* batch
    if producer.count == BATCHES_REMEMBERED:
        memmove(&producer.batches[0], &producer.batches[1],
                (BATCHES_REMEMBERED - 1) * sizeof(BatchSeen))
        producer.count -= 1
        producer.ended = max(producer.ended - 1, 0)
    batch = &producer.batches[producer.count]
    batch.last_offset = header.base_offset + header.last_offset_delta
    batch.timestamp = header.max_timestamp
    batch.offset_delta = header.last_offset_delta
    batch.last_sequence = _after(header.base_sequence, header.last_offset_delta)
    producer.count += 1


cdef void producers_note(ProducerTable* table, const BatchHeader* header,
                         int64_t now_ms) noexcept nogil:
    cdef Producer* producer
    if header.producer_id < 0:
        return
    producer = _producer_of(table, header, now_ms)
    if header.base_sequence >= 0:
        _remember(producer, header)
    if header.attributes & ATTRIBUTE_TRANSACTIONAL and producer.txn_first_offset < 0:
        producer.txn_first_offset = header.base_offset
        table.open_txns[header.base_offset] = header.producer_id


cdef bint producers_note_marker(ProducerTable* table, const BatchHeader* header, int control_type,
                                int32_t coordinator_epoch, int64_t now_ms,
                                AbortedTxn* aborted) noexcept nogil:
    cdef Producer* producer
    cdef bint was_open
    # Raft's control records have no producer; an emptied marker ends nothing.
    if header.producer_id < 0 or header.records_count == 0:
        return False
    producer = _producer_of(table, header, now_ms)
    producer.coordinator_epoch = coordinator_epoch
    producer.ended = producer.count
    was_open = producer.txn_first_offset >= 0
    aborted.producer_id = header.producer_id
    aborted.first_offset = producer.txn_first_offset
    aborted.last_offset = header.base_offset + header.last_offset_delta
    if was_open:
        table.open_txns.erase(producer.txn_first_offset)
        producer.txn_first_offset = -1
    return was_open and control_type == CONTROL_ABORT


cdef bint producers_txn_is_open(ProducerTable* table, int64_t producer_id,
                                int16_t producer_epoch) noexcept nogil:
    cdef Producer* producer = _find(table, producer_id)
    if producer == NULL or producer.epoch != producer_epoch:
        return False
    return producer.txn_first_offset >= 0


cdef int64_t producers_first_open(ProducerTable* table) noexcept nogil:
    if table.open_txns.empty():
        return INT64_MAX
    return dereference(table.open_txns.begin()).first


cdef void producers_expire(ProducerTable* table, int64_t now_ms,
                           int64_t expiration_ms) noexcept nogil:
    it = table.producers.begin()
    while it != table.producers.end():
        if (dereference(it).second.txn_first_offset < 0
                and now_ms - dereference(it).second.seen_ms >= expiration_ms):
            it = table.producers.erase(it)
        else:
            preincrement(it)


cdef void producers_store(ProducerTable* table, vector[uint8_t]* into) noexcept nogil:
    cdef size_t at = into.size()
    cdef uint8_t* data
    cdef int i
    into.resize(at + 4 + table.producers.size() * (ENTRY_FIXED + BATCHES_REMEMBERED * ENTRY_BATCH))
    data = into.data() + at
    store_i32(data, <int32_t>table.producers.size())
    data += 4
    for entry in table.producers:
        store_i64(data, entry.first)
        store_i64(data + 8, entry.second.txn_first_offset)
        store_i64(data + 16, entry.second.last_timestamp)
        store_i64(data + 24, entry.second.seen_ms)
        store_i32(data + 32, entry.second.coordinator_epoch)
        # One more, so that 0 says: written by a version that did not tell.
        store_i16(data + 36, <int16_t>(entry.second.ended + 1))
        store_i16(data + 38, entry.second.epoch)
        store_i32(data + 40, entry.second.count)
        data += ENTRY_FIXED
        for i in range(entry.second.count):
            store_i64(data, entry.second.batches[i].last_offset)
            store_i64(data + 8, entry.second.batches[i].timestamp)
            store_i32(data + 16, entry.second.batches[i].offset_delta)
            store_i32(data + 20, entry.second.batches[i].last_sequence)
            data += ENTRY_BATCH
    into.resize(data - into.data())


cdef bint producers_load(ProducerTable* table, const uint8_t* data, int64_t size) noexcept nogil:
    cdef const uint8_t* end = data + size
    cdef Producer producer
    cdef int64_t producer_id
    cdef int32_t left
    cdef int i, ended
    table.producers.clear()
    table.open_txns.clear()
    if size < 4:
        return False
    left = load_i32(data)
    data += 4
    while left > 0:
        if end - data < ENTRY_FIXED:
            return False
        producer_id = load_i64(data)
        producer.txn_first_offset = load_i64(data + 8)
        producer.last_timestamp = load_i64(data + 16)
        producer.seen_ms = load_i64(data + 24)
        producer.coordinator_epoch = load_i32(data + 32)
        ended = load_i16(data + 36) - 1
        producer.epoch = load_i16(data + 38)
        producer.count = load_i32(data + 40)
        data += ENTRY_FIXED
        if not 0 <= producer.count <= BATCHES_REMEMBERED:
            return False
        if end - data < producer.count * ENTRY_BATCH:
            return False
        for i in range(producer.count):
            producer.batches[i].last_offset = load_i64(data)
            producer.batches[i].timestamp = load_i64(data + 8)
            producer.batches[i].offset_delta = load_i32(data + 16)
            producer.batches[i].last_sequence = load_i32(data + 20)
            data += ENTRY_BATCH
        producer.ended = ended if ended >= 0 else _ended_at_least(&producer)
        if producer.ended > producer.count:
            return False
        _insert(table, producer_id, &producer)
        left -= 1
    return True


cdef int32_t _ended_at_least(const Producer* producer) noexcept nogil:
    """Where only the state is known, not what was between the batches: a producer that ever had a
    marker writes in transactions, so whatever the open one does not hold has ended."""
    cdef int32_t ended = 0
    if producer.coordinator_epoch < 0:
        return 0
    if producer.txn_first_offset < 0:
        return producer.count
    while (ended < producer.count
           and producer.batches[ended].last_offset < producer.txn_first_offset):
        ended += 1
    return ended


cdef void _insert(ProducerTable* table, int64_t producer_id,
                  const Producer* producer) noexcept nogil:
    table.producers[producer_id] = producer[0]
    if producer.txn_first_offset >= 0:
        table.open_txns[producer.txn_first_offset] = producer_id


cdef int producers_store_snapshot(ProducerTable* table, int directory_fd,
                                  int64_t offset) noexcept nogil:
    """| version i16 = 1 | CRC-32C of what follows u32 | count i32 | 46 bytes each |"""
    cdef vector[uint8_t] bytes
    cdef char[NAME_SIZE] name
    cdef uint8_t* data
    cdef int fd, code
    bytes.resize(SNAPSHOT_HEAD + table.producers.size() * SNAPSHOT_ENTRY)
    data = bytes.data()
    store_i16(data, 1)
    store_i32(data + 6, <int32_t>table.producers.size())
    data += SNAPSHOT_HEAD
    for entry in table.producers:
        _write_snapshot_entry(data, entry.first, &entry.second)
        data += SNAPSHOT_ENTRY
    store_u32(bytes.data() + 2, crc32c(0, bytes.data() + 6, bytes.size() - 6))
    file_name(name, offset, b".snapshot")
    fd = open_file(directory_fd, name, O_RDWR | O_CREAT | O_TRUNC)
    if fd < 0:
        return fd
    code = write_whole(fd, bytes.data(), bytes.size(), 0)
    close(fd)
    return code


cdef void _write_snapshot_entry(uint8_t* data, int64_t producer_id,
                                const Producer* producer) noexcept nogil:
    cdef const BatchSeen* last = NULL
    if producer.count > 0:
        last = &producer.batches[producer.count - 1]
    store_i64(data, producer_id)
    store_i16(data + 8, producer.epoch)
    store_i32(data + 10, -1 if last == NULL else last.last_sequence)
    store_i64(data + 14, -1 if last == NULL else last.last_offset)
    store_i32(data + 22, 0 if last == NULL else last.offset_delta)
    store_i64(data + 26, producer.last_timestamp)
    store_i32(data + 34, producer.coordinator_epoch)
    store_i64(data + 38, producer.txn_first_offset)


cdef bint producers_load_snapshot(ProducerTable* table, int directory_fd, int64_t offset,
                                  int64_t now_ms) noexcept nogil:
    cdef vector[uint8_t] bytes
    cdef char[NAME_SIZE] name
    cdef const uint8_t* data
    cdef int64_t i, count
    file_name(name, offset, b".snapshot")
    if load_file(directory_fd, name, &bytes) < SNAPSHOT_HEAD:
        return False
    data = bytes.data()
    count = load_i32(data + 6)
    if load_i16(data) != 1 or <int64_t>bytes.size() != SNAPSHOT_HEAD + count * SNAPSHOT_ENTRY:
        return False
    if load_u32(data + 2) != crc32c(0, data + 6, bytes.size() - 6):
        return False
    table.producers.clear()
    table.open_txns.clear()
    for i in range(count):
        _load_snapshot_entry(table, data + SNAPSHOT_HEAD + i * SNAPSHOT_ENTRY, now_ms)
    return True


cdef void _load_snapshot_entry(ProducerTable* table, const uint8_t* data,
                               int64_t now_ms) noexcept nogil:
    cdef Producer producer
    producer.epoch = load_i16(data + 8)
    producer.batches[0].last_sequence = load_i32(data + 10)
    producer.batches[0].last_offset = load_i64(data + 14)
    producer.batches[0].offset_delta = load_i32(data + 22)
    producer.batches[0].timestamp = load_i64(data + 26)
    producer.last_timestamp = load_i64(data + 26)
    producer.seen_ms = now_ms
    producer.coordinator_epoch = load_i32(data + 34)
    producer.txn_first_offset = load_i64(data + 38)
    producer.count = 1 if producer.batches[0].last_offset >= 0 else 0
    producer.ended = _ended_at_least(&producer)
    _insert(table, load_i64(data), &producer)

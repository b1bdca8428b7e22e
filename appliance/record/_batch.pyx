"""The record batch, magic 2: judged, stamped, taken apart and built.

     0  base offset        i64     the log's to set
     8  length             i32     bytes behind this field
    12  leader epoch       i32     the log's to set
    16  magic              i8      2
    17  CRC                u32     CRC-32C of byte 21 to the end
    21  attributes         i16     bits 0-2 codec, 3 append time, 4 transactional, 5 control,
                                   6 delete horizon
    23  last offset delta  i32     last offset - base offset, also after compaction took records out
    27  base timestamp     i64     the delete horizon where bit 6 is set
    35  max timestamp      i64     of all records where bit 3 is set
    43  producer id        i64     -1: none; the next two then mean nothing (clients put 0 or -1)
    51  producer epoch     i16
    53  base sequence      i32
    57  records count      i32     0 only where compaction emptied the batch
    61  records                    compressed as a whole; their picture is in `_records.pyx`

Base offset, length and leader epoch stand before what the CRC covers: a batch is summed once when
it arrives, stamped in place, and goes to disk and to every consumer as the producer compressed it.

Two sets of rules. `batch_check` is for what a client sends: one batch, its counts exact. The log's
own `batch_check_header` is for what may be on disk: gaps, emptied batches and control batches are
legal there. Both sets, and all that builds a batch, stand in this one file, beside the picture.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy, memset
from libcpp.vector cimport vector

from appliance._crc cimport crc32c
from appliance.native._bytes cimport (
    Cursor, load_i16, load_i32, load_i64, load_u32, store_i16, store_i32, store_i64, store_u32,
)
from appliance.native._codes cimport (
    BATCH_CODEC, BATCH_CORRUPT, BATCH_INVALID, BATCH_MAGIC, BATCH_TIMESTAMP, BATCH_TORN, OK,
)
from appliance.record._records cimport (
    RECORD_SIZE_MIN, Record, RecordsClaim, RecordView, decode_records, encode_record, record_next,
    records_check, records_retain,
)

from appliance import errors
from appliance.record import compression
from appliance.record._records import Record as _Record

cdef enum:
    MAGIC = 2
    MAGIC_AT = 16
    CRC_AT = 17
    CODEC_MAX = 4                  # 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd
    ATTRIBUTES_KNOWN = 0x7F
    CONTROL_KEY_SIZE = 4           # i16 version, i16 type
    CONTROL_VALUE_SIZE = 6         # i16 version, i32 coordinator epoch
    OLD_MESSAGE_LENGTH_MIN = 14    # of magic 0: CRC, magic, attributes, two null fields

    # A batch that claims more records than readers will decompress (compression.SIZE_MAX) could
    # only take up offsets; refusing it here keeps "accepted" from meaning "never readable".
    COMPRESSED_COUNT_MAX = 19173961    # 128 MiB in records of 7 bytes

cdef extern from * nogil:
    const int64_t OFFSET_MAX "INT64_MAX"
    const int64_t SIZE_MAX_I32 "INT32_MAX"


# ---- without the GIL ----

cdef void batch_load_header(const uint8_t* data, BatchHeader* header) noexcept nogil:
    header.base_offset = load_i64(data)
    header.size = <int64_t>load_i32(data + 8) + BATCH_LOG_OVERHEAD
    header.leader_epoch = load_i32(data + 12)
    header.magic = <int8_t>data[MAGIC_AT]
    header.crc = load_u32(data + CRC_AT)
    header.attributes = load_i16(data + 21)
    header.last_offset_delta = load_i32(data + 23)
    header.base_timestamp = load_i64(data + 27)
    header.max_timestamp = load_i64(data + 35)
    header.producer_id = load_i64(data + 43)
    header.producer_epoch = load_i16(data + 51)
    header.base_sequence = load_i32(data + 53)
    header.records_count = load_i32(data + 57)


cdef void batch_store_header(uint8_t* data, const BatchHeader* header) noexcept nogil:
    store_i64(data, header.base_offset)
    store_i32(data + 8, <int32_t>(header.size - BATCH_LOG_OVERHEAD))
    store_i32(data + 12, header.leader_epoch)
    data[MAGIC_AT] = <uint8_t>header.magic
    store_u32(data + CRC_AT, header.crc)
    store_i16(data + 21, header.attributes)
    store_i32(data + 23, header.last_offset_delta)
    store_i64(data + 27, header.base_timestamp)
    store_i64(data + 35, header.max_timestamp)
    store_i64(data + 43, header.producer_id)
    store_i16(data + 51, header.producer_epoch)
    store_i32(data + 53, header.base_sequence)
    store_i32(data + 57, header.records_count)


cdef RecordsClaim batch_claim(const BatchHeader* header) noexcept nogil:
    cdef RecordsClaim claim
    claim.base_timestamp = header.base_timestamp
    claim.count = header.records_count
    claim.last_offset_delta = header.last_offset_delta
    claim.from_client = False
    return claim


cdef int _check_frame(const BatchHeader* header, int64_t bytes_left) noexcept nogil:
    """Length and magic. The order matters to the scan of a torn tail: zeros are no old message."""
    if header.size < BATCH_LOG_OVERHEAD + OLD_MESSAGE_LENGTH_MIN or header.magic < 0:
        return BATCH_CORRUPT
    if header.magic != MAGIC:
        return BATCH_MAGIC
    if header.size < BATCH_HEADER_SIZE:
        return BATCH_CORRUPT
    return BATCH_TORN if bytes_left < header.size else OK


cdef inline int _check_count(const BatchHeader* header) noexcept nogil:
    """Whether so many records can stand in so few bytes; needed before anybody counts on it."""
    cdef int64_t records_size = header.size - BATCH_HEADER_SIZE
    if header.records_count <= 0:
        return OK if header.records_count == 0 and records_size == 0 else BATCH_CORRUPT
    if header.attributes & ATTRIBUTE_CODEC:
        return OK if records_size > 0 else BATCH_CORRUPT
    return OK if header.records_count <= records_size // RECORD_SIZE_MIN else BATCH_CORRUPT


cdef int batch_check_header(const BatchHeader* header, int64_t bytes_left) noexcept nogil:
    cdef int code = _check_frame(header, bytes_left)
    if code != OK:
        return code
    if header.base_offset < 0 or header.last_offset_delta < 0:
        return BATCH_CORRUPT
    if header.base_offset > OFFSET_MAX - 1 - header.last_offset_delta:
        return BATCH_CORRUPT
    if <int64_t>header.records_count > <int64_t>header.last_offset_delta + 1:
        return BATCH_CORRUPT
    if header.attributes & ATTRIBUTE_CODEC > CODEC_MAX or header.producer_id < -1:
        return BATCH_CORRUPT
    return _check_count(header)


cdef inline uint32_t _sum(const uint8_t* data, int64_t size) noexcept nogil:
    return crc32c(0, data + BATCH_CRC_FROM, size - BATCH_CRC_FROM)


cdef int batch_check_crc(const uint8_t* data, const BatchHeader* header) noexcept nogil:
    return OK if _sum(data, header.size) == header.crc else BATCH_CORRUPT


cdef int _check_client_flags(const BatchHeader* header) noexcept nogil:
    if header.attributes & ATTRIBUTE_CODEC > CODEC_MAX:
        return BATCH_CODEC
    if header.attributes & (ATTRIBUTE_CONTROL | ATTRIBUTE_DELETE_HORIZON):
        return BATCH_INVALID
    if header.attributes & ~ATTRIBUTES_KNOWN:
        return BATCH_INVALID
    return BATCH_TIMESTAMP if header.attributes & ATTRIBUTE_APPEND_TIME else OK


cdef int _check_client_counts(const BatchHeader* header) noexcept nogil:
    if header.records_count <= 0 or header.last_offset_delta != header.records_count - 1:
        return BATCH_INVALID
    if header.attributes & ATTRIBUTE_CODEC and header.records_count > COMPRESSED_COUNT_MAX:
        return BATCH_INVALID
    return OK if _check_count(header) == OK else BATCH_INVALID


cdef int _check_client_producer(const BatchHeader* header) noexcept nogil:
    if header.producer_id == -1:
        return BATCH_INVALID if header.attributes & ATTRIBUTE_TRANSACTIONAL else OK
    if header.producer_id < 0 or header.producer_epoch < 0 or header.base_sequence < -1:
        return BATCH_INVALID
    return OK


cdef int _check_client_records(const uint8_t* data, BatchHeader* header) noexcept nogil:
    cdef RecordsClaim claim = batch_claim(header)
    claim.from_client = True
    return records_check(
        data + BATCH_HEADER_SIZE, header.size - BATCH_HEADER_SIZE, &claim, &header.max_timestamp
    )


cdef int _check_short(const uint8_t* data, int64_t size, BatchHeader* header) noexcept nogil:
    """Below 61 bytes there may be an old message, whose magic byte stands at the same place."""
    cdef uint8_t padded[BATCH_HEADER_SIZE]
    if size <= MAGIC_AT:
        return BATCH_TORN
    memset(padded, 0, BATCH_HEADER_SIZE)
    memcpy(padded, data, size)
    batch_load_header(padded, header)
    return _check_frame(header, size)


cdef int batch_check(const uint8_t* data, int64_t size, BatchHeader* header) noexcept nogil:
    cdef int code = batch_check_own(data, size, header)
    if code == OK and header.producer_id >= 0 and header.base_sequence < 0:
        return BATCH_INVALID
    return code


cdef int batch_check_own(const uint8_t* data, int64_t size, BatchHeader* header) noexcept nogil:
    cdef int code
    memset(header, 0, sizeof(BatchHeader))
    if size < BATCH_HEADER_SIZE:
        return _check_short(data, size, header)
    batch_load_header(data, header)
    code = _check_frame(header, size)
    if code == OK and size > header.size:
        code = BATCH_INVALID
    if code == OK:
        code = batch_check_crc(data, header)
    if code == OK:
        code = _check_client_flags(header)
    if code == OK:
        code = _check_client_counts(header)
    if code == OK:
        code = _check_client_producer(header)
    if code == OK and not header.attributes & ATTRIBUTE_CODEC:
        code = _check_client_records(data, header)
    return code


cdef int batch_check_mirrored(
    const uint8_t* data, int64_t bytes_left, BatchHeader* header
) noexcept nogil:
    cdef RecordsClaim claim
    cdef int64_t max_timestamp
    cdef int code
    memset(header, 0, sizeof(BatchHeader))
    if bytes_left < BATCH_HEADER_SIZE:
        return BATCH_TORN
    batch_load_header(data, header)
    code = batch_check_header(header, bytes_left)
    if code == OK:
        code = batch_check_crc(data, header)
    if code == OK and header.attributes & (ATTRIBUTE_CONTROL | ATTRIBUTE_TRANSACTIONAL):
        code = BATCH_INVALID
    if code == OK and header.producer_id != -1:
        code = BATCH_INVALID
    if code != OK or header.attributes & ATTRIBUTE_CODEC or header.records_count == 0:
        return code
    claim = batch_claim(header)
    return records_check(
        data + BATCH_HEADER_SIZE, header.size - BATCH_HEADER_SIZE, &claim, &max_timestamp
    )


cdef void batch_stamp(uint8_t* data, int64_t base_offset, int32_t leader_epoch) noexcept nogil:
    store_i64(data, base_offset)
    store_i32(data + 12, leader_epoch)


cdef void batch_stamp_max_timestamp(uint8_t* data, const BatchHeader* header) noexcept nogil:
    if load_i64(data + 35) == header.max_timestamp:
        return
    store_i64(data + 35, header.max_timestamp)
    store_u32(data + CRC_AT, _sum(data, header.size))


cdef void batch_stamp_append_time(uint8_t* data, int64_t size, int64_t timestamp_ms) noexcept nogil:
    store_i16(data + 21, load_i16(data + 21) | ATTRIBUTE_APPEND_TIME)
    store_i64(data + 35, timestamp_ms)
    store_u32(data + CRC_AT, _sum(data, size))


cdef Cursor _records_of(const uint8_t* data, const BatchHeader* header) noexcept nogil:
    cdef Cursor records
    records.at = data + BATCH_HEADER_SIZE
    records.end = data + header.size
    records.failed = False
    return records


cdef int batch_control_type(
    const uint8_t* data, const BatchHeader* header, int32_t* coordinator_epoch
) noexcept nogil:
    cdef Cursor records = _records_of(data, header)
    cdef RecordView record
    cdef int16_t kind
    if header.records_count == 0 or header.attributes & ATTRIBUTE_CODEC:
        return -1
    if record_next(&records, &record) != OK:
        return -1
    if record.key_size < CONTROL_KEY_SIZE or record.value_size < CONTROL_VALUE_SIZE:
        return -1
    kind = load_i16(record.key + 2)
    if kind != CONTROL_ABORT and kind != CONTROL_COMMIT:
        return -1
    coordinator_epoch[0] = load_i32(record.value + 2)
    return kind


cdef int batch_check_keys(const uint8_t* data, const BatchHeader* header) noexcept nogil:
    cdef Cursor records = _records_of(data, header)
    return _check_keys(&records, header.records_count)


cdef int _check_keys(Cursor* records, int32_t count) noexcept nogil:
    cdef RecordView record
    cdef int32_t _i
    for _i in range(count):
        if record_next(records, &record) != OK or record.key_size < 0:
            return BATCH_INVALID
    return OK


cdef int _scan(
    const uint8_t* data, int64_t size, vector[BatchHeader]& found, int64_t* position
) except? -1 nogil:
    """Headers of the whole batches that follow each other; `position` is where it ended."""
    cdef BatchHeader header
    cdef int code = OK
    memset(&header, 0, sizeof(BatchHeader))
    while position[0] < size:
        if size - position[0] < BATCH_HEADER_SIZE:
            return BATCH_TORN
        batch_load_header(data + position[0], &header)
        code = batch_check_header(&header, size - position[0])
        if code == OK:
            code = batch_check_crc(data + position[0], &header)
        if code != OK:
            return code
        found.push_back(header)
        position[0] += header.size
    return OK


cdef void _end_txn(AbortedTxns* txns, int64_t producer_id) noexcept nogil:
    cdef size_t i, kept = 0
    for i in range(txns.active.size()):
        if txns.active[i] != producer_id:
            txns.active[kept] = txns.active[i]
            kept += 1
    txns.active.resize(kept)


cdef bint batch_is_aborted(
    AbortedTxns* txns, const uint8_t* data, const BatchHeader* header
) noexcept nogil:
    cdef int64_t last_offset = header.base_offset + header.last_offset_delta
    cdef int32_t coordinator_epoch
    cdef size_t i
    while txns.begun < txns.told.size() and txns.told[txns.begun].first_offset <= last_offset:
        txns.active.push_back(txns.told[txns.begun].producer_id)
        txns.begun += 1
    if header.attributes & ATTRIBUTE_CONTROL:
        if batch_control_type(data, header, &coordinator_epoch) == CONTROL_ABORT:
            _end_txn(txns, header.producer_id)
        return False
    if not header.attributes & ATTRIBUTE_TRANSACTIONAL:
        return False
    for i in range(txns.active.size()):
        if txns.active[i] == header.producer_id:
            return True
    return False


cdef int64_t append_time(const BatchHeader* header) noexcept nogil:
    return header.max_timestamp if header.attributes & ATTRIBUTE_APPEND_TIME else -1


# ---- with the GIL ----

cdef class BatchInfo:
    """The header of one batch, and where in the given bytes it stood."""

    def __repr__(self):
        return f"BatchInfo({self.text()})"

    def text(self):
        """The header in words and numbers, as error messages want it."""
        return (
            f"position {self.position}, base offset {self.base_offset}, size {self.size}, "
            f"magic {self.magic}, attributes {self.attributes:#x}, {self.records_count} records, "
            f"last offset delta {self.last_offset_delta}, max timestamp {self.max_timestamp}, "
            f"producer {self.producer_id} epoch {self.producer_epoch} "
            f"sequence {self.base_sequence}, CRC {self.crc:#010x}"
        )

    @property
    def base_offset(self):
        return self.header.base_offset

    @property
    def last_offset(self):
        return self.header.base_offset + self.header.last_offset_delta

    @property
    def last_offset_delta(self):
        return self.header.last_offset_delta

    @property
    def size(self):
        return self.header.size

    @property
    def records_count(self):
        return self.header.records_count

    @property
    def attributes(self):
        return self.header.attributes

    @property
    def codec(self):
        return self.header.attributes & ATTRIBUTE_CODEC

    @property
    def is_append_time(self):
        return bool(self.header.attributes & ATTRIBUTE_APPEND_TIME)

    @property
    def is_transactional(self):
        return bool(self.header.attributes & ATTRIBUTE_TRANSACTIONAL)

    @property
    def is_control(self):
        return bool(self.header.attributes & ATTRIBUTE_CONTROL)

    @property
    def delete_horizon_ms(self):
        if not self.header.attributes & ATTRIBUTE_DELETE_HORIZON:
            return None
        return self.header.base_timestamp

    @property
    def base_timestamp(self):
        return self.header.base_timestamp

    @property
    def max_timestamp(self):
        return self.header.max_timestamp

    @property
    def producer_id(self):
        return self.header.producer_id

    @property
    def producer_epoch(self):
        return self.header.producer_epoch

    @property
    def base_sequence(self):
        return self.header.base_sequence

    @property
    def leader_epoch(self):
        return self.header.leader_epoch

    @property
    def magic(self):
        return self.header.magic

    @property
    def crc(self):
        return self.header.crc


cdef int take_aborted(AbortedTxns* txns, object aborted) except -1:
    cdef AbortedTxn txn
    for txn.producer_id, txn.first_offset in sorted(aborted, key=lambda each: each[1]):
        txns.told.push_back(txn)
    txns.begun = 0
    return 0


cdef BatchInfo _info(const BatchHeader* header, int64_t position):
    cdef BatchInfo info = BatchInfo.__new__(BatchInfo)
    info.header = header[0]
    info.position = position
    return info


cdef object _refusal(int code, const unsigned char[::1] data, int64_t position):
    """The exception for a batch at `position`, with the numbers that its header has."""
    cdef BatchHeader header
    cdef int64_t left = data.shape[0] - position
    facts = f"batch refused, {left} bytes given"
    if left >= BATCH_HEADER_SIZE:
        batch_load_header(&data[position], &header)
        facts = f"{facts}: {_info(&header, position).text()}"
        if BATCH_HEADER_SIZE <= header.size <= left:
            facts = f"{facts}, computed {_sum(&data[position], header.size):#010x}"
    else:
        facts = f"{facts} at position {position}, a header has {BATCH_HEADER_SIZE}"
    return errors.from_code(code, facts)


def check(
    const unsigned char[::1] batch not None, *, bint deep=False, bint keys_required=False,
    int64_t size_max=compression.SIZE_MAX,
):
    """Hold `batch` against the rules for clients; `deep` decompresses and reads the records too."""
    cdef BatchHeader header
    cdef int64_t size = batch.shape[0]
    cdef const uint8_t* data = &batch[0] if size else NULL
    cdef int code
    with nogil:
        code = batch_check(data, size, &header)
    if code == OK and (keys_required or deep):
        code = _check_deep(batch, &header, keys_required, size_max)
    if code != OK:
        raise _refusal(code, batch, 0)
    return _info(&header, 0)


cdef int _check_deep(
    const unsigned char[::1] batch, BatchHeader* header, bint keys_required, int64_t size_max
) except? -1:
    cdef Payload payload = open_batch(batch, 0, header, size_max)
    cdef int64_t size = payload.records.end - payload.records.at
    payload.claim.from_client = True
    cdef int code = records_check(payload.records.at, size, &payload.claim, &header.max_timestamp)
    if code == OK and keys_required:
        code = _check_keys(&payload.records, header.records_count)
    return code


def stamp(
    unsigned char[::1] batch not None, int64_t base_offset, int32_t leader_epoch,
    append_time_ms=None,
):
    """Hold a client's `batch` against the rules and make it the log's, in place: base offset,
    leader epoch and, unless the topic wants `append_time_ms`, the records' own largest timestamp.
    """
    cdef BatchHeader header
    cdef int64_t size = batch.shape[0]
    cdef uint8_t* data = &batch[0] if size else NULL
    cdef bint has_append_time = append_time_ms is not None
    cdef int64_t timestamp = append_time_ms if has_append_time else -1
    cdef int code
    with nogil:
        code = batch_check(data, size, &header)
        if code == OK:
            batch_stamp(data, base_offset, leader_epoch)
            if has_append_time:
                batch_stamp_append_time(data, size, timestamp)
            else:
                batch_stamp_max_timestamp(data, &header)
    if code != OK:
        raise _refusal(code, batch, 0)


cdef class Payload:
    pass


cdef vector[BatchHeader] scan_batches(const unsigned char[::1] data, bint partial_tail):
    """The headers of all whole batches in `data`, each with its CRC checked."""
    cdef vector[BatchHeader] found
    cdef int64_t size = data.shape[0], position = 0
    cdef const uint8_t* at = &data[0] if size else NULL
    cdef int code
    with nogil:
        code = _scan(at, size, found, &position)
    if code != OK and not (code == BATCH_TORN and partial_tail):
        raise _refusal(code, data, position)
    return found


def headers(const unsigned char[::1] data not None, *, bint partial_tail=False):
    """A BatchInfo for each batch in `data`; with `partial_tail` the last may be cut off."""
    cdef BatchHeader header
    cdef int64_t position = 0
    infos = []
    for header in scan_batches(data, partial_tail):
        infos.append(_info(&header, position))
        position += header.size
    return infos


cdef Payload open_batch(
    const unsigned char[::1] data, int64_t position, const BatchHeader* header, int64_t size_max
):
    """The records of the batch at `position`, decompressed if need be, not yet checked."""
    cdef Payload payload = Payload.__new__(Payload)
    cdef int64_t end = position + header.size
    payload.claim = batch_claim(header)
    payload.records = _records_of(&data[position], header)
    codec = header.attributes & ATTRIBUTE_CODEC
    if codec and header.records_count:
        packed = data[position + BATCH_HEADER_SIZE:end]
        payload.owner = compression.decompress(codec, packed, size_max)
        payload.records.at = <const uint8_t*>PyBytes_AS_STRING(payload.owner)
        payload.records.end = payload.records.at + len(payload.owner)
    return payload


cdef Payload open_checked(
    const unsigned char[::1] data, int64_t position, const BatchHeader* header, int64_t size_max
):
    cdef int64_t max_timestamp
    cdef Payload payload = open_batch(data, position, header, size_max)
    cdef int64_t size = payload.records.end - payload.records.at
    cdef int code = records_check(payload.records.at, size, &payload.claim, &max_timestamp)
    if code != OK:
        raise _refusal(code, data, position)
    return payload


def records(
    const unsigned char[::1] data not None, *, bint partial_tail=False,
    int64_t size_max=compression.SIZE_MAX,
):
    """All records of `data`, decoded; control batches are passed over."""
    cdef BatchHeader header
    cdef Payload payload
    cdef int64_t position = 0
    cdef list found = []
    for header in scan_batches(data, partial_tail):
        if not header.attributes & ATTRIBUTE_CONTROL:
            payload = open_checked(data, position, &header, size_max)
            decode_records(
                payload.records, &payload.claim, header.base_offset, append_time(&header), found
            )
        position += header.size
    return found


def control(const unsigned char[::1] batch not None):
    """("commit" or "abort", coordinator epoch) of a control batch; None for any other."""
    cdef BatchHeader header
    cdef int32_t epoch = 0
    for header in scan_batches(batch, False):
        kind = batch_control_type(&batch[0], &header, &epoch)
        if header.attributes & ATTRIBUTE_CONTROL and kind >= 0:
            return ("commit" if kind == CONTROL_COMMIT else "abort"), epoch
        break
    return None


cdef bytes _sealed(BatchHeader* header, const uint8_t* payload, int64_t size):
    """Header and records as one batch, length and CRC filled in."""
    header.size = BATCH_HEADER_SIZE + size
    if header.size - BATCH_LOG_OVERHEAD > SIZE_MAX_I32:
        raise errors.BatchTooLarge(
            f"batch of {header.size} bytes, its length field ends at {SIZE_MAX_I32}"
        )
    cdef bytes batch = PyBytes_FromStringAndSize(NULL, header.size)
    cdef uint8_t* data = <uint8_t*>PyBytes_AS_STRING(batch)
    header.magic = MAGIC
    batch_store_header(data, header)
    if size > 0:
        memcpy(data + BATCH_HEADER_SIZE, payload, size)
    header.crc = _sum(data, header.size)
    store_u32(data + CRC_AT, header.crc)
    return batch


cdef bytes _compressed(BatchHeader* header, vector[uint8_t]& payload):
    codec = header.attributes & ATTRIBUTE_CODEC
    if not codec:
        return _sealed(header, payload.data(), payload.size())
    text = compression.compress(codec, <bytes>payload.data()[:payload.size()])
    return _sealed(header, <const uint8_t*>PyBytes_AS_STRING(text), len(text))


def build(
    records, int64_t base_offset=0, codec=0, base_timestamp=None, int64_t producer_id=-1,
    int16_t producer_epoch=-1, int32_t base_sequence=-1, bint transactional=False,
    int32_t leader_epoch=-1,
):
    """One batch of `records`: Record objects, or tuples (timestamp, key, value[, headers])."""
    cdef vector[uint8_t] payload
    cdef BatchHeader header
    cdef Record record
    header.base_offset, header.leader_epoch, header.records_count = base_offset, leader_epoch, 0
    header.producer_id, header.producer_epoch = producer_id, producer_epoch
    header.base_sequence = base_sequence
    header.attributes = compression.codec_id(codec)
    if transactional:
        header.attributes |= ATTRIBUTE_TRANSACTIONAL
    for given in records:
        record = given if isinstance(given, Record) else _Record(*given)
        if header.records_count == 0:
            header.max_timestamp = record.timestamp
            header.base_timestamp = record.timestamp if base_timestamp is None else base_timestamp
        header.max_timestamp = max(header.max_timestamp, record.timestamp)
        delta = record.timestamp - header.base_timestamp
        encode_record(payload, record, delta, header.records_count)
        header.records_count += 1
    if header.records_count == 0:
        raise errors.BatchInvalid("a batch of 0 records, at least 1 is wanted")
    header.last_offset_delta = header.records_count - 1
    return _compressed(&header, payload)


def build_control(
    str kind not None, int64_t producer_id, int16_t producer_epoch, int32_t coordinator_epoch,
    int64_t timestamp, int64_t base_offset=0, int32_t leader_epoch=-1,
):
    """The batch that ends a transaction: one record saying "commit" or "abort"."""
    cdef vector[uint8_t] payload
    cdef BatchHeader header
    cdef uint8_t key[CONTROL_KEY_SIZE]
    cdef uint8_t value[CONTROL_VALUE_SIZE]
    types = {"abort": CONTROL_ABORT, "commit": CONTROL_COMMIT}
    if kind not in types:
        raise ValueError(f"control batch {kind!r}, wanted one of {sorted(types)}")
    store_i16(key, 0)
    store_i16(key + 2, types[kind])
    store_i16(value, 0)
    store_i32(value + 2, coordinator_epoch)
    record = _Record(timestamp, <bytes>key[:CONTROL_KEY_SIZE], <bytes>value[:CONTROL_VALUE_SIZE])
    encode_record(payload, record, 0, 0)
    header.base_offset, header.leader_epoch, header.records_count = base_offset, leader_epoch, 1
    header.producer_id, header.producer_epoch = producer_id, producer_epoch
    header.base_sequence = -1
    header.base_timestamp = header.max_timestamp = timestamp
    header.last_offset_delta = 0
    header.attributes = ATTRIBUTE_TRANSACTIONAL | ATTRIBUTE_CONTROL
    return _sealed(&header, payload.data(), payload.size())


cdef bytearray _mask(keep, int32_t count):
    mask = bytearray(count)
    for i in keep:
        if not 0 <= i < count:
            raise IndexError(f"record {i} of a batch of {count}")
        mask[i] = 1
    return mask


cdef bytes _emptied(BatchHeader* header):
    """What is left when every record went: the header, so that offsets and sequence stay known."""
    header.attributes &= ~(ATTRIBUTE_CODEC | ATTRIBUTE_DELETE_HORIZON)
    header.base_timestamp = -1
    header.records_count = 0
    return _sealed(header, NULL, 0)


def retain_records(
    const unsigned char[::1] batch not None, keep, delete_horizon_ms=None,
    *, int64_t size_max=compression.SIZE_MAX,
):
    """The batch with only the records whose indices are in `keep`, for compaction.

    Offsets, sequence and producer stay. A delete horizon goes into base timestamp, once: a batch
    that has one keeps it, else tombstones would outlive every cleaning.
    """
    cdef vector[uint8_t] kept
    cdef BatchHeader header
    cdef Payload payload
    cdef int64_t base_timestamp
    if scan_batches(batch, False).size() != 1:
        raise errors.BatchInvalid(f"{batch.shape[0]} bytes are not exactly one batch")
    batch_load_header(&batch[0], &header)
    payload = open_checked(batch, 0, &header, size_max)
    mask = _mask(keep, header.records_count)
    has_horizon = header.attributes & ATTRIBUTE_DELETE_HORIZON
    sets_horizon = delete_horizon_ms is not None and not has_horizon
    if 1 not in mask:
        return _emptied(&header)
    if 0 not in mask and not sets_horizon:
        return bytes(batch)
    base_timestamp = delete_horizon_ms if sets_horizon else header.base_timestamp
    cdef const unsigned char[::1] flags = mask
    records_retain(payload.records, &payload.claim, &flags[0], base_timestamp, kept)
    _relabel(&header, kept, base_timestamp, sum(mask))
    if sets_horizon:
        header.attributes |= ATTRIBUTE_DELETE_HORIZON
    return _compressed(&header, kept)


cdef int _relabel(
    BatchHeader* header, vector[uint8_t]& kept, int64_t base_timestamp, int32_t count
) except -1:
    """The fields that follow from the records that stayed."""
    cdef RecordsClaim claim
    cdef int64_t max_timestamp
    header.base_timestamp, header.records_count = base_timestamp, count
    claim = batch_claim(header)
    cdef int code = records_check(kept.data(), kept.size(), &claim, &max_timestamp)
    if code != OK:
        facts = f"{count} retained records in {kept.size()} bytes do not read back"
        raise errors.from_code(code, facts)
    if not header.attributes & ATTRIBUTE_APPEND_TIME:
        header.max_timestamp = max_timestamp
    return 0


# A cimport names the class for the compiler only; callers find it beside what takes and gives it.
globals()["Record"] = _Record

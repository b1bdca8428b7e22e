"""The record batch, magic 2: its header, and batches as a log holds them.

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

Gaps, emptied batches and control batches are legal on disk: the rules here allow them. What a
client may send is stricter, and stands in `_batch_check.pyx`.
"""

from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport INT64_MAX, int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memset
from libcpp.vector cimport vector

from appliance.native._bytes cimport (
    Cursor, load_i16, load_i32, load_i64, store_i16, store_i32, store_i64, store_u32,
)
from appliance.native._codes cimport BATCH_CORRUPT, BATCH_TORN, OK
from appliance.record._records cimport (
    RecordView, decode_records, record_next, records_check,
)

from appliance import errors
from appliance.record import compression


# ---- without the GIL ----

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


cdef int batch_check_header(const BatchHeader* header, int64_t bytes_left) noexcept nogil:
    cdef int code = batch_check_frame(header, bytes_left)
    if code != OK:
        return code
    if header.base_offset < 0 or header.last_offset_delta < 0:
        return BATCH_CORRUPT
    if header.base_offset > INT64_MAX - 1 - header.last_offset_delta:
        return BATCH_CORRUPT
    if <int64_t>header.records_count > <int64_t>header.last_offset_delta + 1:
        return BATCH_CORRUPT
    if header.attributes & ATTRIBUTE_CODEC > CODEC_MAX or header.producer_id < -1:
        return BATCH_CORRUPT
    return batch_check_count(header)


cdef void batch_stamp(uint8_t* data, int64_t base_offset, int32_t leader_epoch) noexcept nogil:
    store_i64(data, base_offset)
    store_i32(data + 12, leader_epoch)


cdef void batch_stamp_max_timestamp(uint8_t* data, const BatchHeader* header) noexcept nogil:
    if load_i64(data + 35) == header.max_timestamp:
        return
    store_i64(data + 35, header.max_timestamp)
    store_u32(data + CRC_AT, batch_crc(data, header.size))


cdef void batch_stamp_append_time(uint8_t* data, int64_t size, int64_t timestamp_ms) noexcept nogil:
    store_i16(data + 21, load_i16(data + 21) | ATTRIBUTE_APPEND_TIME)
    store_i64(data + 35, timestamp_ms)
    store_u32(data + CRC_AT, batch_crc(data, size))


cdef int batch_control_type(
    const uint8_t* data, const BatchHeader* header, int32_t* coordinator_epoch
) noexcept nogil:
    cdef Cursor records = batch_records(data, header)
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


cdef int64_t append_time(const BatchHeader* header) noexcept nogil:
    return header.max_timestamp if header.attributes & ATTRIBUTE_APPEND_TIME else -1


cdef int _scan(
    const uint8_t* data, int64_t size, vector[BatchHeader]& headers, int64_t* position
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
        headers.push_back(header)
        position[0] += header.size
    return OK


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
    def last_offset(self):
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self):
        return self.attributes & ATTRIBUTE_CODEC

    @property
    def is_append_time(self):
        return bool(self.attributes & ATTRIBUTE_APPEND_TIME)

    @property
    def is_transactional(self):
        return bool(self.attributes & ATTRIBUTE_TRANSACTIONAL)

    @property
    def is_control(self):
        return bool(self.attributes & ATTRIBUTE_CONTROL)

    @property
    def delete_horizon_ms(self):
        return self.base_timestamp if self.attributes & ATTRIBUTE_DELETE_HORIZON else None


cdef BatchInfo batch_info(const BatchHeader* header, int64_t position):
    cdef BatchInfo info = BatchInfo.__new__(BatchInfo)
    info.position, info.base_offset, info.size = position, header.base_offset, header.size
    info.base_timestamp, info.max_timestamp = header.base_timestamp, header.max_timestamp
    info.producer_id, info.producer_epoch = header.producer_id, header.producer_epoch
    info.base_sequence, info.records_count = header.base_sequence, header.records_count
    info.leader_epoch, info.last_offset_delta = header.leader_epoch, header.last_offset_delta
    info.magic, info.crc, info.attributes = header.magic, header.crc, header.attributes
    return info


cdef object batch_refusal(int code, const unsigned char[::1] data, int64_t position):
    """The exception for a batch at `position`, with the numbers that its header has."""
    cdef BatchHeader header
    cdef int64_t left = data.shape[0] - position
    facts = f"batch refused, {left} bytes given"
    if left >= BATCH_HEADER_SIZE:
        batch_load_header(&data[position], &header)
        facts = f"{facts}: {batch_info(&header, position).text()}"
        if BATCH_HEADER_SIZE <= header.size <= left:
            facts = f"{facts}, computed {batch_crc(&data[position], header.size):#010x}"
    else:
        facts = f"{facts} at position {position}, a header has {BATCH_HEADER_SIZE}"
    return errors.from_code(code, facts)


cdef class Payload:
    pass


cdef vector[BatchHeader] scan_batches(const unsigned char[::1] data, bint partial_tail):
    """The headers of all whole batches in `data`, each with its CRC checked."""
    cdef vector[BatchHeader] headers
    cdef int64_t size = data.shape[0], position = 0
    cdef const uint8_t* at = &data[0] if size else NULL
    cdef int code
    with nogil:
        code = _scan(at, size, headers, &position)
    if code != OK and not (code == BATCH_TORN and partial_tail):
        raise batch_refusal(code, data, position)
    return headers


def headers(const unsigned char[::1] data not None, *, bint partial_tail=False):
    """A BatchInfo for each batch in `data`; with `partial_tail` the last may be cut off."""
    cdef BatchHeader header
    cdef int64_t position = 0
    infos = []
    for header in scan_batches(data, partial_tail):
        infos.append(batch_info(&header, position))
        position += header.size
    return infos


cdef Payload open_batch(
    const unsigned char[::1] data, int64_t position, const BatchHeader* header, int64_t size_max
):
    """The records of the batch at `position`, decompressed if need be, not yet checked."""
    cdef Payload payload = Payload.__new__(Payload)
    cdef int64_t end = position + header.size
    payload.claim = batch_claim(header)
    payload.records = batch_records(&data[position], header)
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
        raise batch_refusal(code, data, position)
    return payload


def records(
    const unsigned char[::1] data not None, *, bint partial_tail=False,
    int64_t size_max=compression.SIZE_MAX,
):
    """All records of `data`, decoded; control batches are passed over."""
    cdef BatchHeader header
    cdef Payload payload
    cdef int64_t position = 0
    cdef list decoded = []
    for header in scan_batches(data, partial_tail):
        if not header.attributes & ATTRIBUTE_CONTROL:
            payload = open_checked(data, position, &header, size_max)
            decode_records(
                payload.records, &payload.claim, header.base_offset, append_time(&header), decoded
            )
        position += header.size
    return decoded


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

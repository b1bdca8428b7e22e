"""What a client, the broker itself or a mirror may append: stricter than what a log may hold.

A client sends one batch, with exact counts, no control batch and no delete horizon. A batch of the
broker's own needs no sequence. A mirror brings batches as another log held them.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from appliance.native._bytes cimport Cursor
from appliance.native._codes cimport BATCH_CODEC, BATCH_INVALID, BATCH_TIMESTAMP, BATCH_TORN, OK
from appliance.record._batch cimport (
    ATTRIBUTE_APPEND_TIME, ATTRIBUTE_CODEC, ATTRIBUTE_CONTROL, ATTRIBUTE_DELETE_HORIZON,
    ATTRIBUTE_TRANSACTIONAL, BATCH_HEADER_SIZE, CODEC_MAX, MAGIC_AT, BatchHeader, Payload,
    batch_check_count, batch_check_crc, batch_check_frame, batch_check_header, batch_claim,
    batch_info, batch_load_header, batch_records, batch_refusal, open_batch,
)
from appliance.record._records cimport RecordsClaim, RecordView, record_next, records_check

from appliance.record import compression

cdef enum:
    ATTRIBUTES_KNOWN = 0x7F

    # A batch that claims more records than readers will decompress (compression.SIZE_MAX) could
    # only take up offsets; refusing it here keeps "accepted" from meaning "never readable".
    COMPRESSED_COUNT_MAX = 19173961    # 128 MiB in records of 7 bytes


# ---- without the GIL ----

cdef int _check_flags(const BatchHeader* header) noexcept nogil:
    if header.attributes & ATTRIBUTE_CODEC > CODEC_MAX:
        return BATCH_CODEC
    if header.attributes & (ATTRIBUTE_CONTROL | ATTRIBUTE_DELETE_HORIZON):
        return BATCH_INVALID
    if header.attributes & ~ATTRIBUTES_KNOWN:
        return BATCH_INVALID
    return BATCH_TIMESTAMP if header.attributes & ATTRIBUTE_APPEND_TIME else OK


cdef int _check_counts(const BatchHeader* header) noexcept nogil:
    if header.records_count <= 0 or header.last_offset_delta != header.records_count - 1:
        return BATCH_INVALID
    if header.attributes & ATTRIBUTE_CODEC and header.records_count > COMPRESSED_COUNT_MAX:
        return BATCH_INVALID
    return OK if batch_check_count(header) == OK else BATCH_INVALID


cdef int _check_producer(const BatchHeader* header) noexcept nogil:
    if header.producer_id == -1:
        return BATCH_INVALID if header.attributes & ATTRIBUTE_TRANSACTIONAL else OK
    if header.producer_id < 0 or header.producer_epoch < 0 or header.base_sequence < -1:
        return BATCH_INVALID
    return OK


cdef int _check_records(const uint8_t* data, BatchHeader* header) noexcept nogil:
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
    return batch_check_frame(header, size)


cdef inline int _check_one(const uint8_t* data, int64_t size, BatchHeader* header) noexcept nogil:
    cdef int code
    memset(header, 0, sizeof(BatchHeader))
    if size < BATCH_HEADER_SIZE:
        return _check_short(data, size, header)
    batch_load_header(data, header)
    code = batch_check_frame(header, size)
    if code == OK and size > header.size:
        code = BATCH_INVALID
    if code == OK:
        code = batch_check_crc(data, header)
    if code == OK:
        code = _check_flags(header)
    if code == OK:
        code = _check_counts(header)
    if code == OK:
        code = _check_producer(header)
    if code == OK and not header.attributes & ATTRIBUTE_CODEC:
        code = _check_records(data, header)
    return code


cdef int batch_check(const uint8_t* data, int64_t size, BatchHeader* header) noexcept nogil:
    cdef int code = _check_one(data, size, header)
    if code == OK and header.producer_id >= 0 and header.base_sequence < 0:
        return BATCH_INVALID
    return code


cdef int batch_check_own(const uint8_t* data, int64_t size, BatchHeader* header) noexcept nogil:
    return _check_one(data, size, header)


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


cdef int batch_check_keys(const uint8_t* data, const BatchHeader* header) noexcept nogil:
    cdef Cursor records = batch_records(data, header)
    return _check_keys(&records, header.records_count)


cdef int _check_keys(Cursor* records, int32_t count) noexcept nogil:
    cdef RecordView record
    cdef int32_t _i
    for _i in range(count):
        if record_next(records, &record) != OK or record.key_size < 0:
            return BATCH_INVALID
    return OK


# ---- with the GIL ----

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
        raise batch_refusal(code, batch, 0)
    return batch_info(&header, 0)


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

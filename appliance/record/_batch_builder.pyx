"""Builds the broker's own record batches; `_producer_batch_builder.pyx` is the client library's."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport INT32_MAX, int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy
from libcpp.vector cimport vector

from appliance.native._bytes cimport store_i16, store_i32, store_u32
from appliance.record._batch cimport (
    ATTRIBUTE_CODEC, ATTRIBUTE_CONTROL, ATTRIBUTE_TRANSACTIONAL, BATCH_HEADER_SIZE,
    BATCH_LOG_OVERHEAD, CONTROL_ABORT, CONTROL_COMMIT, CONTROL_KEY_SIZE, CONTROL_VALUE_SIZE, CRC_AT,
    MAGIC, BatchHeader, batch_crc, batch_store_header,
)
from appliance.record._records cimport Record, encode_record

from appliance import errors
from appliance.record import compression
from appliance.record._records import Record as _Record


# ---- with the GIL ----

cdef bytes _sealed(BatchHeader* header, const uint8_t* payload, int64_t size):
    """Header and records as one batch, length and CRC filled in."""
    header.size = BATCH_HEADER_SIZE + size
    if header.size - BATCH_LOG_OVERHEAD > INT32_MAX:
        raise errors.BatchTooLarge(
            f"batch of {header.size} bytes, its length field ends at {INT32_MAX}"
        )
    cdef bytes batch = PyBytes_FromStringAndSize(NULL, header.size)
    cdef uint8_t* data = <uint8_t*>PyBytes_AS_STRING(batch)
    header.magic = MAGIC
    batch_store_header(data, header)
    if size > 0:
        memcpy(data + BATCH_HEADER_SIZE, payload, size)
    header.crc = batch_crc(data, header.size)
    store_u32(data + CRC_AT, header.crc)
    return batch


cdef bytes _compressed(BatchHeader* header, vector[uint8_t]& payload):
    codec = header.attributes & ATTRIBUTE_CODEC
    if not codec:
        return _sealed(header, payload.data(), payload.size())
    text = compression.compress(codec, <bytes>payload.data()[:payload.size()])
    return _sealed(header, <const uint8_t*>PyBytes_AS_STRING(text), len(text))


def batch(
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


def control_batch(
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

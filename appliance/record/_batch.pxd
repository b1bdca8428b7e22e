"""The record batch, magic 2: its header, and what a log and its readers need. Byte picture in
`_batch.pyx`."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t
from libcpp.vector cimport vector

from appliance._crc cimport crc32c
from appliance.native._bytes cimport Cursor, load_i16, load_i32, load_i64, load_u32
from appliance.native._codes cimport BATCH_CORRUPT, BATCH_MAGIC, BATCH_TORN, OK
from appliance.record._records cimport RECORD_SIZE_MIN, RecordsClaim

cdef enum:
    BATCH_LOG_OVERHEAD = 12        # base offset and length, which the length does not count
    BATCH_HEADER_SIZE = 61
    BATCH_CRC_FROM = 21            # the CRC covers attributes to the end; stamps below it are free

    MAGIC = 2
    MAGIC_AT = 16
    CRC_AT = 17
    CODEC_MAX = 4                  # 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd
    OLD_MESSAGE_LENGTH_MIN = 14    # of magic 0: CRC, magic, attributes, two null fields

    ATTRIBUTE_CODEC = 0x07
    ATTRIBUTE_APPEND_TIME = 0x08
    ATTRIBUTE_TRANSACTIONAL = 0x10
    ATTRIBUTE_CONTROL = 0x20
    ATTRIBUTE_DELETE_HORIZON = 0x40

    CONTROL_ABORT = 0
    CONTROL_COMMIT = 1
    CONTROL_KEY_SIZE = 4           # i16 version, i16 type
    CONTROL_VALUE_SIZE = 6         # i16 version, i32 coordinator epoch

cdef struct BatchHeader:
    int64_t base_offset
    int64_t size                   # whole batch in bytes: 12 + the length field
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t producer_id            # -1: none
    int32_t leader_epoch
    int32_t last_offset_delta
    int32_t base_sequence
    int32_t records_count
    uint32_t crc
    int16_t attributes
    int16_t producer_epoch
    int8_t magic

# What runs for every produced batch stands here, to be inlined.

cdef inline void batch_load_header(const uint8_t* data, BatchHeader* header) noexcept nogil:
    """Decodes the 61 bytes at `data`; judges nothing."""
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


cdef inline RecordsClaim batch_claim(const BatchHeader* header) noexcept nogil:
    """What the header claims of its records, for the walkers of `_records.pxd`."""
    cdef RecordsClaim claim
    claim.base_timestamp = header.base_timestamp
    claim.count = header.records_count
    claim.last_offset_delta = header.last_offset_delta
    claim.from_client = False
    return claim


cdef inline Cursor batch_records(const uint8_t* data, const BatchHeader* header) noexcept nogil:
    cdef Cursor records
    records.at = data + BATCH_HEADER_SIZE
    records.end = data + header.size
    records.failed = False
    return records


cdef inline uint32_t batch_crc(const uint8_t* data, int64_t size) noexcept nogil:
    return crc32c(0, data + BATCH_CRC_FROM, size - BATCH_CRC_FROM)


cdef inline int batch_check_crc(const uint8_t* data, const BatchHeader* header) noexcept nogil:
    """OK or BATCH_CORRUPT: of a whole batch, header.size bytes."""
    return OK if batch_crc(data, header.size) == header.crc else BATCH_CORRUPT


cdef inline int batch_check_frame(const BatchHeader* header, int64_t bytes_left) noexcept nogil:
    """Length and magic. The order matters to the scan of a torn tail: zeros are no old message."""
    if header.size < BATCH_LOG_OVERHEAD + OLD_MESSAGE_LENGTH_MIN or header.magic < 0:
        return BATCH_CORRUPT
    if header.magic != MAGIC:
        return BATCH_MAGIC
    if header.size < BATCH_HEADER_SIZE:
        return BATCH_CORRUPT
    return BATCH_TORN if bytes_left < header.size else OK


cdef inline int batch_check_count(const BatchHeader* header) noexcept nogil:
    """Whether so many records can stand in so few bytes; needed before anybody counts on it."""
    cdef int64_t records_size = header.size - BATCH_HEADER_SIZE
    if header.records_count <= 0:
        return OK if header.records_count == 0 and records_size == 0 else BATCH_CORRUPT
    if header.attributes & ATTRIBUTE_CODEC:
        return OK if records_size > 0 else BATCH_CORRUPT
    return OK if header.records_count <= records_size // RECORD_SIZE_MIN else BATCH_CORRUPT


# Whether this can be the head of a batch that a log holds (compaction may have emptied it): OK,
# BATCH_MAGIC, BATCH_TORN when `bytes_left` is less than its size, BATCH_CORRUPT when no writer can
# have written it.
cdef int batch_check_header(const BatchHeader* header, int64_t bytes_left) noexcept nogil

# Writes base offset and leader epoch in place; the CRC does not cover them.
cdef void batch_stamp(uint8_t* data, int64_t base_offset, int32_t leader_epoch) noexcept nogil

# Writes header.max_timestamp, and the CRC anew, if the batch says otherwise; nearly always nothing.
cdef void batch_stamp_max_timestamp(uint8_t* data, const BatchHeader* header) noexcept nogil

# Sets the append-time bit and max_timestamp and computes the CRC anew.
cdef void batch_stamp_append_time(uint8_t* data, int64_t size, int64_t timestamp_ms) noexcept nogil

# Of a control batch (whole, checked): CONTROL_ABORT, CONTROL_COMMIT, or -1 for another type;
# the coordinator's epoch through `coordinator_epoch`.
cdef int batch_control_type(
    const uint8_t* data, const BatchHeader* header, int32_t* coordinator_epoch
) noexcept nogil

# Writes the 61 bytes, the CRC field as it stands in `header`.
cdef void batch_store_header(uint8_t* data, const BatchHeader* header) noexcept nogil

# What each record's timestamp is in a batch with the append-time bit; -1: records have their own.
cdef int64_t append_time(const BatchHeader* header) noexcept nogil

# The rest takes the GIL.

cdef class BatchInfo:
    cdef readonly int64_t position     # of the batch in the bytes that were given
    cdef readonly int64_t base_offset, size, base_timestamp, max_timestamp, producer_id
    cdef readonly int32_t leader_epoch, last_offset_delta, base_sequence, records_count
    cdef readonly uint32_t crc
    cdef readonly int16_t attributes, producer_epoch
    cdef readonly int8_t magic

cdef BatchInfo batch_info(const BatchHeader* header, int64_t position)

# The exception for the batch at `position`, with the numbers that its header has.
cdef object batch_refusal(int code, const unsigned char[::1] data, int64_t position)

# The records of a batch, and what keeps them alive once decompressed.
cdef class Payload:
    cdef Cursor records
    cdef RecordsClaim claim
    cdef bytes owner                   # None: the records stand in the batch itself

# Headers of all whole batches, CRCs checked; raises for anything else, a cut tail only on demand.
cdef vector[BatchHeader] scan_batches(const unsigned char[::1] data, bint partial_tail)

# The records of the batch at `position`, decompressed to at most `size_max` bytes and checked.
cdef Payload open_checked(
    const unsigned char[::1] data, int64_t position, const BatchHeader* header, int64_t size_max
)

# The same, not yet checked, for who checks what it reads.
cdef Payload open_batch(
    const unsigned char[::1] data, int64_t position, const BatchHeader* header, int64_t size_max
)

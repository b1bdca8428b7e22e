"""The record batch, magic 2: what the log needs to know of it. Byte picture in `_batch.pyx`."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t

from libcpp.vector cimport vector

from appliance.native._bytes cimport Cursor
from appliance.record._records cimport RecordsClaim

cdef enum:
    BATCH_LOG_OVERHEAD = 12        # base offset and length, which the length does not count
    BATCH_HEADER_SIZE = 61
    BATCH_CRC_FROM = 21            # the CRC covers attributes to the end; stamps below it are free

    ATTRIBUTE_CODEC = 0x07
    ATTRIBUTE_APPEND_TIME = 0x08
    ATTRIBUTE_TRANSACTIONAL = 0x10
    ATTRIBUTE_CONTROL = 0x20
    ATTRIBUTE_DELETE_HORIZON = 0x40

    CONTROL_ABORT = 0
    CONTROL_COMMIT = 1

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

# Decodes the 61 bytes at `data`; judges nothing.
cdef void batch_load_header(const uint8_t* data, BatchHeader* header) noexcept nogil

# Whether this can be the head of a batch that a log holds (compaction may have emptied it): OK,
# BATCH_MAGIC, BATCH_TORN when `bytes_left` is less than its size, BATCH_CORRUPT when no writer can
# have written it.
cdef int batch_check_header(const BatchHeader* header, int64_t bytes_left) noexcept nogil

# OK or BATCH_CORRUPT: CRC over a whole batch of header.size bytes.
cdef int batch_check_crc(const uint8_t* data, const BatchHeader* header) noexcept nogil

# Everything a client's batch must be: exactly one batch of `size` bytes, header, CRC, counts,
# flags, and, when uncompressed, a walk of every record (lengths, offset deltas 0,1,2...,
# timestamps). Fills `header` as far as it got. Where the records' largest timestamp is not what
# the header claims, header.max_timestamp is the records': give it to batch_stamp_max_timestamp
# before writing.
cdef int batch_check(const uint8_t* data, int64_t size, BatchHeader* header) noexcept nogil

# The same for a batch of the broker's own: one with a producer id needs no sequence. Offsets that
# are committed within a transaction belong to its producer, which did not count them.
cdef int batch_check_own(const uint8_t* data, int64_t size, BatchHeader* header) noexcept nogil

# What a mirror may bring: the next batch in `data`, whole, as another log holds it. Records may be
# missing, even all of them; control batches, transactions and producers are refused: they mean
# something in their own cluster only.
cdef int batch_check_mirrored(
    const uint8_t* data, int64_t bytes_left, BatchHeader* header
) noexcept nogil

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

# Of an uncompressed batch (whole, checked): OK, or BATCH_INVALID when a record has no key, which a
# compacted topic refuses. A compressed batch must be decompressed first, as check() does.
cdef int batch_check_keys(const uint8_t* data, const BatchHeader* header) noexcept nogil

# What the header claims of its records, for the walkers of `_records.pxd`.
cdef RecordsClaim batch_claim(const BatchHeader* header) noexcept nogil

# What each record's timestamp is in a batch with the append-time bit; -1: records have their own.
cdef int64_t append_time(const BatchHeader* header) noexcept nogil

# The aborted transactions of a range of a log, as a Fetch tells them, while one goes through its
# batches in order.
cdef struct AbortedTxn:
    int64_t producer_id
    int64_t first_offset

cdef cppclass AbortedTxns:
    vector[AbortedTxn] told        # by first offset
    size_t begun                   # of `told`
    vector[int64_t] active         # producers within an aborted transaction

# Whether the next batch (whole, checked) is of an aborted transaction. It keeps count of those that
# this batch begins or ends; the marker that ends one is no part of it.
cdef bint batch_is_aborted(
    AbortedTxns* txns, const uint8_t* data, const BatchHeader* header
) noexcept nogil

# The rest takes the GIL.

# `aborted` are pairs of producer id and first offset.
cdef int take_aborted(AbortedTxns* txns, object aborted) except -1

cdef class BatchInfo:
    cdef BatchHeader header
    cdef readonly int64_t position     # of the batch in the bytes that were given

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

"""Idempotent and transactional producers of one partition: what each wrote last, what is open.

All of it belongs to the log's appender, under the log's guard.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libcpp.map cimport map as ordered_map
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from appliance.record._batch cimport BatchHeader
from appliance.storage._index cimport AbortedTxn

cdef enum:
    BATCHES_REMEMBERED = 5         # clients have at most five requests in flight
    DUPLICATE = 1

# One batch of a producer, by its last record.
cdef struct BatchSeen:
    int64_t last_offset
    int64_t timestamp
    int32_t offset_delta
    int32_t last_sequence

cdef struct Producer:
    BatchSeen[BATCHES_REMEMBERED] batches    # oldest first
    int64_t txn_first_offset       # -1: no open transaction
    int64_t last_timestamp         # of its last batch or marker
    int64_t seen_ms                # wall clock of the append: what expiry counts from
    int32_t count                  # of batches
    int32_t ended                  # of these, from the oldest on: a marker stands behind them
    int32_t coordinator_epoch      # of the last marker; -1: none
    int16_t epoch

cdef cppclass ProducerTable:
    unordered_map[int64_t, Producer] producers
    ordered_map[int64_t, int64_t] open_txns      # first offset -> producer id

# OK: append it. DUPLICATE: it is in the log already, as `seen`. Otherwise a code.
cdef int producers_check(ProducerTable* table, const BatchHeader* header,
                         BatchSeen* seen) noexcept nogil
cdef int producers_check_marker(ProducerTable* table, const BatchHeader* header,
                                int32_t coordinator_epoch) noexcept nogil

# Takes an appended data batch, or a marker, into the state. A marker answers 1 and fills `aborted`
# (but for last_stable_offset) when it aborted a transaction that wrote here.
cdef void producers_note(ProducerTable* table, const BatchHeader* header,
                         int64_t now_ms) noexcept nogil
cdef bint producers_note_marker(ProducerTable* table, const BatchHeader* header, int control_type,
                                int32_t coordinator_epoch, int64_t now_ms,
                                AbortedTxn* aborted) noexcept nogil

cdef bint producers_txn_is_open(ProducerTable* table, int64_t producer_id,
                                int16_t producer_epoch) noexcept nogil

# First offset of the oldest open transaction; INT64_MAX: none is open.
cdef int64_t producers_first_open(ProducerTable* table) noexcept nogil

cdef void producers_expire(ProducerTable* table, int64_t now_ms,
                           int64_t expiration_ms) noexcept nogil

# As bytes of the checkpoint journal: all that is remembered.
cdef void producers_store(ProducerTable* table, vector[uint8_t]* into) noexcept nogil
cdef bint producers_load(ProducerTable* table, const uint8_t* data, int64_t size) noexcept nogil

# As Kafka's .snapshot file: the last batch of each only. Derived data, read for foreign
# directories.
cdef int producers_store_snapshot(ProducerTable* table, int directory_fd,
                                  int64_t offset) noexcept nogil
cdef bint producers_load_snapshot(ProducerTable* table, int directory_fd, int64_t offset,
                                  int64_t now_ms) noexcept nogil

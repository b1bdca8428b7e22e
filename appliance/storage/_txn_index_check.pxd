"""Compares the aborted transactions in a segment's batches with its transaction index: that file
has no checksum, and decides which records readers of committed records see.
"""

from libc.stdint cimport int64_t, uint8_t
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from appliance.record._batch cimport BatchHeader
from appliance.storage._index cimport AbortedTxn
from appliance.storage._partition_log cimport PartitionLog
from appliance.storage._producers cimport ProducerTable

cdef enum TrailVerdict:
    TRAIL_FITS = 0
    TRAIL_MENDED = 1               # the log had all facts for the repair
    TRAIL_UNSURE = 2               # the log lacks transactions that were open before the segment

# An abort marker. `txn.first_offset` is -1 where no data of its transaction was seen.
cdef struct AbortMark:
    AbortedTxn txn
    int64_t after                  # the producer's previous marker; -1: none was seen
    bint is_whole

cdef cppclass TxnTrail:
    ProducerTable table
    bint is_whole                  # all open transactions are known
    unordered_map[int64_t, int64_t] ended        # producer id -> its last marker
    vector[AbortMark] marks

# Starts at a segment; its producer snapshot has the transactions that are open there.
cdef void trail_start(TxnTrail* trail, int directory_fd, int64_t base_offset) noexcept nogil

# Notes the next batch, whole and checked; reads `data` of a control batch.
cdef void trail_note(TxnTrail* trail, const uint8_t* data,
                     const BatchHeader* header) noexcept nogil

# The next batches are not noted.
cdef void trail_lose(TxnTrail* trail) noexcept nogil

# Corrects log.aborted for the batches from a segment's `base` up to `end`, which the trail has
# seen. maintenance is held, or no other thread knows the log yet.
cdef TrailVerdict trail_mend(PartitionLog* log, const TxnTrail* trail, int64_t base,
                           int64_t end) noexcept nogil

"""What a segment's batches say of the transactions that were aborted in it, held against what its
transaction index says: that file has no checksum, and decides what readers of committed records
see.
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
    TRAIL_MENDED = 1               # the log says all that was wrong
    TRAIL_UNSURE = 2               # the log says some of it: what was open before is not known

# An abort marker. `txn.first_offset` is -1 where no data of its transaction was seen.
cdef struct AbortMark:
    AbortedTxn txn
    int64_t after                  # the producer's marker before it; -1: none was seen
    bint is_whole

cdef cppclass TxnTrail:
    ProducerTable table
    bint is_whole                  # whatever is open here is known
    unordered_map[int64_t, int64_t] ended        # producer id -> its last marker
    vector[AbortMark] marks

# At the begin of a segment; what is open there is known from its snapshot of producers.
cdef void trail_start(TxnTrail* trail, int directory_fd, int64_t base_offset) noexcept nogil

# The next batch, whole and checked; `data` is looked at where it is a control batch.
cdef void trail_note(TxnTrail* trail, const uint8_t* data,
                     const BatchHeader* header) noexcept nogil

# Batches follow that are not noted.
cdef void trail_lose(TxnTrail* trail) noexcept nogil

# Puts log.aborted right for the batches from a segment's `base` up to `end`, which the trail has
# seen. maintenance is held, or nobody else knows the log yet.
cdef TrailVerdict trail_mend(PartitionLog* log, const TxnTrail* trail, int64_t base,
                           int64_t end) noexcept nogil

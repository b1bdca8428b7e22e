"""The records of a batch that survive compaction. `_survivors.pyx` has the rules."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.unordered_map cimport unordered_map
from libcpp.unordered_set cimport unordered_set
from libcpp.vector cimport vector

from appliance.native._bytes cimport Cursor
from appliance.record._batch cimport BatchHeader
from appliance.record._records cimport RecordsClaim
from appliance.storage._index cimport AbortedTxn
from appliance.storage._partition_log cimport PartitionLog
from appliance.storage.compaction._offset_map cimport OffsetMap

cdef enum:
    UNPACK = 1                     # the batch is compressed, and its records are wanted
    PACK = 2                       # the batch was rewritten and must be compressed again

cdef enum Verdict:
    COPY                           # byte for byte
    REWRITE                        # with those of `keep`, or with a horizon, or both
    EMPTY                          # only its header stays
    DROP

# Transactions as a walk from old to new meets them.
cdef cppclass Transactions:
    vector[AbortedTxn] aborted     # by first offset
    size_t next                    # of them, not reached yet
    unordered_map[int64_t, int64_t] aborting     # producer id -> offset of the abort marker
    unordered_set[int64_t] with_data             # producers with a batch since their last marker

# The last thing that a living producer wrote here.
cdef struct LastOfProducer:
    int64_t data_offset            # -1: no data in this epoch
    int32_t epoch

cdef cppclass Rules:
    int64_t now_ms
    int64_t latest_ms              # the same, unless the clock is in doubt
    int64_t horizon_ms             # for tombstones and markers that get one in this round
    OffsetMap map
    int64_t mapped_end             # the map speaks of the offsets below
    unordered_map[int64_t, LastOfProducer] living
    Transactions transactions
    vector[int64_t] forgotten      # abort markers whose transactions have no data any more

# The batch at hand. Owned by the round; `data` and `records` point into the reader's window, or
# into what the batch was decompressed to.
cdef cppclass Subject:
    const uint8_t* data
    BatchHeader header
    bint has_records               # `records` and `claim` are set and checked
    Cursor records
    RecordsClaim claim
    vector[uint8_t] keep           # one per record
    bint sets_horizon
    BatchHeader new_header         # what is written in its place: header and, behind room for it,
    vector[uint8_t] rewritten      # records

# Living producers and the horizon, for a round at rules.now_ms.
cdef int rules_start(Rules* rules, PartitionLog* log, int64_t delete_retention_ms) except? -1 nogil

# A walk from old to new begins.
cdef int rules_walk(Rules* rules, PartitionLog* log) except? -1 nogil

# Whether a batch belongs to an aborted transaction; to be asked of every batch, in order.
cdef bint rules_is_aborted(Rules* rules, const BatchHeader* header) except? -1 nogil

# OK with a verdict; UNPACK: set records and claim, then ask again; or a code, for damage.
cdef int rules_judge(Rules* rules, Subject* batch, Verdict* verdict) except? -1 nogil

# A new batch is at hand.
cdef void subject_take(
    Subject* batch, const uint8_t* data, const BatchHeader* header
) noexcept nogil

# Sets and checks the records of an uncompressed batch. OK, UNPACK or a code.
cdef int subject_open(Subject* batch) noexcept nogil

# The same where they are given: those of a compressed batch.
cdef int subject_open_at(Subject* batch, const uint8_t* records, int64_t size) noexcept nogil

# Puts what the verdict (EMPTY or REWRITE) leaves into `rewritten`. OK; PACK: its records must be
# compressed first; then seal it.
cdef int subject_rewrite(Subject* batch, Verdict verdict, int64_t horizon_ms) except? -1 nogil

# Puts the header before the records, its size and CRC right.
cdef void subject_seal(Subject* batch) noexcept nogil

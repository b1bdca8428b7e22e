from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from appliance.record._batch cimport BatchHeader
from appliance.storage._commit_requests cimport Committer
from appliance.storage._partition_log cimport LogRef, PartitionLog
from appliance.storage._segment cimport Segment

cdef enum Origin:
    ORIGIN_CLIENT = 0              # every rule applies
    ORIGIN_COORDINATOR = 1         # our own records and markers: also when the disk is low, and in
                                   # no sequence
    ORIGIN_UNVERIFIED = 2          # a client that the transaction coordinator has not verified: it
                                   # may continue an open transaction, and begin none
    ORIGIN_MIRROR = 3              # batches of another log, which keep their offsets
    ORIGIN_REPLICA = 4             # batches of this log from its leader, which stay as they are

cdef struct AppendOptions:
    int origin
    int32_t leader_epoch           # -1: the log's own; of a replica: that of the leader it is from
    bint is_awaited                # a client waits until it is durable: commit at once
    int64_t earliest_ms            # the earliest possible time: see storage_now
    int64_t latest_ms

cdef struct Appended:
    int64_t base_offset
    int64_t last_offset
    int64_t append_time            # -1: the batch keeps its own timestamps
    int64_t election               # in which this was appended: what `log_await` wants
    bint duplicate

# Appends one checked batch (`header` is its header), and stamps `data` in place. Requests a commit
# by the log's settings and for waiting clients. OK or a code.
cdef int log_append(Committer* committer, const LogRef& log, uint8_t* data, BatchHeader* header,
                    const AppendOptions* options, Appended* appended) noexcept nogil

# Checks and appends the batches of another log, one by one, with one request to the committer.
# Batches before a refused one stay appended. `appended` covers all appended batches, also after a
# refusal; its offsets are -1 if there were none.
cdef int log_append_mirrored(Committer* committer, const LogRef& log, uint8_t* data, int64_t size,
                             bint is_awaited, Appended* appended) noexcept nogil

# The same for batches of a follower's leader, which led in `leader_epoch` when it was asked. They
# are written as they are. A piece of a batch at the end is left out. A commit is asked for.
cdef int log_append_replicated(Committer* committer, const LogRef& log, uint8_t* data, int64_t size,
                               int32_t leader_epoch, Appended* appended) noexcept nogil

# Whether this producer, in this epoch, has a transaction open here.
cdef bint log_txn_is_open(PartitionLog* log, int64_t producer_id,
                          int16_t producer_epoch) noexcept nogil

# Takes a batch at the end of the log into epochs, producers and transactions (append, recovery).
cdef void log_note(PartitionLog* log, Segment* segment, const uint8_t* data,
                   const BatchHeader* header,
                   int64_t now_ms) noexcept nogil

"""A log's leader epochs: where each began (`log.epochs`), and the present one (`log.leader_epoch`).
guard is held, but where it says otherwise."""

from libc.stdint cimport int32_t, int64_t
from libcpp.vector cimport vector

from appliance.record._batch cimport BatchHeader
from appliance.storage._checkpoint_journal cimport EpochEntry
from appliance.storage._partition_log cimport PartitionLog

# The epoch that a batch gets: the log's own, or a later one that the leader named, which is then
# the log's.
cdef inline int32_t epoch_of_append(PartitionLog* log, int32_t leader_epoch) noexcept nogil:
    cdef int32_t epoch = <int32_t>log.leader_epoch.load()
    if leader_epoch > epoch:
        epoch = leader_epoch
        log.leader_epoch.store(epoch)
    return epoch

# A batch at the end of the log may begin an epoch.
cdef inline void epochs_note(PartitionLog* log, const BatchHeader* header) noexcept nogil:
    cdef EpochEntry entry
    if log.epochs.empty() or header.leader_epoch > log.epochs.back().epoch:
        entry.epoch = header.leader_epoch
        entry.start_offset = header.base_offset
        log.epochs.push_back(entry)

# Whether the last epoch goes on with this batch, or a later one begins.
cdef bint epochs_allow(const PartitionLog* log, const BatchHeader* header) noexcept nogil

# The last one that a batch has; -1: there is none.
cdef int32_t epochs_last(const PartitionLog* log) noexcept nogil

# Those that begin at `offset`, or later, never were.
cdef void epochs_cut(PartitionLog* log, int64_t offset) noexcept nogil

# The present epoch as recovery finds it; `is_next`: a new one begins.
cdef void epochs_open(PartitionLog* log, int64_t saved_epoch, bint is_next) noexcept nogil

# The last epoch that is not above `epoch`, and the offset at which it ended; -1: none. Takes guard.
cdef void epochs_end_of(PartitionLog* log, int32_t epoch, int32_t* last,
                        int64_t* end_offset) noexcept nogil

# The epoch in which the record at `offset` was, or will be, written. Takes guard.
cdef int32_t epochs_at(PartitionLog* log, int64_t offset) noexcept nogil

# False where it is known which epoch the batch's offset was written in, and that is another one.
cdef bint epochs_fit(const vector[EpochEntry]* epochs, const BatchHeader* header) noexcept nogil

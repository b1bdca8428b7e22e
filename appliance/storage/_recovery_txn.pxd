"""Transaction indexes at the start of a log: read, put right, stored."""

from libc.stdint cimport int64_t

from appliance.storage._checkpoint_journal cimport Checkpoint
from appliance.storage._partition_log cimport PartitionLog
from appliance.storage._salvage cimport Recovered

# The file of the segment `base` into log.aborted. One that cannot be true is noted in `recovered`.
cdef int txn_index_take(PartitionLog* log, int64_t base, const Checkpoint* checkpoint,
                        Recovered* recovered) noexcept nogil

# What the scan met of aborts is on disk before the recovery point moves past them.
cdef int txn_indexes_store(PartitionLog* log) noexcept nogil

# Those that cannot be true are put right. Nobody reads the log yet.
cdef int txn_indexes_mend(PartitionLog* log, Recovered* recovered) noexcept nogil

"""Transaction indexes at the start of a log: read, corrected, stored."""

from libc.stdint cimport int64_t

from appliance.storage._checkpoint_journal cimport Checkpoint
from appliance.storage._partition_log cimport PartitionLog
from appliance.storage._salvage cimport Recovered

# Loads the file of the segment `base` into log.aborted; notes an impossible one in `recovered`.
cdef int txn_index_take(PartitionLog* log, int64_t base, const Checkpoint* checkpoint,
                        Recovered* recovered) noexcept nogil

# Stores the aborts of the scan, before the recovery point moves past them.
cdef int txn_indexes_store(PartitionLog* log) noexcept nogil

# Corrects impossible indexes. The log has no readers yet.
cdef int txn_indexes_mend(PartitionLog* log, Recovered* recovered) noexcept nogil

from libc.stdint cimport int64_t

from appliance.storage._partition_log cimport PartitionLog

# Before a batch that begins at `base_offset`, behind the log's end, is appended: from then on, and
# after a crash, nobody takes the offsets that are left out for damage. OK or a code.
cdef int log_admit_gap(PartitionLog* log, int64_t base_offset) noexcept nogil

# Nothing is kept, and the log begins at `offset`, which lies at or behind its end: the leader has
# nothing older. Blocks until that is on disk. NOT_LEADER: as of `log_truncate`.
cdef int log_begin_at(PartitionLog* log, int64_t offset, int64_t election) noexcept nogil

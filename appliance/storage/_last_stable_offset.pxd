from libc.stdint cimport int64_t

from appliance.storage._partition_log cimport PartitionLog

# Below it every replica that must have a record has it on disk, this one too.
cdef inline int64_t log_acknowledged_offset(PartitionLog* log) noexcept nogil:
    return min(log.durable_offset.load(), log.replicated_to.load())

# The same, but where records are shown as soon as they are appended.
cdef int64_t log_high_watermark(PartitionLog* log) noexcept nogil
cdef int64_t log_last_stable_offset(PartitionLog* log) noexcept nogil

# The high watermark moved: transactions whose markers are visible by now are held back no more.
cdef void log_forget_ended(PartitionLog* log) noexcept nogil

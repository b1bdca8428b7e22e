from libc.stdint cimport int64_t

from appliance.storage._partition_log cimport PartitionLog

cdef int64_t log_high_watermark(PartitionLog* log) noexcept nogil
cdef int64_t log_last_stable_offset(PartitionLog* log) noexcept nogil

# The durable offset moved: transactions whose markers are visible by now are held back no more.
cdef void log_forget_ended(PartitionLog* log) noexcept nogil

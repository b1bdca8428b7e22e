"""Truncates a log at its end."""

from libc.stdint cimport int64_t

from appliance.storage._partition_log cimport PartitionLog

# Removes every record at or beyond `offset`, and the rest of the batch it falls into.
cdef int log_truncate(PartitionLog* log, int64_t offset) noexcept nogil

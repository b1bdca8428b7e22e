"""The settings of one log: from Python's config, into the log."""

from libc.stdint cimport int64_t

from appliance.storage._partition_log cimport LogSettings, PartitionLog

cdef int settings_fill(LogSettings* c, settings) except -1

# Puts them in force. Whoever waits for the log is not told yet: see log_tell. Returns when what is
# unflushed is to be committed by them (`_flush_policy.pxd`).
cdef int64_t settings_apply(PartitionLog* log, const LogSettings* settings) noexcept nogil

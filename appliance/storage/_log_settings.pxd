"""The settings of one log: from Python's config, into the log."""

from appliance.storage._partition_log cimport LogSettings, PartitionLog

cdef int settings_fill(LogSettings* c, settings) except -1

# Puts them in force. Whoever waits for the log is not told yet: see log_tell.
cdef void settings_apply(PartitionLog* log, const LogSettings* settings) noexcept nogil

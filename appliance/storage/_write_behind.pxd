from libc.stdint cimport int64_t

from appliance.storage._commit_requests cimport Committer
from appliance.storage._partition_log cimport LogRef

# Starts write-back of what the log gathered, on another thread.
cdef void write_behind_ask(Committer* committer, const LogRef& log) noexcept nogil

# Syncs the watermarks there, when some are new and a second has passed since the last time.
cdef void write_behind_marks(Committer* committer, int64_t now) noexcept nogil

cdef int write_behind_start(Committer* committer) noexcept nogil
cdef void write_behind_stop(Committer* committer) noexcept nogil

"""A log that can be appended to, for compiled code that is handed one."""

from libc.stdint cimport int64_t, uint8_t

from appliance.storage._append cimport AppendOptions, Appended as CAppended
from appliance.storage._commit_requests cimport Committer, CommitterRef
from appliance.storage._partition_log cimport LogRef
from appliance.storage._read_from_python cimport LogReader

# Checks one batch, then appends it as `log_append` does.
cdef int append_checked(Committer* committer, const LogRef& log, uint8_t* data, int64_t size,
                        const AppendOptions* options, CAppended* appended) noexcept nogil

cdef class LogAppender(LogReader):
    cdef CommitterRef committer
    cdef _append(self, uint8_t* batch, int64_t size, const AppendOptions* options)
    cdef _check_keys(self, const unsigned char[::1] batch, int origin)
    cdef str _refused(self, int code, const uint8_t* batch, int64_t size)
    cdef str _not_durable(self, int64_t offset, double timeout_s)

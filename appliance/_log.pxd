"""The Python objects of the engine, for compiled code that is handed one."""

from libc.stdint cimport int64_t, uint8_t

from appliance.storage._append cimport AppendOptions, Appended as CAppended
from appliance.storage._committer cimport Committer, CommitterRef
from appliance.storage._partition_log cimport LogRef
from appliance.storage._storage cimport StorageRef

# Checks one batch, then appends it as `log_append` does.
cdef int engine_append(Committer* committer, const LogRef& log, uint8_t* data, int64_t size,
                       const AppendOptions* options, CAppended* appended) noexcept nogil

cdef class Engine:
    cdef StorageRef storage
    cdef CommitterRef committer
    cdef readonly str path
    cdef bint is_started
    cdef bint is_closed

cdef class Log:
    cdef LogRef log
    cdef Engine engine
    cdef readonly str name
    cdef readonly str topic
    cdef readonly int partition
    cdef _raise(self, int code, str doing)
    cdef _check_keys(self, const unsigned char[::1] batch, int origin)
    cdef str _refused(self, int code, const unsigned char[::1] batch)
    cdef str _not_durable(self, int64_t offset, double timeout_s)
    cdef _records(self, data, int64_t offset)

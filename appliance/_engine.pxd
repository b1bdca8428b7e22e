"""The Python objects of the engine, for compiled code that is handed one."""

from appliance._committer cimport CommitterRef
from appliance._log cimport LogRef
from appliance._storage cimport StorageRef

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
    cdef str _refused(self, const unsigned char[::1] batch)

"""What is to be seen of a log, for compiled code that is handed one."""

from appliance.storage._partition_log cimport LogRef

cdef class LogView:
    cdef LogRef log
    cdef readonly str name         # "<topic>-<partition>"
    cdef readonly str topic
    cdef readonly int partition
    cdef readonly str directory    # its path
    cdef _raise(self, int code, str doing)

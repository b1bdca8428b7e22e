"""A log that can be read, for compiled code that is handed one."""

from libc.stdint cimport int64_t

from appliance.native._descriptors cimport FileRef
from appliance.storage._log_description cimport LogView

cdef class FileSlice:
    cdef FileRef file
    cdef readonly int64_t position
    cdef readonly int64_t size

cdef class LogReader(LogView):
    cdef _raise_read(self, int code, int64_t offset)
    cdef _records(self, data, int64_t offset)

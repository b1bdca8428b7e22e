"""A data directory, for compiled code that is handed one."""

from libc.stdint cimport int64_t

from appliance.storage._storage cimport StorageRef

cdef class DataDirectory:
    cdef StorageRef storage
    cdef readonly str path
    cdef _open(self, str path, int64_t reserve_bytes, int64_t low_water_bytes,
               int64_t write_behind_bytes)
    cdef _raise(self, int code, str doing)

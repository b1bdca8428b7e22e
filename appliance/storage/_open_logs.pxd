"""Weak references to every open log of a data directory, for operations on all of them."""

from libcpp.memory cimport weak_ptr
from libcpp.vector cimport vector

from appliance.native._native cimport mutex
from appliance.storage._partition_log cimport LogRef, PartitionLog

cdef cppclass OpenLogs:
    mutex guard
    vector[weak_ptr[PartitionLog]] logs  # guard

cdef void open_logs_add(OpenLogs* logs, const LogRef& log) noexcept nogil

# Forgets those that are no more.
cdef void open_logs_prune(OpenLogs* logs) noexcept nogil

# Fails every log that has something of which no sync has said that it is on disk.
cdef void open_logs_fail_unsynced(OpenLogs* logs, int code) noexcept nogil

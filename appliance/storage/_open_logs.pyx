"""Weak references to every open log of a data directory, for operations on all of them."""

from libcpp.memory cimport weak_ptr
from libcpp.vector cimport vector

from appliance.native._native cimport ScopeLock
from appliance.storage._log_commit cimport log_tell
from appliance.storage._partition_log cimport LogRef, PartitionLog, log_fail


# ---- without the GIL ----

cdef void open_logs_add(OpenLogs* logs, const LogRef& log) noexcept nogil:
    cdef ScopeLock lock
    lock.hold(logs.guard)
    logs.logs.push_back(weak_ptr[PartitionLog](log))


cdef void open_logs_prune(OpenLogs* logs) noexcept nogil:
    cdef size_t i, kept = 0
    cdef ScopeLock lock
    lock.hold(logs.guard)
    for i in range(logs.logs.size()):
        if not logs.logs[i].expired():
            logs.logs[kept] = logs.logs[i]
            kept += 1
    logs.logs.resize(kept)


cdef void open_logs_fail_unsynced(OpenLogs* logs, int code) noexcept nogil:
    cdef vector[LogRef] alive
    cdef LogRef log
    cdef size_t i
    logs.guard.lock()
    for i in range(logs.logs.size()):
        log = logs.logs[i].lock()
        if log.get() != NULL:
            alive.push_back(log)
    logs.guard.unlock()
    for i in range(alive.size()):
        log = alive[i]
        # An append that is under way counts too: its bytes may have been in that sync.
        log.get().guard.lock()
        if (log.get().dirty_directory.get() != NULL
                or log.get().durable_offset.load() < log.get().log_end_offset.load()):
            log_fail(log.get(), code)
        log.get().guard.unlock()
        if log.get().failed.load() != 0:
            log_tell(log.get())

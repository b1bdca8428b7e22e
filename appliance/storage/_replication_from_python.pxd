"""A log as a replica, for compiled code that is handed one."""

from appliance.storage._append_from_python cimport LogAppender

cdef class LogReplica(LogAppender):
    cdef str _heard_of(self)

"""The Python objects of the engine, for compiled code that is handed one."""

from appliance.storage._commit_requests cimport CommitterRef
from appliance.storage._data_directory cimport DataDirectory
from appliance.storage._replication_from_python cimport LogReplica

cdef class Engine(DataDirectory):
    cdef CommitterRef committer
    cdef bint is_started
    cdef bint is_closed

cdef class Log(LogReplica):
    cdef Engine engine             # kept open by its logs

"""Opens and closes a partition's log, and reports the result of the recovery."""

from libc.stdint cimport int64_t
from libcpp.string cimport string

from appliance.storage._partition_log cimport LogRef, LogSettings, PartitionLog
from appliance.storage._salvage cimport Recovered
from appliance.storage._storage cimport StorageRef

# Opens or creates the log in directory `name` below the data directory. `is_trusted`: the last life
# ended with a clean stop, so that the page cache tells the truth and nothing need be read.
# `is_moved`: it comes from another directory with all that clients saw, and has the same epoch.
cdef int log_open(const StorageRef& storage, const string& name, const LogSettings* settings,
                  bint is_trusted, bint is_moved, LogRef* opened,
                  Recovered* recovered) noexcept nogil

# Takes no more appends. The caller commits and checkpoints first.
cdef void log_close(PartitionLog* log) noexcept nogil

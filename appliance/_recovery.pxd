"""Opening and closing a partition's log; what was found, and what had to be given up."""

from libc.stdint cimport int64_t
from libcpp.string cimport string

from appliance._log cimport LogRef, LogSettings, PartitionLog
from appliance._storage cimport StorageRef

# What opening a log met. Offsets are -1 where nothing of the kind happened.
cdef struct Recovered:
    int64_t scanned_bytes          # read and checked, because they were not known to be good
    int64_t cut_bytes              # of a torn tail that was never acknowledged as durable
    int64_t cut_offset             # the log's end after the cut
    int64_t lost_first_offset      # durable records that are gone or damaged: [first, end)
    int64_t lost_end_offset
    int64_t aside_bytes            # moved to `.corrupt-*` files
    bint was_known                 # the journal had a checkpoint

# Opens or creates the log in directory `name` below the data directory. `is_trusted`: the last life
# ended with a clean stop, so that the page cache tells the truth and nothing need be read.
cdef int log_open(const StorageRef& storage, const string& name, const LogSettings* settings,
                  bint is_trusted, LogRef* opened, Recovered* recovered) noexcept nogil

# Takes no more appends. The caller commits and checkpoints first.
cdef void log_close(PartitionLog* log) noexcept nogil

# Reads [position, end of the file) of the last segment on, as far as it is good; used by open and
# truncate.
cdef int log_scan(PartitionLog* log, size_t slot, int64_t position, int64_t offset,
                  bint may_have_gaps,
                  int64_t end_limit, Recovered* recovered) noexcept nogil

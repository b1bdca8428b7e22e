"""At the first bad batch of a log: whether its bytes are cut, or were lost."""

from appliance.storage._partition_log cimport PartitionLog
from appliance.storage._salvage cimport Recovered

# Segment `slot` has a bad batch. 0: whole batches after it are kept in a new segment; 1: there are
# none, or none was acknowledged; or a code.
cdef int damage_split(PartitionLog* log, size_t slot, bint may_have_gaps,
                      Recovered* recovered) noexcept nogil

# Whether the log continues with the next segment; notes missing offsets before it. `code`: 1 after
# a bad batch, 0 at the end of the file.
cdef bint damage_is_passed(PartitionLog* log, size_t slot, int code, bint may_have_gaps,
                           Recovered* recovered) noexcept nogil

# Ends the log after the last good batch; or, if more was durable, continues after the durable end,
# so that no offset is assigned twice.
cdef int damage_ends_log(PartitionLog* log, size_t slot, int code,
                         Recovered* recovered) noexcept nogil

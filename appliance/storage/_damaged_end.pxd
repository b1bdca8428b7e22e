"""Where batches stop being good: is what was there cut, or lost?"""

from appliance.storage._partition_log cimport PartitionLog
from appliance.storage._salvage cimport Recovered

# Segment `slot` stopped being good. 0: whole batches behind the bad one are kept, as a segment of
# their own; 1: there are none, or none is owed; or a code.
cdef int damage_split(PartitionLog* log, size_t slot, bint may_have_gaps,
                      Recovered* recovered) noexcept nogil

# Whether the log goes on with the next segment; what is missing before it is noted. `code`: 1 where
# a bad batch ended this one, 0 where its file ended.
cdef bint damage_is_passed(PartitionLog* log, size_t slot, int code, bint may_have_gaps,
                           Recovered* recovered) noexcept nogil

# The log ends at what is good; or, if more was promised, goes on where that ended, so that no
# offset is given out twice.
cdef int damage_ends_log(PartitionLog* log, size_t slot, int code,
                         Recovered* recovered) noexcept nogil

"""Reads and checks a log, a segment or a batch for recovery."""

from libc.stdint cimport int64_t, uint8_t
from libcpp.vector cimport vector

from appliance.record._batch cimport BatchHeader
from appliance.storage._partition_log cimport PartitionLog
from appliance.storage._salvage cimport Recovered
from appliance.storage._segment cimport Segment

# Checks every batch from `position` of segment `slot` on, up to the end of the log. The first bad
# one ends the log if no later record was durable; otherwise the durable range becomes a hole, and
# the log continues after it.
cdef int log_scan(PartitionLog* log, size_t slot, int64_t position, int64_t offset,
                  bint may_have_gaps, int64_t end_limit, Recovered* recovered) noexcept nogil

# The same in one segment: 1 when it stopped at a batch that is not good, 0 at the end of the file,
# or a code. Sets size and end_offset of the segment to the good part.
cdef int scan_segment(PartitionLog* log, size_t slot, int64_t position, int64_t offset,
                      bint may_have_gaps, int64_t end_limit, Recovered* recovered) noexcept nogil

# The batch at `position` of a file, by a window over it. 0: it is whole, with a good CRC, at
# window[at]; 1: it is no good batch; or a code.
cdef int scan_batch(int fd, int64_t position, int64_t end, vector[uint8_t]* window, int64_t* at,
                    BatchHeader* header) noexcept nogil

# The first offset from `offset` on outside of holes.
cdef int64_t scan_past_hole(PartitionLog* log, int64_t offset) noexcept nogil

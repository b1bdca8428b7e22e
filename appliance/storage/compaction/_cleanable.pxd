"""The segments of a log that compaction may rewrite, and whether a round is worth it."""

from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from appliance.storage._partition_log cimport LogSettings, PartitionLog
from appliance.storage._segment cimport SegmentRef

cdef cppclass Cleanable:
    LogSettings settings           # as they were at the start of the round
    vector[SegmentRef] segments    # oldest first, from the log's first one on
    int64_t dirty_offset           # an earlier round has seen everything below
    bint is_due

# maintenance is held. OK or a code.
cdef int cleanable_find(PartitionLog* log, int64_t now_ms, Cleanable* cleanable) except? -1 nogil

# Seals the active segment if it holds records that max.compaction.lag.ms wants compacted; True when
# it did: ask the committer for this log.
cdef bint cleanable_roll(PartitionLog* log, int64_t now_ms) noexcept nogil

# One past the last of the segments from slot `first` on that may become one segment.
cdef size_t cleanable_group(const Cleanable* cleanable, size_t first, size_t end) noexcept nogil

from libc.stdint cimport int64_t, uint8_t
from libcpp.vector cimport vector

from appliance.record._batch cimport BatchHeader
from appliance.storage._segment cimport Damaged, Segment

cdef enum:
    WINDOW_SIZE = 16384            # bytes per read while walking headers: a few index intervals

# A batch and its position in a segment's file.
cdef struct LocatedBatch:
    int64_t position
    BatchHeader header

# Walks batch headers forward; advance by header.size.
cdef struct Walker:
    Segment* segment               # NULL: the file is not a segment
    int fd
    int64_t position
    int64_t end
    int64_t window_from
    int64_t window_size
    uint8_t[WINDOW_SIZE] window

# First batch whose last offset is >= `offset`. OFFSET_OUT_OF_RANGE: none in this segment.
cdef int segment_find(Segment* segment, int64_t offset, LocatedBatch* batch) noexcept nogil

# First batch with max_timestamp >= `timestamp`. OFFSET_OUT_OF_RANGE: none in this segment.
cdef int segment_find_time(Segment* segment, int64_t timestamp, LocatedBatch* batch) noexcept nogil

# Fills largest_timestamp from the time index and the batches after it.
cdef int segment_load_largest(Segment* segment) noexcept nogil

cdef int segment_load_index(Segment* segment) noexcept nogil
# Reads every header and rebuilds both indexes.
cdef int segment_rebuild_index(Segment* segment, int64_t index_interval) noexcept nogil

cdef void walker_start(Walker* walker, Segment* segment, int fd, int64_t end) noexcept nogil
# 1: header of the batch at walker.position; 0: end; negative: BATCH_CORRUPT, BATCH_TORN,
# BATCH_MAGIC, STORAGE_IO.
cdef int walker_next(Walker* walker, BatchHeader* header) noexcept nogil

# The position of the next batch from `position` on: after damaged bytes, or `position` itself.
cdef int64_t segment_past_damage(Segment* segment, int64_t position) noexcept nogil
# The start of the next damaged bytes after `position`; INT64_MAX: none.
cdef int64_t segment_next_damage(Segment* segment, int64_t position) noexcept nogil
cdef void segment_set_damaged(Segment* segment, const vector[Damaged]& damaged) noexcept nogil

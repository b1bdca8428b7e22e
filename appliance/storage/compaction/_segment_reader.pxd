"""A segment's batches, whole and checked, one after the other: for compaction."""

from libc.stdint cimport int64_t, uint8_t
from libcpp.vector cimport vector

from appliance.native._descriptors cimport FileRef
from appliance.record._batch cimport BatchHeader
from appliance.storage._segment cimport SegmentRef

cdef cppclass SegmentReader:
    SegmentRef segment
    FileRef file                   # empty: not open
    int64_t position               # in the file, of the batch at hand
    int64_t end
    int64_t next_offset            # the next batch begins there or later
    vector[uint8_t] window
    int64_t at                     # in the window, of the batch at hand
    BatchHeader header             # of it

# Begins before the first batch. OK or a code.
cdef int reader_open(SegmentReader* reader, const SegmentRef& segment) except? -1 nogil

# 1: a batch is at hand, whole, its CRC right and its offset behind the last one's; 0: that was the
# last; or a code.
cdef int reader_next(SegmentReader* reader) except? -1 nogil

# The batch at hand; it stays where it is until reader_next.
cdef inline const uint8_t* reader_batch(const SegmentReader* reader) noexcept nogil:
    return reader.window.data() + reader.at

"""Whether the offset and time index of a segment say of its batches what these are."""

from libc.stdint cimport int64_t

from appliance.record._batch cimport BatchHeader
from appliance.storage._index cimport Index
from appliance.storage._segment cimport Segment

cdef cppclass IndexCheck:
    bint is_on                     # the segment's index files are to be checked
    bint is_wrong
    bint was_wrong                 # before the last batch
    Index index
    int64_t base_offset
    size_t offsets_at              # entries that batches were seen for
    size_t times_at
    int64_t interval
    int64_t since_entry
    int64_t entries                # that an index of ours would have
    int64_t largest_timestamp

# Reads the index files from the disk; `end` is the end of the segment's bytes. OK or a code.
cdef int index_check_load(IndexCheck* check, Segment* segment, int64_t end) noexcept nogil

# The next batch, good, at `position`.
cdef void index_check_take(IndexCheck* check, int64_t position,
                           const BatchHeader* header) noexcept nogil

# Passes the entries about what was damaged: they were right once, and are of no use.
cdef void index_check_pass(IndexCheck* check, int64_t position,
                           int64_t next_offset) noexcept nogil

# Behind the last batch.
cdef void index_check_end(IndexCheck* check) noexcept nogil

# The size of a small file of the segment, or -1 where it is not there. Its pages are dropped, so
# that who reads it next reads the disk.
cdef int64_t dropped_size(Segment* segment, const char* suffix) noexcept nogil

"""The check of a segment's offset and time index against its batches."""

from libc.stdint cimport int64_t

from appliance.record._batch cimport BatchHeader
from appliance.storage._index cimport Index
from appliance.storage._segment cimport Segment

cdef cppclass IndexCheck:
    bint is_on                     # whether the index files are checked
    bint is_wrong
    bint was_wrong                 # at an earlier batch
    Index index
    int64_t base_offset
    size_t offsets_at              # entries whose batches were checked
    size_t times_at
    int64_t interval
    int64_t since_entry
    int64_t entries                # entries of an index that we would build
    int64_t largest_timestamp

# Reads the index files from the disk; `end` is the end of the segment's bytes. OK or a code.
cdef int index_check_load(IndexCheck* check, Segment* segment, int64_t end) noexcept nogil

# Checks the entries of the next good batch, at `position`.
cdef void index_check_take(IndexCheck* check, int64_t position,
                           const BatchHeader* header) noexcept nogil

# Skips the entries of damaged bytes: they were right before the damage.
cdef void index_check_pass(IndexCheck* check, int64_t position,
                           int64_t next_offset) noexcept nogil

# Checks the rest after the last batch.
cdef void index_check_end(IndexCheck* check) noexcept nogil

# The size of a small file of the segment, or -1 if it does not exist. Drops its pages, so that the
# next read is from the disk.
cdef int64_t dropped_size(Segment* segment, const char* suffix) noexcept nogil

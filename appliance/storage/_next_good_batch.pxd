"""Searches a file on the disk for the next good batch after damage.

A batch may seem to begin at any byte, even in a record's value. So a candidate counts only with
further evidence: the index has its position, a good batch follows, or the file ends after it. Only
at a known position (`is_sure`) its checksum is enough.
"""

from libc.stdint cimport int32_t, int64_t
from libcpp.vector cimport vector

from appliance.record._batch cimport BatchHeader
from appliance.storage._checkpoint_journal cimport EpochEntry
from appliance.storage._index cimport Index
from appliance.storage._uncached_reader cimport DiskReader

cdef enum:
    SEARCH_MORE = 2                # not over yet: call again
    # A damaged record may hold thousands of headers, each of which claims all bytes
    # behind it. What is larger, also than its topic takes, is set aside with the damage.
    SEARCH_SIZE_MAX = 16777216

cdef cppclass Search:
    int64_t at                     # the next byte to look at; where one was found
    int64_t end                    # of the bytes
    int64_t low                    # base offsets that are wanted: [low, high)
    int64_t high
    int64_t end_offset             # all last offsets lie below it
    int64_t size_max               # what looks like a batch and is larger is none
    int32_t epoch_min
    const vector[EpochEntry]* epochs   # where it is known which one each offset has; or NULL
    const Index* index             # that names good places; or NULL
    bint is_sure

cdef void search_start(Search* search, int64_t at, int64_t end, int64_t low) noexcept nogil

# 1: a good batch with a base offset in [low, high) stands at `at`; 0: none does; or a code. Its
# checksum is taken piece by piece: what it claims as its length is never held as a whole.
cdef int search_good(DiskReader* disk, const Search* search, int64_t at, int64_t low, int64_t high,
                     BatchHeader* header) noexcept nogil

# 1: found, at `search.at`; 0: there is none; SEARCH_MORE after about `most` bytes; or a code.
cdef int search_next(DiskReader* disk, Search* search, int64_t most,
                     BatchHeader* header) noexcept nogil

# The checksum of the batch at `at`. OK; BATCH_CORRUPT; BATCH_TORN: the file ends in it; or a code.
cdef int search_crc(DiskReader* disk, int64_t at, const BatchHeader* header) noexcept nogil

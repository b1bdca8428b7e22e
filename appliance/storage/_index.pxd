"""The indexes of a segment: sparse offset and time indexes, which locate a batch, and aborted
transactions.

All three are kept in memory and written with pwrite, never mapped: a store into a hole of a mapped
file on a full disk kills the process. Offset and time index are derived data: absent, short or
wrong ones cost time, never correctness. The transaction index decides what a reader may see, so it
is synced before the recovery point passes it.
"""

from libc.stdint cimport int32_t, int64_t
from libcpp.vector cimport vector

cdef enum:
    OFFSET_ENTRY_SIZE = 8
    TIME_ENTRY_SIZE = 12
    TXN_ENTRY_SIZE = 34

cdef struct OffsetEntry:
    int32_t relative_offset        # last offset of a batch, less the segment's base offset
    int32_t position               # where that batch starts

cdef struct TimeEntry:
    int64_t timestamp              # largest in the segment so far
    int32_t relative_offset        # last offset of the batch that holds it

cdef struct AbortedTxn:
    int64_t producer_id
    int64_t first_offset
    int64_t last_offset            # of the abort marker
    int64_t last_stable_offset     # of the log when the marker was appended

cdef cppclass Index:
    vector[OffsetEntry] offsets
    vector[TimeEntry] times
    size_t offsets_stored          # entries that the files already hold
    size_t times_stored

# Adds an entry if it keeps the index strictly increasing; otherwise leaves it as it is.
cdef void index_add_offset(Index* index, int64_t relative_offset, int64_t position) noexcept nogil
cdef void index_add_time(Index* index, int64_t timestamp, int64_t relative_offset) noexcept nogil

# Position of the last entry at or below `relative_offset`; 0 when there is none.
cdef int64_t index_position(const Index* index, int64_t relative_offset) noexcept nogil

# Position of the last entry before `position`; 0 when there is none.
cdef int64_t index_position_before(const Index* index, int64_t position) noexcept nogil

# Relative offset of the last entry with a timestamp below `timestamp`; -1 when there is none.
cdef int64_t index_offset_before(const Index* index, int64_t timestamp) noexcept nogil

# Reads both files. Keeps the longest prefix that is strictly increasing and lies below `size` bytes
# of log.
cdef int index_load(Index* index, int directory_fd, int64_t base_offset,
                    int64_t size) noexcept nogil

# Writes what the files lack; with `durable` also syncs them. OK or a STORAGE_ code.
cdef int index_store(Index* index, int directory_fd, int64_t base_offset,
                     bint durable) noexcept nogil

# Drops entries at or beyond `position`.
cdef void index_truncate(Index* index, int64_t position) noexcept nogil

# Writes the whole file and makes it and its name durable; without entries there is no file.
cdef int txn_index_store(int directory_fd, int64_t base_offset, const AbortedTxn* aborted,
                         size_t count) noexcept nogil
# Appends the file's entries that have last_offset below `end_offset`, up to the first that cannot
# be true. OK; 1: there is such a one, or half an entry, or none; or a code.
cdef int txn_index_load(int directory_fd, int64_t base_offset, int64_t end_offset,
                        vector[AbortedTxn]* into) noexcept nogil

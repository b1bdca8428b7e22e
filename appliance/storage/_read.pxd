from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from appliance.native._descriptors cimport FileRef
from appliance.storage._index cimport AbortedTxn
from appliance.storage._partition_log cimport PartitionLog

cdef enum ReadLimit:
    READ_VISIBLE = 0               # the high watermark
    READ_END = 1                   # the log end: recovery, compaction, replication
    READ_STABLE = 2                # the last stable offset

# Bytes of one segment, to be sent or read while `file` is held.
cdef cppclass Slice:
    FileRef file
    int64_t segment_base           # of the segment; -1: none was looked at
    int64_t position
    int64_t size
    int64_t limit_offset           # the reader's limit

# Up to max_bytes from the batch that holds `offset`, at least that whole batch; size 0 at the
# limit.
cdef int log_read(PartitionLog* log, int64_t offset, int64_t max_bytes, int limit,
                  Slice* slice) noexcept nogil

cdef int64_t log_limit(PartitionLog* log, int limit) noexcept nogil

# Aborted transactions that touch [from_offset, end_offset).
cdef void log_aborted(PartitionLog* log, int64_t from_offset, int64_t end_offset,
                      vector[AbortedTxn]* into) noexcept nogil

# First batch that ends at or after `from_offset`, lies below the limit and has a record at or after
# `timestamp`, as a slice of that batch. OK with size 0: none.
cdef int log_find_time(PartitionLog* log, int64_t timestamp, int64_t from_offset, int limit,
                       Slice* slice) noexcept nogil

# Notes a read fault if `code` means unreadable or wrong bytes of the segment. Health reports it,
# and the scrub verifies the segment.
cdef void log_note_fault(PartitionLog* log, int64_t segment_base, int64_t offset,
                         int code) noexcept nogil

# The same, of the segment that has the offset.
cdef void log_note_fault_at(PartitionLog* log, int64_t offset, int code) noexcept nogil

"""One segment: a `.log` file with its indexes. Knows no partition, no producer, no policy."""

from libc.stdint cimport int64_t, uint8_t
from libcpp.memory cimport shared_ptr
from libcpp.vector cimport vector

from appliance.native._descriptors cimport DirectoryRef, FileRef
from appliance.native._native cimport atomic_bool, atomic_i64, mutex
from appliance.record._batch cimport BatchHeader
from appliance.storage._index cimport Index

cdef enum:
    SEGMENT_SIZE_MAX = 2147483647  # positions and relative offsets are 32 bits on disk

# Damaged bytes of a segment, which walks over batches skip.
cdef struct Damaged:
    int64_t position
    int64_t end_position

cdef cppclass Segment:
    int64_t base_offset            # constant
    DirectoryRef directory         # constant; the partition's directory
    mutex guard                    # over file, index, index_is_loaded, is_closed
    FileRef file                   # empty until first used; dropped when idle
    bint is_read_only              # guard; the file was opened on a read-only file system
    bint is_replaced               # another file has the name now: this one must stay open
    bint is_closed                 # guard; the log was closed, so the file is not opened again
    Index index
    bint index_is_loaded
    vector[Damaged] damaged        # guard; by position
    atomic_bool is_damaged         # `damaged` is not empty
    atomic_i64 size                # bytes that readers may see
    atomic_i64 end_offset          # one past the last offset
    atomic_i64 read_ns             # monotonic; time of the last read

    atomic_i64 largest_timestamp   # -1: no record, or not known (see largest_is_known)
    atomic_i64 largest_timestamp_offset
    atomic_bool largest_is_known
    atomic_bool index_is_final     # sealed and synced, and both index files are on disk

    # Below: owned by the one appender (the log's guard), or constant once sealed.
    int64_t bytes_since_index
    int64_t first_timestamp        # of the first batch; -1: no record
    int64_t created_ms             # wall clock at the first append; 0: none yet
    int64_t written_behind         # bytes whose write-back or sync was started
    int64_t synced_size            # bytes known to be on disk; moved by the committer
    atomic_bool txn_is_dirty       # the file lacks some aborted transactions

ctypedef shared_ptr[Segment] SegmentRef

cdef SegmentRef segment_new(const DirectoryRef& directory, int64_t base_offset) noexcept nogil

# Creates the file; it must not exist. The caller syncs the directory before it acknowledges into
# it.
cdef int segment_create(Segment* segment) noexcept nogil

# The file, opened if necessary. OFFSET_OUT_OF_RANGE: it was deleted meanwhile; LOG_CLOSED. For
# reading a file on a read-only file system suffices.
cdef int segment_file(Segment* segment, FileRef* file) noexcept nogil
cdef int segment_file_to_write(Segment* segment, FileRef* file) noexcept nogil

# Opens the file and keeps it open, because another file is about to get its name.
cdef int segment_pin(Segment* segment) noexcept nogil

# The size of the larger index in bytes, as Kafka counts it.
cdef int64_t segment_index_bytes(Segment* segment) noexcept nogil

# Whether the index files have all entries of the index in memory.
cdef bint segment_index_is_stored(Segment* segment) noexcept nogil

# Closes the file, and drops the index unless `keeps_index`, if there was no read since `before_ns`.
# Returns whether a file was closed.
cdef bint segment_rest(Segment* segment, int64_t before_ns, bint keeps_index) noexcept nogil

# Drops the file and the index for good. Holders of the file keep it open.
cdef void segment_close(Segment* segment) noexcept nogil

# Writes one stamped batch at the end. After a failure the file is truncated to its old size; if
# this fails, too: LOG_FAILED, or STORAGE_FULL_LATE.
cdef int segment_append(Segment* segment, const uint8_t* data, const BatchHeader* header,
                        int64_t index_interval) noexcept nogil

# Adds a batch that is already in the file to index and statistics (recovery, compaction).
cdef void segment_note(Segment* segment, const BatchHeader* header, int64_t position,
                       int64_t index_interval) noexcept nogil

# The stored index may not be on disk: the next store writes all of it.
cdef void segment_forget_stored(Segment* segment) noexcept nogil
cdef int segment_store_index(Segment* segment, bint durable) noexcept nogil

# Removes the file of the time index: it is wrong, and made anew with the next store.
cdef int segment_drop_times(Segment* segment) noexcept nogil

# Adds the last entry of a sealed segment's time index.
cdef void segment_seal_times(Segment* segment) noexcept nogil

cdef int segment_unlink(Segment* segment) noexcept nogil

"""What shortens a log: retention, deleting records, truncation, the swap that ends a compaction."""

from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from appliance.storage._journal cimport Hole
from appliance.storage._partition_log cimport LogRef, PartitionLog
from appliance.storage._segment cimport Segment, SegmentRef

# Deletes whole segments that time, size or the log start have passed; rolls an active segment that
# outlived retention.ms. Count of segments deleted, or a code. `rolled`: ask the committer for this
# log. A segment that holds an offset from `keep_from` on stays (an export has not taken it yet).
cdef int64_t log_retain(PartitionLog* log, int64_t now_ms, int64_t keep_from,
                        bint* rolled) noexcept nogil

# Bytes that retention would delete now, but for `keep_from`; or a code.
cdef int64_t log_kept_bytes(PartitionLog* log, int64_t now_ms, int64_t keep_from) noexcept nogil

# Moves the log start to `offset`, at most the high watermark; -1 means the high watermark.
cdef int log_delete_before(PartitionLog* log, int64_t offset) noexcept nogil

# Removes every record at or beyond `offset`, and the rest of the batch it falls into.
cdef int log_truncate(PartitionLog* log, int64_t offset) noexcept nogil

# The sealed segments that recovery will not read again, oldest first: what compaction may touch.
# maintenance is held.
cdef void log_sealed(PartitionLog* log, vector[SegmentRef]* into) noexcept nogil

# Puts `<first base>.log.swap`, synced by the caller, in the place of `group`. maintenance is held.
# `cleaned` is the new segment, with its index and statistics; `leaves_gaps`: offsets may be missing
# in it by right. `holes`: those of the log from then on; NULL: as they are. A swap that failed and
# is unfinished was decided, or may have been: its file must stay.
cdef int log_swap(PartitionLog* log, const vector[SegmentRef]& group, const SegmentRef& cleaned,
                  bint leaves_gaps, const vector[Hole]* holes) noexcept nogil

# An earlier swap failed around its commit point. Only recovery can tell which side of it.
cdef bint log_has_unfinished_swap(PartitionLog* log) noexcept nogil

# Records how far compaction has come.
cdef int log_save_cleaned(PartitionLog* log, int64_t cleaned_offset) noexcept nogil

# How old its records are cannot be read, so that it is neither deleted nor compacted: maintenance
# is held.
cdef void log_note_unknown_age(PartitionLog* log, Segment* segment, int code) noexcept nogil

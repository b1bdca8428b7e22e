"""The swap that ends a compaction or a repair, and the segments that it may replace."""

from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from appliance.storage._checkpoint_journal cimport Checkpoint, Hole
from appliance.storage._partition_log cimport PartitionLog
from appliance.storage._segment cimport SegmentRef

# The sealed segments that recovery will not read again, oldest first, which compaction may rewrite.
# The caller holds `maintenance`.
cdef void log_sealed(PartitionLog* log, vector[SegmentRef]* into) noexcept nogil

# Puts `<first base>.log.swap`, synced by the caller, in the place of `group`. maintenance is held.
# `cleaned` is the new segment, with its index and statistics; `leaves_gaps`: offsets may be missing
# in it by right. `holes`: those of the log from then on; NULL: as they are. A swap that failed and
# is unfinished was decided, or may have been: its file must stay.
cdef int log_swap(PartitionLog* log, const vector[SegmentRef]& group, const SegmentRef& cleaned,
                  bint leaves_gaps, const vector[Hole]* holes) noexcept nogil

# An earlier swap failed around its commit point. Only recovery can tell which side of it.
cdef bint log_has_unfinished_swap(PartitionLog* log) noexcept nogil

# Recovery finishes the swap that the journal decided; `checkpoint` knows of none from then on.
cdef int swap_recover(int directory_fd, Checkpoint* checkpoint) noexcept nogil

# Records how far compaction has come.
cdef int log_save_cleaned(PartitionLog* log, int64_t cleaned_offset) noexcept nogil

"""What retention and delete-records delete: whole segments, from the start of a log."""

from libc.stdint cimport int64_t

from appliance.storage._partition_log cimport PartitionLog
from appliance.storage._segment cimport Segment

# Deletes whole segments that time, size or the log start have passed; rolls an active segment that
# outlived retention.ms. Count of segments deleted, or a code. `rolled`: ask the committer for this
# log. A segment that holds an offset from `keep_from` on stays (an export has not taken it yet).
cdef int64_t log_retain(PartitionLog* log, int64_t now_ms, int64_t keep_from,
                        bint* rolled) noexcept nogil

# Bytes that retention would delete now, but for `keep_from`; or a code.
cdef int64_t log_kept_bytes(PartitionLog* log, int64_t now_ms, int64_t keep_from) noexcept nogil

# Moves the log start to `offset`, at most the high watermark; -1 means the high watermark.
cdef int log_delete_before(PartitionLog* log, int64_t offset) noexcept nogil
# The same without a look at the high watermark: a follower begins where its leader's log does.
cdef int log_advance_start(PartitionLog* log, int64_t offset) noexcept nogil

# The base of the segment in which recovery starts reading: it must stay. The next checkpoint moves
# it on.
cdef int64_t log_recovery_base(PartitionLog* log) noexcept nogil

# How old its records are cannot be read, so that it is neither deleted nor compacted: maintenance
# is held.
cdef void log_note_unknown_age(PartitionLog* log, Segment* segment, int code) noexcept nogil

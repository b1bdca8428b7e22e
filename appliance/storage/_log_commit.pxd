from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from appliance.native._descriptors cimport FileRef
from appliance.storage._checkpoint_journal cimport Checkpoint
from appliance.storage._partition_log cimport LogRef, PartitionLog
from appliance.storage._segment cimport SegmentRef

# The files of one commit.
cdef cppclass CommitPlan:
    LogRef log
    vector[SegmentRef] segments
    vector[FileRef] files
    vector[int64_t] sizes
    int64_t end_offset
    int64_t bytes_appended
    int64_t began_ns
    int64_t truncations
    FileRef directory              # to be synced; empty: none
    bint with_checkpoint
    Checkpoint checkpoint
    vector[SegmentRef] sealed      # their indexes were written, and are not synced yet
    int indexes                    # the result code of the index files
    int result
    int error                      # errno of a failed sync; 0: none

# The committer's three steps. `begin` takes the log's guard for a moment; the syncs of plan.files
# (and directory) happen between, under no lock; `end` publishes, or fails the log.
cdef void log_commit_begin(const LogRef& log, bint with_checkpoint, CommitPlan* plan) noexcept nogil
cdef void log_commit_end(CommitPlan* plan) noexcept nogil

# Notifies the log's waiters. The caller holds no lock of the log.
cdef void log_tell(PartitionLog* log) noexcept nogil
# All of them must look again: it has another role.
cdef void log_tell_all(PartitionLog* log) noexcept nogil

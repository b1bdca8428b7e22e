from libc.stdint cimport int32_t

from appliance.storage._checkpoint_journal cimport Checkpoint
from appliance.storage._log_commit cimport CommitPlan
from appliance.storage._partition_log cimport PartitionLog

# Puts the plan's checkpoint into the journal; the caller stored the indexes, and commits the
# journal.
cdef int log_checkpoint_put(CommitPlan* plan) noexcept nogil
# Whether a checkpoint is worth its size.
cdef bint log_checkpoint_is_due(PartitionLog* log) noexcept nogil
cdef void log_capture(PartitionLog* log, Checkpoint* checkpoint) noexcept nogil

# Saves the present segments and holes, so that recovery notices a missing one.
cdef void log_list_segments(PartitionLog* log, Checkpoint* checkpoint) noexcept nogil

# Puts the saved checkpoint into the journal; saved_guard is held.
cdef void log_put_locked(PartitionLog* log) noexcept nogil
# Puts the saved checkpoint into the journal and makes it durable; saved_guard is held.
cdef int log_save_locked(PartitionLog* log) noexcept nogil

# The last saved checkpoint of a log that is closed, for the journal of the directory that the log
# moves to: recovery there begins where it would have begun here.
cdef void log_hand_over(PartitionLog* log, Checkpoint* checkpoint) noexcept nogil

# The present leader epoch is at least that: of a log that was restored, whose last epochs are in no
# batch. With the journal's next commit it is on disk. Takes saved_guard and guard.
cdef void log_raise_epoch(PartitionLog* log, int32_t epoch) noexcept nogil

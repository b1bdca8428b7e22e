from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from appliance.storage._index cimport AbortedTxn
from appliance.storage._log_commit cimport CommitPlan
from appliance.storage._partition_log cimport PartitionLog
from appliance.storage._segment cimport Segment

# How many sealed segments have indexes that are not on disk yet.
cdef int64_t log_unfinished(PartitionLog* log) noexcept nogil
# Index files up to now; those of sealed segments durably, or else noted in the plan: whoever makes
# them so says by `log_finish_indexes` what came of it.
cdef void log_store_indexes(CommitPlan* plan, bint is_durable) noexcept nogil
cdef void log_finish_indexes(CommitPlan* plan, bint is_durable) noexcept nogil

# The segment's transaction index, as log.aborted has it.
cdef int log_store_aborted(PartitionLog* log, Segment* segment) noexcept nogil

# Aborted transactions whose markers have offsets in [base, end); the same as the file of `base`.
cdef vector[AbortedTxn] log_aborted_in(PartitionLog* log, int64_t base, int64_t end) noexcept nogil
cdef int log_store_aborted_in(PartitionLog* log, int directory_fd, int64_t base,
                              int64_t end) noexcept nogil

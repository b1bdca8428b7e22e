"""Truncates a log at its end."""

from libc.stdint cimport int64_t

from appliance.storage._partition_log cimport PartitionLog

cdef enum:
    CUT_ALONE = -1                 # in the place of an election: the log has no other replicas

# Removes every record at or beyond `offset`, and the rest of the batch it falls into. NOT_LEADER:
# the log does not follow in that election, or no more.
cdef int log_truncate(PartitionLog* log, int64_t offset, int64_t election) noexcept nogil
# Whether it is the leader's word that counts here, or nobody else's. The log's guard is held.
cdef bint log_may_be_cut(PartitionLog* log, int64_t election) noexcept nogil

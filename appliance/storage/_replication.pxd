"""A partition's place among its replicas: who leads, who must have a record, and who has how much.

    alone ──hold──► nobody ◄──► leader ◄──► follower       by elections alone, from then on

An election says which; `epoch` is its number, and an older one changes nothing. docs/replication.md
has the rules. Durable ends and the ISR move `replicated_to`, and with it the high watermark, which
never falls.
"""

from libc.stdint cimport int32_t, int64_t
from libcpp.vector cimport vector

from appliance.storage._commit_requests cimport Committer
from appliance.storage._partition_log cimport LogRef, PartitionLog

# It is one of several, and no election is known yet.
cdef void log_hold(PartitionLog* log) noexcept nogil

# This broker leads from now on: `leader` is its node. The others of the ISR are those in `others`
# that are `in_sync`; who is `joining` was proposed in this epoch, before a doubt about the session.
# LEADER_EPOCH_OLD: the log has heard of a later election, or has its records. A leader that
# `is_ending` takes no record at all.
cdef int log_lead(PartitionLog* log, int32_t epoch, int32_t leader, const vector[int32_t]* others,
                  const vector[int32_t]* in_sync, const vector[int32_t]* joining, int min_in_sync,
                  bint is_ending) noexcept nogil
# Another one does; NOBODY: no broker, or none that is known to.
cdef int log_follow(PartitionLog* log, int32_t epoch, int32_t leader) noexcept nogil

# It takes no more records, and its followers may get all that it has, before another is elected.
# The end of the log; NOT_LEADER.
cdef int64_t log_end_leading(PartitionLog* log) noexcept nogil

# The ISR as ZooKeeper has it, or `joining` are proposed for it: from now on nothing counts without
# those, either. What counts already they may lack: whoever proposes them looks at that next.
cdef int log_set_in_sync(PartitionLog* log, int32_t epoch, const vector[int32_t]* in_sync,
                         const vector[int32_t]* joining, int min_in_sync) noexcept nogil

# Its other replicas are these from now on, in the same election. Who stays keeps what it told; who
# is new has told nothing; who is gone is waited for no more: the cluster has written that it is not
# in the ISR.
cdef int log_set_others(PartitionLog* log, int32_t epoch,
                        const vector[int32_t]* others) noexcept nogil

# A follower fetches at `offset`, and has on disk what is from `log_start` to before it.
cdef int log_fetched_by(PartitionLog* log, int32_t node, int64_t life, int32_t epoch,
                        int64_t offset, int64_t log_start) noexcept nogil
# Of a leader: the node among these that is in sync, has the record at `offset`, and most of what
# is behind it; -1: none.
cdef int32_t log_follower_with(PartitionLog* log, const vector[int32_t]* nodes,
                               int64_t offset) noexcept nogil
# Of a leader: whether all others are in sync, and none has been without everything for so long.
cdef bint log_is_settled(PartitionLog* log, int64_t behind_max_ns) noexcept nogil
# Of a leader: whether that node is in sync.
cdef bint log_has_in_sync(PartitionLog* log, int32_t node) noexcept nogil

# At a follower: how far its leader says that all have it.
cdef int log_replicated_to(PartitionLog* log, int32_t epoch, int64_t watermark) noexcept nogil

# At a follower: it has cut what is from `offset` on, of which some had counted. So the watermark
# falls, by a person's word alone: an unclean election.
cdef void log_lost_from(PartitionLog* log, int64_t offset) noexcept nogil

# Whether a follower whose log ends at `offset` with a record of `last_epoch` has what this log has:
# an epoch and its end, from which on it has not; -1: it has.
cdef void log_diverging(PartitionLog* log, int32_t last_epoch, int64_t offset, int32_t* epoch,
                        int64_t* end_offset) noexcept nogil
# Where a follower cuts, which was told that.
cdef int64_t log_cut_offset(PartitionLog* log, int32_t epoch, int64_t end_offset) noexcept nogil

# As committer_await, until the record is acknowledged: by all replicas that must have it, in the
# election in which it was appended. NOT_LEADER: there was another, and it may be lost.
cdef int log_await(Committer* committer, const LogRef& log, int64_t offset, int64_t election,
                   int64_t deadline_ns) noexcept nogil

"""The leader's side of replication: a fetch with the id of a broker is a follower's.

Its offset is the end of what the follower has on disk. So each of its fetches, and each partition
that its session holds, is a report, which may move the high watermark; one whose records part from
the leader's reports nothing, and is told from where on they do. It reads up to the log's end, and
waits for what is appended, not for what is durable or visible.

A follower serves consumers, too, up to the high watermark that it knows: those that say in which
rack they are, and so know that they may be sent to one (KIP-392). Others, who may only not have
heard of an election, are told who leads. What a consumer asks for may be on its way to the
follower still: that is no offset out of range, at which it would begin elsewhere.
"""

from libc.stdint cimport INT64_MAX, int16_t, int32_t, int64_t, uint8_t
from libcpp.vector cimport vector

from appliance.native._bytes cimport load_i64
from appliance.native._codes cimport OK, REPLICA_UNKNOWN
from appliance.native._files cimport read_whole
from appliance.native._native cimport monotonic_ns, mutant
from appliance.network._quota cimport NO_RATE, quota_charge, quota_delay, quota_window
from appliance.network._topic_table cimport (
    NOT_LEADER_OR_FOLLOWER, TopicLeader, put_leader, topic_leader,
)
from appliance.protocol._error_codes cimport kafka_error
from appliance.protocol._frame cimport put_i32, put_i64, put_tags, put_uvarint
from appliance.storage._read cimport READ_END, log_read
from appliance.storage._replicas cimport ROLE_FOLLOWER, ROLE_LEADER
from appliance.storage._replication cimport log_diverging, log_fetched_by, log_has_in_sync

cdef enum:
    DIVERGING_EPOCH = 0            # tags of a partition
    DIVERGING_EPOCH_SIZE = 13      # i32 epoch, i64 end, tags
    CURRENT_LEADER = 1
    OFFSET_NOT_AVAILABLE = 78


# ---- without the GIL ----

cdef void fetch_report(Fetch* fetch) noexcept nogil:
    cdef FetchTarget* target
    cdef size_t i
    fetch.is_reported = True
    for i in range(fetch.targets.size()):
        target = &fetch.targets.at(i)
        if not target.is_named and not fetch.reports_all:
            continue
        target.is_named = False
        target.refused = 0
        target.diverging_epoch = -1
        if target.log.get() != NULL and (fetch.generation == 0 or target.may_read):
            _report(fetch, target)


cdef void _report(const Fetch* fetch, FetchTarget* target) noexcept nogil:
    """What it has counts only as far as it is known to be the same here."""
    cdef PartitionLog* log = target.log.get()
    cdef int code
    if fetch_refusal_of_role(fetch, target) != 0:
        return
    log_diverging(log, target.last_epoch, target.offset, &target.diverging_epoch,
                  &target.diverging_end)
    if target.diverging_epoch >= 0 or target.offset > log.log_end_offset.load():
        return
    # Asks for the epoch again: in one epoch a leader's log is never cut.
    code = log_fetched_by(log, fetch.replica, fetch.replica_life, target.leader_epoch,
                          target.offset, max(target.log_start_offset, <int64_t>0))
    # As Kafka: this broker may not have heard yet that it is one.
    target.refused = UNKNOWN_LEADER_EPOCH if code == REPLICA_UNKNOWN else kafka_error(code)


cdef bint fetch_finds_start(PartitionLog* log, int64_t offset, int64_t max_bytes, Slice* slice,
                            int64_t* start) noexcept nogil:
    cdef uint8_t[8] base
    start[0] = log.log_start_offset.load()
    if offset >= start[0] or log_read(log, start[0], max_bytes, READ_END, slice) != OK:
        return False
    if slice.size == 0 or read_whole(
            slice.file.get().fd, base, sizeof(base), slice.position) != sizeof(base):
        return False
    start[0] = min(start[0], load_i64(base))
    return start[0] == offset


cdef int64_t fetch_share_of_follower(Plane* plane, PartitionLog* log, int32_t node) noexcept nogil:
    cdef int64_t window_ns = plane.quotas.window_ns
    if plane.to_followers.rate.load() == NO_RATE or log_has_in_sync(log, node):
        return INT64_MAX
    if quota_delay(&plane.to_followers, monotonic_ns(), window_ns) > 0:
        return 0
    return quota_window(&plane.to_followers, window_ns)


cdef void fetch_charge_follower(Plane* plane, int32_t node, const FetchTarget* target,
                                int64_t size) noexcept nogil:
    cdef PartitionLog* log = target.log.get()
    if log.replicas.is_slow_to_follow.load() and not log_has_in_sync(log, node):
        quota_charge(&plane.to_followers, size, monotonic_ns(), plane.quotas.window_ns)


cdef int16_t fetch_refusal_of_role(const Fetch* fetch, const FetchTarget* target) noexcept nogil:
    cdef PartitionLog* log = target.log.get()
    cdef int64_t epoch = log.replicas.epoch.load()
    if 0 <= target.leader_epoch < epoch and not mutant(b"older_epochs_are_answered"):
        return FENCED_LEADER_EPOCH
    if target.leader_epoch > epoch and (epoch >= 0 or fetch.replica >= 0):
        return UNKNOWN_LEADER_EPOCH
    if log.role.load() == ROLE_FOLLOWER and fetch.has_rack and fetch.replica < 0:
        return OFFSET_NOT_AVAILABLE if target.offset > log.log_end_offset.load() else 0
    if log.role.load() != ROLE_LEADER:
        return NOT_LEADER_OR_FOLLOWER
    return target.refused if fetch.replica >= 0 else 0


cdef void fetch_put_tags(vector[uint8_t]* out, const FetchTarget* target, int16_t error,
                         bint diverges) noexcept nogil:
    cdef TopicLeader leader
    leader.node = leader.epoch = -1
    if error == NOT_LEADER_OR_FOLLOWER or error == FENCED_LEADER_EPOCH:
        leader = topic_leader(target.topic, target.partition, target.log)
    put_uvarint(out, diverges + (leader.epoch >= 0))
    if diverges:
        put_uvarint(out, DIVERGING_EPOCH)
        put_uvarint(out, DIVERGING_EPOCH_SIZE)
        put_i32(out, target.diverging_epoch)
        put_i64(out, target.diverging_end)
        put_tags(out, True)
    if leader.epoch >= 0:
        put_leader(out, CURRENT_LEADER, leader)

"""Finds the records of a fetch: in the page cache, up to what its reader may see.

The first partition with data gives at least one batch whatever the limits; of the others, a batch
that does not fit is left for the next fetch. Waiting on data that is written but not durable asks
for a commit, so that it costs one flush and not the partition's flush interval.
"""

from libc.stdint cimport int16_t, int64_t
from libcpp.vector cimport vector

from appliance.native._codes cimport LOG_CLOSED, OK, WOULD_WAIT
from appliance.native._files cimport disk_may_wait
from appliance.network._connection cimport Fetch, FetchTarget
from appliance.network._control_plane_inbox cimport Plane
from appliance.network._fetch cimport FETCH_BY_ID
from appliance.network._fetch_replica cimport (
    FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, fetch_finds_start, fetch_refusal_of_role,
    fetch_report, fetch_share_of_follower,
)
from appliance.network._fetch_rights cimport TOPIC_AUTHORIZATION_FAILED
from appliance.network._topic_table cimport (
    UNKNOWN_TOPIC_ID, TopicRef, topic_log, topic_now, topic_refusal,
)
from appliance.protocol._error_codes cimport kafka_error
from appliance.storage._cold_reads cimport LOOKUP_BYTES, LOOKUPS_MAX, Lookup
from appliance.storage._commit_requests cimport committer_ask, log_committer
from appliance.storage._last_stable_offset cimport log_high_watermark, log_last_stable_offset
from appliance.storage._partition_log cimport PartitionLog
from appliance.storage._partition_waits cimport watch_rearm
from appliance.storage._read cimport Slice, log_limit, log_read
from appliance.storage._replicas cimport ROLE_ALONE, ROLE_LEADER
from appliance.storage._replication cimport log_follower_with

cdef enum:
    COLD_ROUNDS_MAX = 3            # that bring nothing: memory is taken back as soon as filled


# ---- without the GIL ----

cdef void fetch_look(Plane* plane, Fetch* fetch, vector[FetchResult]* results, int64_t* total,
                     bint* has_error, vector[Lookup]* cold) noexcept nogil:
    cdef size_t count = fetch.targets.size(), i, first = 0
    cdef int64_t left
    cdef FetchResult* result
    results.resize(count)
    if fetch.replica >= 0 and not fetch.is_reported:
        fetch_report(fetch)
    if fetch.session_id != 0 and count > 0:
        # It moves on with every answer that had data, so that no partition starves.
        first = fetch.first % count
    for i in range(count):
        result = &results.at(i)
        result.target = (first + i) % count
        left = fetch.max_bytes - total[0] - <int64_t>cold.size() * LOOKUP_BYTES
        _look_at(plane, fetch, result, left, total[0] == 0, cold)
        total[0] += result.slice.size
        has_error[0] = (has_error[0] or result.error != 0 or result.diverges
                        or result.preferred >= 0)


cdef void _look_at(Plane* plane, Fetch* fetch, FetchResult* result, int64_t left, bint is_first,
                   vector[Lookup]* cold) noexcept nogil:
    cdef FetchTarget* target = &fetch.targets.at(result.target)
    cdef PartitionLog* log = target.log.get()
    cdef int64_t most = min(target.max_bytes, left)
    cdef int code
    result.slice.size = 0
    result.diverges = False
    result.preferred = -1
    result.visible = result.stable = result.start = -1
    if fetch.generation != 0 and not (target.decided_at == fetch.generation and target.may_read):
        # Nothing is decided about an id that nobody has; whatever else is not decided is refused.
        result.error = (UNKNOWN_TOPIC_ID if target.topic.get().name.empty()
                        else TOPIC_AUTHORIZATION_FAILED)
        return
    result.error = _refusal(plane, fetch, target)
    if result.error != 0:
        return
    if not fetch.watches.empty():
        watch_rearm(&log.watches, &fetch.watches[result.target], log_limit(log, fetch.limit))
    result.stable = log_last_stable_offset(log)
    result.visible = log_high_watermark(log)  # after the other, which is never above it then
    result.start = log.log_start_offset.load()
    if fetch.replica >= 0 and target.diverging_epoch >= 0:
        result.diverges = True
        return
    if not fetch.near.empty() and log.role.load() == ROLE_LEADER:
        result.preferred = log_follower_with(log, &fetch.near, target.offset)
        if result.preferred >= 0:
            return
    if fetch.replica >= 0 and log.replicas.is_slow_to_follow.load():
        most = min(most, fetch_share_of_follower(plane, log, fetch.replica))
        if most == 0:
            return
    if most <= 0 and not is_first or cold.size() == LOOKUPS_MAX:
        return  # even to ask the page cache begins to read from the disk
    code = _read(fetch, target, max(most, <int64_t>1), is_first, &result.slice)
    if code == WOULD_WAIT:
        result.slice.size = 0
        _put_lookup(cold, fetch, target, max(most, <int64_t>1))
    elif code != OK and not (fetch.replica >= 0 and fetch_finds_start(
            log, target.offset, max(most, <int64_t>1), &result.slice, &result.start)):
        result.error = kafka_error(code)
        result.slice.size = 0
        result.visible = result.stable = -1
        if fetch.replica < 0:
            result.start = -1
    elif result.slice.size > most and not is_first:
        result.slice.size = 0
    elif result.slice.size > 0:
        _tell_no_less(fetch, result)
    elif result.visible < log.log_end_offset.load() and fetch.replica < 0:
        # Somebody waits for what is written: that is a reason to make it durable now.
        # Where appended is visible, who waits waits for what is still to come, and for no disk;
        # where other replicas have yet to have it, neither.
        if log.durable_offset.load() < log.log_end_offset.load():
            committer_ask(log_committer(log), target.log, 0)


cdef void _tell_no_less(Fetch* fetch, FetchResult* result) noexcept nogil:
    """The read may have seen a later watermark: what is told covers every record that is sent.

    kafka-go takes an answer whose watermark is the offset it asked for as one without records.
    A follower is told the watermark as it is: what it gets others may not have yet.
    """
    if fetch.replica >= 0:
        return
    result.visible = max(result.visible, result.slice.limit_offset)
    if fetch.is_committed:
        result.stable = max(result.stable, result.slice.limit_offset)


cdef int _read(Fetch* fetch, FetchTarget* target, int64_t max_bytes, bint is_first,
               Slice* slice) noexcept nogil:
    """From the page cache; but where rounds brought nothing, the first is waited for, once."""
    cdef PartitionLog* log = target.log.get()
    cdef int code
    disk_may_wait(False)
    code = log_read(log, target.offset, max_bytes, fetch.limit, slice)
    disk_may_wait(True)
    if code == WOULD_WAIT and is_first and fetch.cold_rounds >= COLD_ROUNDS_MAX:
        if fetch.cold.get() == NULL:
            fetch.cold_rounds = 0
            code = log_read(log, target.offset, max_bytes, fetch.limit, slice)
    return code


cdef void _put_lookup(vector[Lookup]* cold, Fetch* fetch, FetchTarget* target,
                      int64_t max_bytes) noexcept nogil:
    cold.resize(cold.size() + 1)
    cold.back().log = target.log
    cold.back().offset = target.offset
    cold.back().max_bytes = max_bytes
    cold.back().limit = fetch.limit


cdef int16_t _refusal(Plane* plane, Fetch* fetch, FetchTarget* target) noexcept nogil:
    cdef PartitionLog* log = target.log.get()
    cdef bint is_closed = log != NULL and log.is_closed.load()
    cdef TopicRef topic
    cdef int64_t epoch
    if log == NULL or is_closed:  # a deleted partition is one of its topic's no more
        topic = topic_now(&plane.topics, target.topic)
        if log == NULL or topic_log(topic, target.partition).get() == NULL:
            return topic_refusal(topic, target.partition, fetch.version >= FETCH_BY_ID)
    if is_closed:  # it is being opened again, or was, or could not be
        return kafka_error(LOG_CLOSED)
    if log.role.load() != ROLE_ALONE or fetch.replica >= 0:
        return fetch_refusal_of_role(fetch, target)
    epoch = max(log.leader_epoch.load(), <int64_t>0)
    if 0 <= target.leader_epoch < epoch:
        return FENCED_LEADER_EPOCH
    if target.leader_epoch > epoch:
        return UNKNOWN_LEADER_EPOCH
    return 0

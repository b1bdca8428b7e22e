"""The numbers of many logs at once, for metrics, health and the admin pages. A thread that
reads a thousand logs releases and takes the GIL once.
"""

from collections import namedtuple
from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from appliance.native._codes cimport OK
from appliance.native._native cimport ScopeLock, monotonic_ns
from appliance.storage._last_stable_offset cimport log_high_watermark, log_last_stable_offset
from appliance.storage._log_description cimport LogView
from appliance.storage._partition_log cimport LogRef, PartitionLog

LogFacts = namedtuple(
    "LogFacts",
    "log_start_offset log_end_offset durable_offset high_watermark last_stable_offset leader_epoch "
    "segments size largest_timestamp unflushed_records unflushed_bytes unflushed_age_ms "
    "flush_took_us flushed_ago_ms batches_of_clients bytes_of_clients records_of_clients "
    "is_alive",
)

# Of `LogFacts` what must be read together.
cdef struct Facts:
    int64_t log_start_offset
    int64_t log_end_offset
    int64_t durable_offset
    int64_t high_watermark
    int64_t last_stable_offset
    int64_t segments
    int64_t size
    int64_t largest_timestamp
    int64_t unflushed_bytes
    int64_t unflushed_ns
    int64_t flushed_ago_ns


# ---- without the GIL ----

cdef void _look(PartitionLog* log, int64_t now_ns, Facts* facts) noexcept nogil:
    cdef int64_t oldest = log.committing_ns.load(), flushed = log.flushed_ns.load()
    cdef size_t i
    cdef ScopeLock list_guard
    if oldest == 0:
        oldest = log.oldest_unflushed_ns.load()
    facts.unflushed_ns = max(<int64_t>0, now_ns - oldest) if oldest != 0 else 0
    facts.flushed_ago_ns = max(<int64_t>0, now_ns - flushed) if flushed != 0 else -1
    # In this order: a reader never sees an end before what lies below it.
    facts.log_start_offset = log.log_start_offset.load()
    facts.last_stable_offset = log_last_stable_offset(log)
    facts.high_watermark = log_high_watermark(log)
    facts.durable_offset = log.durable_offset.load()
    facts.log_end_offset = log.log_end_offset.load()
    facts.unflushed_bytes = max(<int64_t>0, log.bytes_appended.load() - log.bytes_durable.load())
    if facts.durable_offset >= facts.log_end_offset:
        facts.unflushed_bytes = facts.unflushed_ns = 0
    facts.size = 0
    facts.largest_timestamp = -1
    list_guard.hold(log.list_guard)
    facts.segments = log.segments.size()
    for i in range(log.segments.size()):
        facts.size += log.segments[i].get().size.load()
        facts.largest_timestamp = max(facts.largest_timestamp,
                                      log.segments[i].get().largest_timestamp.load())


# ---- with the GIL ----

def log_facts(logs):
    cdef vector[LogRef] wanted
    cdef vector[Facts] seen
    cdef int64_t now_ns = monotonic_ns()
    cdef size_t i
    for log in logs:
        wanted.push_back((<LogView?>log).log)
    seen.resize(wanted.size())
    with nogil:
        for i in range(wanted.size()):
            _look(wanted[i].get(), now_ns, &seen[i])
    return [_log_facts(wanted[i].get(), &seen[i]) for i in range(wanted.size())]


cdef _log_facts(PartitionLog* log, Facts* facts):
    return LogFacts(
        facts.log_start_offset, facts.log_end_offset, facts.durable_offset, facts.high_watermark,
        facts.last_stable_offset, max(log.leader_epoch.load(), <int64_t>0), facts.segments,
        facts.size, facts.largest_timestamp,
        max(<int64_t>0, facts.log_end_offset - facts.durable_offset), facts.unflushed_bytes,
        facts.unflushed_ns // 1000000, log.flush_took_ns.load() // 1000,
        facts.flushed_ago_ns // 1000000 if facts.flushed_ago_ns >= 0 else -1,
        log.batches_of_clients.load(), log.bytes_of_clients.load(), log.records_of_clients.load(),
        log.failed.load() == OK,
    )

"""When an append has its log committed: by the number of records, by the age of the oldest, or
because somebody waits for just this.

`flush.messages` counts the records that no commit has taken yet. The clock of `flush.ms` starts
with the oldest of them, and runs when nothing follows.
"""

from libc.stdint cimport INT64_MAX, int64_t

from appliance.native._native cimport monotonic_ns
from appliance.storage._partition_log cimport PartitionLog

# When a record of this moment is due by its age; INT64_MAX: never. Under the log's guard.
cdef inline int64_t flush_by_age_ns(PartitionLog* log, int64_t oldest_ns) noexcept nogil:
    if log.settings.flush_ms >= INT64_MAX // 1000000 - oldest_ns // 1000000:
        return INT64_MAX
    return oldest_ns + log.settings.flush_ms * 1000000

# When the commit is due: 0 at once, INT64_MAX none for the sake of this append. Under the log's
# guard, after `unflushed_records` counts what was appended.
cdef inline int64_t flush_due_ns(PartitionLog* log) noexcept nogil:
    cdef int64_t now, due_ns = INT64_MAX
    if log.oldest_unflushed_ns.load() == 0:
        now = monotonic_ns()
        due_ns = flush_by_age_ns(log, now)
        log.flush_by_ns.store(due_ns)
        log.oldest_unflushed_ns.store(now)
    if log.unflushed_records >= log.settings.flush_messages:
        due_ns = 0
    # It costs one flush, not the flush interval.
    if log.watches.readers.load() > 0 and not log.shows_appended.load():
        due_ns = 0
    return due_ns

# The same for what is unflushed already, after a change of the settings. A longer time counts from
# the next record on.
cdef inline int64_t flush_due_again_ns(PartitionLog* log) noexcept nogil:
    cdef int64_t oldest = log.oldest_unflushed_ns.load(), due_ns
    if oldest == 0:
        return INT64_MAX
    due_ns = min(log.flush_by_ns.load(), flush_by_age_ns(log, oldest))
    log.flush_by_ns.store(due_ns)
    return 0 if log.unflushed_records >= log.settings.flush_messages else due_ns

"""The settings of one log, from `LogConfig` (`config/`) into the log."""

from libc.stdint cimport int64_t

from appliance.native._native cimport ScopeLock
from appliance.storage._flush_policy cimport flush_due_again_ns
from appliance.storage._partition_log cimport LogSettings, PartitionLog
from appliance.storage._replicas cimport ROLE_ALONE


# ---- without the GIL ----

cdef int64_t settings_apply(PartitionLog* log, const LogSettings* settings) noexcept nogil:
    cdef ScopeLock guard
    guard.hold(log.guard)
    log.settings = settings[0]
    # Of several replicas each must have it on disk before it is shown.
    log.shows_appended.store(settings.shows_appended and log.role.load() == ROLE_ALONE)
    log.is_compacted.store(settings.cleanup_compact)
    log.is_mirror.store(settings.is_mirror)
    return flush_due_again_ns(log)


# ---- with the GIL ----

cdef int settings_fill(LogSettings* c, settings) except -1:
    c.segment_bytes = settings.segment_bytes
    c.segment_ms = settings.segment_ms
    c.segment_index_bytes = settings.segment_index_bytes
    c.index_interval_bytes = settings.index_interval_bytes
    c.retention_ms = settings.retention_ms
    c.retention_bytes = settings.retention_bytes
    c.flush_messages = settings.flush_messages
    c.flush_ms = settings.flush_ms
    c.max_message_bytes = settings.max_message_bytes
    c.timestamp_before_max_ms = settings.message_timestamp_before_max_ms
    c.timestamp_after_max_ms = settings.message_timestamp_after_max_ms
    c.producer_expiration_ms = settings.producer_id_expiration_ms
    c.append_time = settings.message_timestamp_type == "LogAppendTime"
    c.shows_appended = settings.visibility == "appended"
    c.cleanup_delete = "delete" in settings.cleanup_policy
    c.cleanup_compact = "compact" in settings.cleanup_policy
    c.min_cleanable_dirty_ratio = settings.min_cleanable_dirty_ratio
    c.delete_retention_ms = settings.delete_retention_ms
    c.min_compaction_lag_ms = settings.min_compaction_lag_ms
    c.max_compaction_lag_ms = settings.max_compaction_lag_ms
    c.is_mirror = settings.mirror_source != ""
    if c.cleanup_compact:
        # Only sealed segments are compacted, so they are sealed in time for it.
        c.segment_ms = min(c.segment_ms, c.max_compaction_lag_ms)
    return 0

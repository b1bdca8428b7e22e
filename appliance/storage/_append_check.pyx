"""The rules by which a log accepts a batch: size, timestamp, producer sequence, origin. The rules
for a batch in any log are in `record/_batch_check`.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t

from appliance.native._codes cimport (
    BATCH_INVALID, BATCH_LARGER_THAN_SEGMENT, BATCH_TIMESTAMP, BATCH_TOO_LARGE, LEADER_EPOCH_OLD,
    LOG_CLOSED, LOG_FAILED, LOG_MIRRORED, NOT_LEADER, OFFSET_OUT_OF_RANGE, OK, STORAGE_FULL,
    TXN_STATE_INVALID,
)
from appliance.record._batch cimport (
    ATTRIBUTE_APPEND_TIME, ATTRIBUTE_CODEC, ATTRIBUTE_CONTROL, ATTRIBUTE_TRANSACTIONAL,
    batch_control_type,
)
from appliance.record._batch_check cimport batch_check_keys
from appliance.storage._append cimport (
    ORIGIN_COORDINATOR, ORIGIN_MIRROR, ORIGIN_REPLICA, ORIGIN_UNVERIFIED,
)
from appliance.storage._leader_epochs cimport epochs_allow
from appliance.storage._partition_log cimport LogSettings
from appliance.storage._producers cimport (
    DUPLICATE, BatchSeen, producers_check, producers_check_marker, producers_txn_is_open,
)
from appliance.storage._replicas cimport ROLE_ALONE, ROLE_FOLLOWER, ROLE_LEADER
from appliance.storage._segment cimport SEGMENT_SIZE_MAX


# ---- without the GIL ----

cdef int append_check(PartitionLog* log, const uint8_t* data, const BatchHeader* header,
                      const AppendOptions* options, Appended* appended) noexcept nogil:
    cdef bint is_mirror = options.origin == ORIGIN_MIRROR
    cdef bint is_client = options.origin != ORIGIN_COORDINATOR and not is_mirror
    cdef BatchSeen seen
    cdef int32_t coordinator_epoch
    cdef int code
    if log.failed.load() != OK:
        return LOG_FAILED
    if log.is_closed.load():
        return LOG_CLOSED
    if options.origin == ORIGIN_REPLICA:
        return _check_replicated(log, header, options, appended)
    if log.role.load() != ROLE_ALONE and (
            log.role.load() > ROLE_LEADER or log.replicas.is_ending.load()):
        return NOT_LEADER
    if is_mirror != log.settings.is_mirror:
        return LOG_MIRRORED
    if (is_client or is_mirror) and log.storage.get().is_full.load():
        return STORAGE_FULL
    if 0 <= options.leader_epoch < log.leader_epoch.load():
        return LEADER_EPOCH_OLD
    if is_client and header.size > log.settings.max_message_bytes:
        return BATCH_TOO_LARGE
    if header.size > min(log.settings.segment_bytes, <int64_t>SEGMENT_SIZE_MAX):
        return BATCH_LARGER_THAN_SEGMENT
    if is_mirror:
        return _check_next(log, header, appended)
    if is_client and log.settings.cleanup_compact and not header.attributes & ATTRIBUTE_CODEC:
        if batch_check_keys(data, header) != OK:
            return BATCH_INVALID
    if is_client and not _timestamps_are_legal(&log.settings, header, options):
        return BATCH_TIMESTAMP
    if header.attributes & ATTRIBUTE_CONTROL:
        batch_control_type(data, header, &coordinator_epoch)
        return producers_check_marker(&log.producers, header, coordinator_epoch)
    code = producers_check(&log.producers, header, &seen)
    if code == DUPLICATE:
        appended.base_offset = seen.last_offset - seen.offset_delta
        appended.last_offset = seen.last_offset
        appended.append_time = seen.timestamp if log.settings.append_time else -1
        appended.duplicate = True
    elif code == OK and options.origin == ORIGIN_UNVERIFIED:
        # Its transaction may have ended since the check: a batch after the marker would open a
        # transaction that no coordinator ends, and block readers for ever.
        if header.attributes & ATTRIBUTE_TRANSACTIONAL:
            if not producers_txn_is_open(&log.producers, header.producer_id, header.producer_epoch):
                return TXN_STATE_INVALID
    return code


cdef int _check_replicated(PartitionLog* log, const BatchHeader* header,
                           const AppendOptions* options, Appended* appended) noexcept nogil:
    """A batch as the leader has it. It was accepted there, so only what must hold of any log is
    asked here, and whether that broker is the leader still."""
    if log.role.load() != ROLE_FOLLOWER or log.replicas.epoch.load() != options.leader_epoch:
        return NOT_LEADER
    if log.storage.get().is_full.load():
        return STORAGE_FULL
    if header.size > SEGMENT_SIZE_MAX:
        return BATCH_LARGER_THAN_SEGMENT
    if header.leader_epoch > options.leader_epoch or not epochs_allow(log, header):
        return LEADER_EPOCH_OLD
    if header.base_offset > log.log_end_offset.load():
        return OK  # compaction left something out
    return _check_next(log, header, appended)


cdef int _check_next(PartitionLog* log, const BatchHeader* header,
                     Appended* appended) noexcept nogil:
    """Whether a batch of another log continues at this log's end, or is a duplicate."""
    cdef int64_t end_offset = log.log_end_offset.load()
    if header.base_offset == end_offset:
        return OK
    if header.base_offset + header.last_offset_delta >= end_offset:
        return OFFSET_OUT_OF_RANGE
    appended.base_offset = header.base_offset
    appended.last_offset = header.base_offset + header.last_offset_delta
    appended.append_time = -1
    appended.duplicate = True
    return DUPLICATE


cdef bint _timestamps_are_legal(const LogSettings* settings, const BatchHeader* header,
                                const AppendOptions* options) noexcept nogil:
    if settings.append_time:
        return not header.attributes & ATTRIBUTE_APPEND_TIME
    # -1 means no timestamp. No sum here can overflow: now is far from both ends.
    # A doubted clock refuses no batch: the producer's clock may be right.
    if header.max_timestamp > options.latest_ms:
        if header.max_timestamp - options.latest_ms > settings.timestamp_after_max_ms:
            return False
    if header.base_timestamp == -1 or header.base_timestamp > options.earliest_ms:
        return True
    if settings.timestamp_before_max_ms == INT64_MAX:
        return True
    return header.base_timestamp >= options.earliest_ms - settings.timestamp_before_max_ms

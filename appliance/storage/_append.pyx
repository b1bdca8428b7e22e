"""Appends to a log: assigns offsets and writes the batch. `_append_check` has the rules for
accepting a batch, `_flush_policy` for its commit."""

from libc.stdint cimport INT64_MAX, int16_t, int32_t, int64_t, uint8_t, uint64_t

from appliance.native._codes cimport (
    FILES_EXHAUSTED, LOG_FAILED, OK, STORAGE_FULL, STORAGE_FULL_LATE, STORAGE_IO,
)
from appliance.native._descriptors cimport descriptors_relieve
from appliance.native._native cimport ScopeLock, count_own, monotonic_ns
from appliance.record._batch cimport (
    ATTRIBUTE_CONTROL, ATTRIBUTE_TRANSACTIONAL, BATCH_HEADER_SIZE, BatchHeader,
    batch_check_crc, batch_check_header, batch_control_type, batch_load_header, batch_stamp,
    batch_stamp_append_time, batch_stamp_max_timestamp,
)
from appliance.record._batch_check cimport batch_check_mirrored
from appliance.storage._append_check cimport append_check
from appliance.storage._commit_requests cimport committer_ask
from appliance.storage._flush_policy cimport flush_due_ns
from appliance.storage._free_space cimport space_mark_full
from appliance.storage._index cimport AbortedTxn
from appliance.storage._leader_epochs cimport epoch_of_append, epochs_note
from appliance.storage._log_commit cimport log_tell
from appliance.storage._partition_log cimport (
    EndedTxn, LogSettings, log_fail, log_roll_locked,
)
from appliance.storage._gaps cimport log_admit_gap
from appliance.storage._producers cimport (
    DUPLICATE, producers_first_open, producers_note, producers_note_marker, producers_txn_is_open,
)
from appliance.storage._segment cimport SEGMENT_SIZE_MAX, segment_append, segment_index_bytes
from appliance.storage._segment_find cimport segment_load_index
from appliance.storage._storage cimport storage_now
from appliance.storage._write_behind cimport write_behind_ask

# The requests to the committer after an append.
cdef struct Due:
    int64_t commit_by_ns           # deadline of the commit: 0 at once, INT64_MAX none
    bint write_behind              # a write-back: enough unwritten bytes have gathered


# ---- without the GIL ----

cdef int log_append(Committer* committer, const LogRef& log, uint8_t* data, BatchHeader* header,
                    const AppendOptions* options, Appended* appended) noexcept nogil:
    cdef Due due
    cdef int code = _append(log.get(), data, header, options, appended, &due)
    if code == OK:
        _ask(committer, log, options.is_awaited, appended.last_offset, &due)
    return code


cdef int log_append_mirrored(Committer* committer, const LogRef& log, uint8_t* data, int64_t size,
                             bint is_awaited, Appended* appended) noexcept nogil:
    cdef BatchHeader header
    cdef AppendOptions options
    cdef Appended one
    cdef Due due, all_due
    cdef int64_t at = 0
    cdef int code = OK
    options.origin, options.leader_epoch = ORIGIN_MIRROR, -1
    storage_now(log.get().storage.get(), &options.earliest_ms, &options.latest_ms)
    appended.base_offset = appended.last_offset = appended.append_time = -1
    appended.duplicate = True
    all_due.commit_by_ns, all_due.write_behind = INT64_MAX, False
    while at < size:
        code = batch_check_mirrored(data + at, size - at, &header)
        if code == OK:
            code = _append(log.get(), data + at, &header, &options, &one, &due)
        if code != OK:
            break
        appended.base_offset = one.base_offset if at == 0 else appended.base_offset
        appended.last_offset, appended.election = one.last_offset, one.election
        appended.duplicate = appended.duplicate and one.duplicate
        all_due.commit_by_ns = min(all_due.commit_by_ns, due.commit_by_ns)
        all_due.write_behind = all_due.write_behind or due.write_behind
        at += header.size
    if appended.last_offset >= 0:  # some batches were written, even if a later one was refused
        _ask(committer, log, is_awaited, appended.last_offset, &all_due)
    return code


cdef int log_append_replicated(Committer* committer, const LogRef& log, uint8_t* data, int64_t size,
                               int32_t leader_epoch, Appended* appended) noexcept nogil:
    cdef BatchHeader header
    cdef AppendOptions options
    cdef Appended one
    cdef Due due
    cdef int64_t at = 0
    cdef int code = OK
    options.origin, options.leader_epoch, options.is_awaited = ORIGIN_REPLICA, leader_epoch, False
    storage_now(log.get().storage.get(), &options.earliest_ms, &options.latest_ms)
    appended.base_offset = appended.last_offset = appended.append_time = -1
    appended.duplicate = True
    while size - at >= BATCH_HEADER_SIZE:
        batch_load_header(data + at, &header)
        if header.size > size - at:
            break
        code = batch_check_header(&header, size - at)
        if code == OK:
            code = batch_check_crc(data + at, &header)
        if code == OK:
            code = log_admit_gap(log.get(), header.base_offset)
        if code == OK:
            code = _append(log.get(), data + at, &header, &options, &one, &due)
        if code != OK:
            break
        if not one.duplicate:
            appended.base_offset = min(<uint64_t>appended.base_offset, <uint64_t>one.base_offset)
            appended.duplicate = False
        appended.last_offset = one.last_offset
        at += header.size
    if not appended.duplicate:
        committer_ask(committer, log, 0)
    return code


cdef void _ask(Committer* committer, const LogRef& log, bint is_awaited, int64_t last_offset,
               const Due* due) noexcept nogil:
    """The caller holds no lock of the log: the committer takes its own."""
    cdef int64_t commit_by_ns = due.commit_by_ns
    if is_awaited:
        commit_by_ns = 0 if last_offset >= log.get().durable_offset.load() else INT64_MAX
    if commit_by_ns != INT64_MAX:
        committer_ask(committer, log, commit_by_ns)
    if due.write_behind:
        write_behind_ask(committer, log)


cdef int _append(PartitionLog* log, uint8_t* data, BatchHeader* header,
                 const AppendOptions* options, Appended* appended, Due* due) noexcept nogil:
    cdef int code, attempt
    for attempt in range(2):
        log.guard.lock()
        code = _append_locked(log, data, header, options, appended, due)
        log.guard.unlock()
        # Nothing was written, and the batch is stamped again.
        if code != FILES_EXHAUSTED or attempt == 1 or not descriptors_relieve():
            break
    if (log.shows_appended.load() or log.watches.followers.load() > 0
            or log.failed.load() != OK):
        log_tell(log)
    return code


cdef int _append_locked(PartitionLog* log, uint8_t* data, BatchHeader* header,
                        const AppendOptions* options, Appended* appended,
                        Due* due) noexcept nogil:
    cdef int32_t epoch
    cdef Segment* segment
    cdef int code
    appended.election = log.replicas.epoch.load()
    code = append_check(log, data, header, options, appended)
    if code == DUPLICATE:
        _ask_again(log, appended.last_offset, due)
        return OK
    if code != OK:
        return code
    if options.origin == ORIGIN_REPLICA:
        epoch = header.leader_epoch
    else:
        epoch = epoch_of_append(log, options.leader_epoch)
    if options.origin == ORIGIN_REPLICA and header.base_offset > log.log_end_offset.load():
        log.log_end_offset.store(header.base_offset)  # log_admit_gap was asked
    if _must_roll(log, header, options.earliest_ms):
        code = log_roll_locked(log)
        if code != OK:
            return _refused(log, code)
    appended.append_time = -1
    if options.origin != ORIGIN_REPLICA:
        _stamp(log, data, header, epoch, options, appended)
    segment = log.segments.back().get()
    code = segment_load_index(segment)
    if code == OK:
        code = segment_append(segment, data, header, log.settings.index_interval_bytes)
    if code != OK:
        return _refused(log, code)
    segment.read_ns.store(monotonic_ns())
    if segment.created_ms == 0:
        segment.created_ms = options.earliest_ms
    log_note(log, segment, data, header, options.latest_ms)
    appended.base_offset = header.base_offset
    appended.last_offset = header.base_offset + header.last_offset_delta
    appended.duplicate = False
    if options.origin != ORIGIN_COORDINATOR and options.origin != ORIGIN_REPLICA:
        count_own(log.batches_of_clients, 1)
        count_own(log.bytes_of_clients, header.size)
        count_own(log.records_of_clients, header.records_count)
    _publish(log, segment, header, due)
    return OK


cdef void _stamp(PartitionLog* log, uint8_t* data, BatchHeader* header, int32_t epoch,
                 const AppendOptions* options, Appended* appended) noexcept nogil:
    header.base_offset = log.log_end_offset.load()
    header.leader_epoch = epoch
    batch_stamp(data, header.base_offset, epoch)
    if (log.settings.append_time and options.origin != ORIGIN_MIRROR
            and not header.attributes & ATTRIBUTE_CONTROL):
        batch_stamp_append_time(data, header.size, options.latest_ms)
        batch_load_header(data, header)
        appended.append_time = options.latest_ms
    else:
        # The largest timestamp of the records has replaced the client's value.
        batch_stamp_max_timestamp(data, header)


cdef void _ask_again(PartitionLog* log, int64_t last_offset, Due* due) noexcept nogil:
    """For a duplicate: its first response may have been lost before the data was durable."""
    due.write_behind = False
    due.commit_by_ns = INT64_MAX if last_offset < log.durable_offset.load() else 0


cdef bint _must_roll(PartitionLog* log, const BatchHeader* header, int64_t now_ms) noexcept nogil:
    cdef Segment* segment = log.segments.back().get()
    cdef LogSettings* settings = &log.settings
    cdef int64_t size = segment.size.load(), end_offset
    end_offset = log.log_end_offset.load() + header.last_offset_delta
    if end_offset - segment.base_offset > SEGMENT_SIZE_MAX:
        return True
    if size == 0:
        return False
    if size + header.size > min(settings.segment_bytes, <int64_t>SEGMENT_SIZE_MAX):
        return True
    if segment_index_bytes(segment) > settings.segment_index_bytes:
        return True
    if segment.first_timestamp >= 0:
        if header.max_timestamp - segment.first_timestamp > settings.segment_ms:
            return True
    return segment.created_ms > 0 and now_ms - segment.created_ms > settings.segment_ms


cdef int _refused(PartitionLog* log, int code) noexcept nogil:
    """A failed write fails the log. A full disk or missing descriptors fail only the request."""
    if code == STORAGE_FULL:
        space_mark_full(log.storage.get())
    elif code in (LOG_FAILED, STORAGE_IO, STORAGE_FULL_LATE):
        log_fail(log, code)
        return LOG_FAILED
    return code


cdef void log_note(PartitionLog* log, Segment* segment, const uint8_t* data,
                   const BatchHeader* header,
                   int64_t now_ms) noexcept nogil:
    epochs_note(log, header)
    if header.attributes & ATTRIBUTE_CONTROL:
        _note_marker(log, segment, data, header, now_ms)
        return
    producers_note(&log.producers, header, now_ms)
    if header.attributes & ATTRIBUTE_TRANSACTIONAL:
        log.first_open_offset.store(producers_first_open(&log.producers))


cdef void _note_marker(PartitionLog* log, Segment* segment, const uint8_t* data,
                       const BatchHeader* header,
                       int64_t now_ms) noexcept nogil:
    cdef AbortedTxn txn
    cdef EndedTxn ended
    cdef int32_t coordinator_epoch
    cdef int kind = batch_control_type(data, header, &coordinator_epoch)
    txn.first_offset = -1
    cdef bint was_aborted = producers_note_marker(&log.producers, header, kind, coordinator_epoch,
                                                  now_ms, &txn)
    log.list_guard.lock()
    if was_aborted:
        txn.last_stable_offset = min(producers_first_open(&log.producers), txn.last_offset + 1)
        log.aborted.push_back(txn)
        segment.txn_is_dirty.store(True)
    if txn.first_offset >= 0:
        # Readers of committed data must wait until its marker is visible, too.
        ended.first_offset = txn.first_offset
        ended.marker_offset = header.base_offset
        log.ended.push_back(ended)
    log.list_guard.unlock()
    log.first_open_offset.store(producers_first_open(&log.producers))


cdef void _publish(PartitionLog* log, Segment* segment, const BatchHeader* header,
                   Due* due) noexcept nogil:
    cdef int64_t end_offset = header.base_offset + header.last_offset_delta + 1
    log.log_end_offset.store(end_offset)
    count_own(log.bytes_appended, header.size)
    log.unflushed_records += header.records_count
    due.write_behind = _is_far_behind(log, segment)
    due.commit_by_ns = flush_due_ns(log)


cdef bint _is_far_behind(PartitionLog* log, const Segment* segment) noexcept nogil:
    cdef int64_t step = log.storage.get().write_behind_bytes
    if step <= 0 or segment.size.load() - segment.written_behind < step:
        return False
    return not log.behind_is_wanted.exchange(True)


cdef bint log_txn_is_open(PartitionLog* log, int64_t producer_id,
                          int16_t producer_epoch) noexcept nogil:
    cdef ScopeLock lock
    lock.hold(log.guard)
    return producers_txn_is_open(&log.producers, producer_id, producer_epoch)

"""One partition's log.

Invariants
1. log_start <= durable <= end, and high watermark and last stable offset lie between durable's past
   values and end. Offsets given to readers never move back, but for log_truncate.
2. Bytes are written, then noted in index and producer state, then log_end_offset is published; so
   whatever a reader finds below an offset is whole.
3. durable_offset moves only in log_commit_end, after every file that holds a byte below it, and the
   directory if a file in it is new, was synced with success.
4. A log that failed takes no append, syncs nothing again and shows nothing above durable_offset.
5. Checkpoints describe the log at an offset that was durable before they reached the journal.
6. log_start_offset is in the journal before a segment below it is unlinked.

States: open -> failed (log_fail,
                        for good) ; open or failed -> closed (log_close in `_recovery.pyx`).
"""

from libc.stdint cimport INT64_MAX, int16_t, int32_t, int64_t, uint8_t
from libcpp.vector cimport vector

from appliance.native._codes cimport (
    BATCH_CORRUPT, BATCH_INVALID, BATCH_LARGER_THAN_SEGMENT, BATCH_TIMESTAMP, BATCH_TOO_LARGE,
    FILES_EXHAUSTED, LEADER_EPOCH_OLD, LOG_CLOSED, LOG_FAILED, LOG_MIRRORED, OFFSET_IN_HOLE,
    OFFSET_OUT_OF_RANGE, OK,
    STORAGE_FULL, STORAGE_IO, TXN_STATE_INVALID,
)
from appliance.native._descriptors cimport descriptors_relieve, directory_hold, directory_rest
from appliance.native._files cimport failure_errno, failure_note
from appliance.native._native cimport (
    EDQUOT, EIO, ENOSPC, EROFS, SYNC_FILE_RANGE_WRITE, count_own, errno, monotonic_ns, mutant,
    sync_file_range,
)
from appliance.record._batch cimport (
    ATTRIBUTE_APPEND_TIME, ATTRIBUTE_CODEC, ATTRIBUTE_CONTROL, ATTRIBUTE_TRANSACTIONAL,
    BatchHeader, batch_check_keys, batch_check_mirrored, batch_control_type, batch_load_header,
    batch_stamp, batch_stamp_append_time, batch_stamp_max_timestamp,
)
from appliance.storage._index cimport AbortedTxn, txn_index_store
from appliance.storage._journal cimport Checkpoint, EpochEntry, checkpoint_size, journal_put
from appliance.storage._producers cimport (
    DUPLICATE, BatchSeen, producers_check, producers_check_marker, producers_expire,
    producers_first_open, producers_note, producers_note_marker, producers_store,
    producers_store_snapshot, producers_txn_is_open,
)
from appliance.storage._read_faults cimport is_read_fault, read_faults_note
from appliance.storage._segment cimport (
    SEGMENT_SIZE_MAX, FileRef, Found, Segment, SegmentRef, segment_append, segment_create,
    segment_file, segment_find, segment_find_time, segment_forget_stored,
    segment_index_bytes, segment_index_is_stored, segment_load_index, segment_load_largest,
    segment_new, segment_next_damage, segment_rest, segment_seal_times, segment_store_index,
)
from appliance.storage._storage cimport (
    storage_commit, storage_earliest_ms, storage_mark_full, storage_now,
)
from appliance.storage._watch cimport Reached, watches_tell
from appliance.storage._watermarks cimport watermarks_note

cdef enum:
    CHECKPOINT_WORTH = 16          # a checkpoint may cost 1/16 of what it saves recovery


# ---- without the GIL ----

# Appending

cdef int log_append(PartitionLog* log, uint8_t* data, BatchHeader* header,
                    const AppendOptions* options, Appended* appended) noexcept nogil:
    cdef int code
    log.guard.lock()
    code = _append_locked(log, data, header, options, appended)
    log.guard.unlock()
    if code == FILES_EXHAUSTED and descriptors_relieve():
        # Nothing was written, and what was stamped is stamped again.
        log.guard.lock()
        code = _append_locked(log, data, header, options, appended)
        log.guard.unlock()
    if log.shows_appended.load() or log.failed.load() != OK:
        log_tell(log)
    return code


cdef int log_append_mirrored(PartitionLog* log, uint8_t* data, int64_t size,
                             Appended* appended) noexcept nogil:
    cdef BatchHeader header
    cdef AppendOptions options
    cdef Appended each
    cdef int64_t at = 0
    cdef int code = OK
    options.origin, options.leader_epoch = ORIGIN_MIRROR, -1
    storage_now(log.storage.get(), &options.earliest_ms, &options.latest_ms)
    appended.base_offset = appended.last_offset = appended.append_time = -1
    appended.commit_by_ns = INT64_MAX
    appended.duplicate, appended.write_behind = True, False
    while at < size:
        code = batch_check_mirrored(data + at, size - at, &header)
        if code == OK:
            code = log_append(log, data + at, &header, &options, &each)
        if code != OK:
            break
        appended.base_offset = each.base_offset if at == 0 else appended.base_offset
        appended.last_offset = each.last_offset
        appended.commit_by_ns = min(appended.commit_by_ns, each.commit_by_ns)
        appended.duplicate = appended.duplicate and each.duplicate
        appended.write_behind = appended.write_behind or each.write_behind
        at += header.size
    return code


cdef int _append_locked(PartitionLog* log, uint8_t* data, BatchHeader* header,
                        const AppendOptions* options, Appended* appended) noexcept nogil:
    cdef int32_t epoch = <int32_t>log.leader_epoch.load()
    cdef Segment* segment
    cdef int code = _check(log, data, header, options, appended)
    if code != OK:
        return OK if code == DUPLICATE else code
    if options.leader_epoch > epoch:
        epoch = options.leader_epoch
        log.leader_epoch.store(epoch)
    if _must_roll(log, header, options.earliest_ms):
        code = log_roll_locked(log)
        if code != OK:
            return _refused(log, code)
    header.base_offset = log.log_end_offset.load()
    header.leader_epoch = epoch
    batch_stamp(data, header.base_offset, epoch)
    appended.append_time = -1
    if (log.settings.append_time and options.origin != ORIGIN_MIRROR
            and not header.attributes & ATTRIBUTE_CONTROL):
        batch_stamp_append_time(data, header.size, options.latest_ms)
        batch_load_header(data, header)
        appended.append_time = options.latest_ms
    else:
        # What the client claimed as its largest timestamp gave way to the records' own.
        batch_stamp_max_timestamp(data, header)
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
    if options.origin != ORIGIN_COORDINATOR:
        count_own(log.batches_of_clients, 1)
        count_own(log.bytes_of_clients, header.size)
        count_own(log.records_of_clients, header.records_count)
    _publish(log, segment, header, appended)
    return OK


cdef int _check(PartitionLog* log, const uint8_t* data, const BatchHeader* header,
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
        return _check_place(log, header, appended)
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
        appended.write_behind = False
        appended.base_offset = seen.last_offset - seen.offset_delta
        appended.last_offset = seen.last_offset
        appended.append_time = seen.timestamp if log.settings.append_time else -1
        appended.duplicate = True
        # The first answer may have been lost before the data was durable: the second waits for it
        # too.
        appended.commit_by_ns = INT64_MAX if seen.last_offset < log.durable_offset.load() else 0
    elif code == OK and options.origin == ORIGIN_UNVERIFIED:
        # Its transaction may have ended since somebody looked: a batch behind the marker would open
        # one that nobody knows of, and hold up readers for good.
        if header.attributes & ATTRIBUTE_TRANSACTIONAL:
            if not producers_txn_is_open(&log.producers, header.producer_id, header.producer_epoch):
                return TXN_STATE_INVALID
    return code


cdef int _check_place(PartitionLog* log, const BatchHeader* header,
                      Appended* appended) noexcept nogil:
    """Whether a batch of another log goes on just where this one ends, or is here already."""
    cdef int64_t end_offset = log.log_end_offset.load()
    if header.base_offset == end_offset:
        return OK
    if header.base_offset + header.last_offset_delta >= end_offset:
        return OFFSET_OUT_OF_RANGE
    appended.base_offset = header.base_offset
    appended.last_offset = header.base_offset + header.last_offset_delta
    appended.append_time = -1
    appended.duplicate = True
    appended.write_behind = False
    appended.commit_by_ns = INT64_MAX if appended.last_offset < log.durable_offset.load() else 0
    return DUPLICATE


cdef bint _timestamps_are_legal(const LogSettings* settings, const BatchHeader* header,
                                const AppendOptions* options) noexcept nogil:
    if settings.append_time:
        return not header.attributes & ATTRIBUTE_APPEND_TIME
    # -1 says that there is no timestamp. No sum here can overflow: now is far from both ends.
    # A clock in doubt refuses nobody: the producer's may be the right one.
    if header.max_timestamp > options.latest_ms:
        if header.max_timestamp - options.latest_ms > settings.timestamp_after_max_ms:
            return False
    if header.base_timestamp == -1 or header.base_timestamp > options.earliest_ms:
        return True
    if settings.timestamp_before_max_ms == INT64_MAX:
        return True
    return header.base_timestamp >= options.earliest_ms - settings.timestamp_before_max_ms


cdef bint _must_roll(PartitionLog* log, const BatchHeader* header, int64_t now_ms) noexcept nogil:
    cdef Segment* segment = log.segments.back().get()
    cdef LogSettings* settings = &log.settings
    cdef int64_t size = segment.size.load(), end_offset
    if size == 0:
        return False
    if size + header.size > min(settings.segment_bytes, <int64_t>SEGMENT_SIZE_MAX):
        return True
    end_offset = log.log_end_offset.load() + header.last_offset_delta
    if end_offset - segment.base_offset > SEGMENT_SIZE_MAX:
        return True
    if segment_index_bytes(segment) > settings.segment_index_bytes:
        return True
    if segment.first_timestamp >= 0:
        if header.max_timestamp - segment.first_timestamp > settings.segment_ms:
            return True
    return segment.created_ms > 0 and now_ms - segment.created_ms > settings.segment_ms


cdef int _refused(PartitionLog* log, int code) noexcept nogil:
    """What a failed write means for the log: no space, no descriptor is the request's trouble."""
    if code == STORAGE_FULL:
        storage_mark_full(log.storage.get())
    elif code == LOG_FAILED or code == STORAGE_IO:
        log_fail(log, code)
        return LOG_FAILED
    return code


cdef void log_note(PartitionLog* log, Segment* segment, const uint8_t* data,
                   const BatchHeader* header,
                   int64_t now_ms) noexcept nogil:
    cdef EpochEntry entry
    if log.epochs.empty() or header.leader_epoch > log.epochs.back().epoch:
        entry.epoch = header.leader_epoch
        entry.start_offset = header.base_offset
        log.epochs.push_back(entry)
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
        # Readers of committed data must not pass it before its marker is visible too.
        ended.first_offset = txn.first_offset
        ended.marker_offset = header.base_offset
        log.ended.push_back(ended)
    log.list_guard.unlock()
    log.first_open_offset.store(producers_first_open(&log.producers))


cdef void _publish(PartitionLog* log, Segment* segment, const BatchHeader* header,
                   Appended* appended) noexcept nogil:
    cdef int64_t end_offset = header.base_offset + header.last_offset_delta + 1
    cdef int64_t now
    segment.end_offset.store(end_offset)
    log.log_end_offset.store(end_offset)
    count_own(log.bytes_appended, header.size)
    log.unflushed_records += header.records_count
    appended.write_behind = _is_far_behind(log, segment)
    appended.commit_by_ns = INT64_MAX
    if log.oldest_unflushed_ns.load() == 0:
        now = monotonic_ns()
        log.oldest_unflushed_ns.store(now)
        # The clock of `flush.ms` starts with the oldest unflushed record, and runs when nothing
        # follows.
        if log.settings.flush_ms < INT64_MAX // 1000000 - now // 1000000:
            appended.commit_by_ns = now + log.settings.flush_ms * 1000000
    if log.unflushed_records >= log.settings.flush_messages:
        appended.commit_by_ns = 0
    # Somebody waits for just this: it costs one flush, not the flush interval.
    if log.watches.readers.load() > 0 and not log.shows_appended.load():
        appended.commit_by_ns = 0


cdef bint _is_far_behind(PartitionLog* log, const Segment* segment) noexcept nogil:
    cdef int64_t step = log.storage.get().write_behind_bytes
    if step <= 0 or segment.size.load() - segment.written_behind < step:
        return False
    return not log.behind_is_wanted.exchange(True)


cdef void log_write_behind(PartitionLog* log) noexcept nogil:
    cdef Segment* segment
    cdef FileRef file
    cdef int64_t position, size
    cdef int code
    log.guard.lock()
    segment = log.segments.back().get()
    code = segment_file(segment, &file)
    position = segment.written_behind
    size = segment.size.load() - position
    segment.written_behind = position + size
    log.behind_is_wanted.store(False)
    log.guard.unlock()
    if code != OK or size <= 0 or log.failed.load() != OK:
        return
    # What it could not start, the sync will do and report. But what has no place on the disk yet
    # gets it now: where that fails the bytes may be dropped, and the sync has nothing to report.
    if sync_file_range(file.get().fd, position, size, SYNC_FILE_RANGE_WRITE) < 0:
        if errno in (EIO, ENOSPC, EDQUOT, EROFS):
            failure_note(b"write", b"", errno)
            log_fail(log, STORAGE_IO)
            log_tell(log)


cdef int log_roll(PartitionLog* log) noexcept nogil:
    cdef int code = _roll(log)
    if code == FILES_EXHAUSTED and descriptors_relieve():
        code = _roll(log)
    return code


cdef int _roll(PartitionLog* log) noexcept nogil:
    cdef int code = OK
    log.guard.lock()
    if log.failed.load() != OK:
        code = LOG_FAILED
    elif log.is_closed.load():
        code = LOG_CLOSED
    elif log.segments.back().get().size.load() > 0:
        code = log_roll_locked(log)
    log.guard.unlock()
    return code


cdef int log_roll_locked(PartitionLog* log) noexcept nogil:
    cdef int64_t end_offset = log.log_end_offset.load()
    cdef SegmentRef segment = segment_new(log.directory, end_offset)
    cdef FileRef directory
    cdef int code = directory_hold(log.directory.get(), &directory)
    if code == OK:
        code = segment_create(segment.get())
    if code != OK:
        return code
    segment_seal_times(log.segments.back().get())
    log.list_guard.lock()
    log.segments.push_back(segment)
    log.list_guard.unlock()
    log.active_base.store(end_offset)
    log.dirty_directory = directory
    log.is_changed.store(True)
    if not log.producers.producers.empty():
        # For Kafka's tools. Recovery believes the journal, so nothing hangs on this file.
        producers_store_snapshot(&log.producers, directory.get().fd, end_offset)
    return OK


cdef bint log_txn_is_open(PartitionLog* log, int64_t producer_id,
                          int16_t producer_epoch) noexcept nogil:
    cdef bint is_open
    log.guard.lock()
    is_open = producers_txn_is_open(&log.producers, producer_id, producer_epoch)
    log.guard.unlock()
    return is_open


# Reading

cdef int64_t log_high_watermark(PartitionLog* log) noexcept nogil:
    if mutant(b"visible_ahead_of_durable"):
        return log.log_end_offset.load()
    if log.shows_appended.load() and log.failed.load() == OK:
        return log.log_end_offset.load()
    return log.durable_offset.load()


cdef int64_t log_last_stable_offset(PartitionLog* log) noexcept nogil:
    cdef int64_t visible = -1, stable = 0
    cdef size_t i
    # What ends is noted among the ended before it leaves the open ones, and forgotten there only
    # when the watermark has passed it: with one watermark before and after, nothing is missed.
    while visible != log_high_watermark(log):
        visible = log_high_watermark(log)
        stable = log.first_open_offset.load()
        log.list_guard.lock()
        for i in range(log.ended.size()):
            if log.ended[i].marker_offset >= visible:
                stable = min(stable, log.ended[i].first_offset)
        log.list_guard.unlock()
    return min(stable, visible)


cdef int64_t log_limit(PartitionLog* log, int limit) noexcept nogil:
    if limit == READ_END:
        return log.log_end_offset.load()
    if limit == READ_STABLE:
        return log_last_stable_offset(log)
    return log_high_watermark(log)


cdef size_t _segment_at(PartitionLog* log, int64_t offset) noexcept nogil:
    """Slot of the last segment with a base at or below `offset`; list_guard is held."""
    cdef size_t low = 0, high = log.segments.size(), middle
    while low < high:
        middle = (low + high) // 2
        if log.segments[middle].get().base_offset <= offset:
            low = middle + 1
        else:
            high = middle
    return low - 1 if low > 0 else 0


cdef int log_read(PartitionLog* log, int64_t offset, int64_t max_bytes, int limit,
                  Slice* slice) noexcept nogil:
    cdef int64_t truncations = log.truncations.load()
    cdef int code = _read_at(log, offset, max_bytes, limit, slice)
    if code == FILES_EXHAUSTED and descriptors_relieve():
        code = _read_at(log, offset, max_bytes, limit, slice)
    if code != OK and (truncations & 1 or truncations != log.truncations.load()):
        # The end moved back under this read: whatever it met says nothing. The reader asks again.
        slice.size = 0
        code = OK
    elif code != OK and offset < log.log_start_offset.load():
        code = OFFSET_OUT_OF_RANGE  # retention came by
    elif code != OK:
        log_note_fault(log, slice.segment_base, offset, code)
    return code


cdef void log_note_fault(PartitionLog* log, int64_t segment_base, int64_t offset,
                         int code) noexcept nogil:
    if is_read_fault(code) and not log.is_closed.load():
        read_faults_note(&log.storage.get().faults, log.name, segment_base, offset, code)


cdef void log_note_fault_at(PartitionLog* log, int64_t offset, int code) noexcept nogil:
    cdef int64_t base
    log.list_guard.lock()
    base = log.segments[_segment_at(log, offset)].get().base_offset
    log.list_guard.unlock()
    log_note_fault(log, base, offset, code)


cdef int _read_at(PartitionLog* log, int64_t offset, int64_t max_bytes, int limit,
                  Slice* slice) noexcept nogil:
    cdef SegmentRef segment
    cdef Found found
    cdef int64_t hole_at
    cdef int code
    slice.position = slice.size = 0
    slice.segment_base = -1
    slice.limit_offset = log_limit(log, limit)
    if offset < log.log_start_offset.load() or offset > log.log_end_offset.load():
        return OFFSET_OUT_OF_RANGE
    while offset < slice.limit_offset:
        if offset < log.log_start_offset.load():
            return OFFSET_OUT_OF_RANGE  # retention came by
        code = _find_segment(log, offset, &segment, &hole_at)
        if code == OFFSET_IN_HOLE and _pass_skipped(log, &offset):
            continue
        if code != OK:
            return code
        slice.segment_base = segment.get().base_offset
        code = segment_find(segment.get(), offset, &found)
        if code == OK:
            return _fill_slice(log, segment.get(), &found, offset, hole_at, max_bytes, slice)
        if code != OFFSET_OUT_OF_RANGE:
            return code
        # Compaction left nothing at the end of that segment: the next one begins with what follows.
        if offset >= log.gaps_end.load() or _is_gone(log, segment):
            return BATCH_CORRUPT
        if not _next_base(log, offset, &offset):
            return OK
    return OK


cdef int _find_segment(PartitionLog* log, int64_t offset, SegmentRef* segment,
                       int64_t* hole_at) noexcept nogil:
    """With where the next hole begins: a repair changes segments and holes as one."""
    cdef size_t i
    cdef int code = OK
    hole_at[0] = INT64_MAX
    log.list_guard.lock()
    segment[0] = log.segments[_segment_at(log, offset)]
    for i in range(log.holes.size()):
        if log.holes[i].first_offset <= offset < log.holes[i].end_offset:
            code = OFFSET_IN_HOLE
        elif log.holes[i].first_offset > offset:
            hole_at[0] = min(hole_at[0], log.holes[i].first_offset)
    log.list_guard.unlock()
    return code


cdef bint _is_gone(PartitionLog* log, const SegmentRef& segment) noexcept nogil:
    """Whether the file is not there, and the segment is one of the log's still: whoever takes a
    segment away takes it from the list first."""
    cdef FileRef file
    cdef bint is_listed
    if segment_file(segment.get(), &file) != OFFSET_OUT_OF_RANGE:
        return False
    log.list_guard.lock()
    is_listed = log.segments[_segment_at(log, segment.get().base_offset)] == segment
    log.list_guard.unlock()
    return is_listed


cdef bint _starts_in_hole(PartitionLog* log, Segment* segment) noexcept nogil:
    cdef SegmentRef found
    cdef int64_t next_hole
    return _find_segment(log, segment.base_offset, &found, &next_hole) == OFFSET_IN_HOLE


cdef bint _pass_skipped(PartitionLog* log, int64_t* offset) noexcept nogil:
    cdef int64_t end = offset[0]
    cdef size_t i
    log.list_guard.lock()
    for i in range(log.holes.size()):
        if log.holes[i].is_skipped and log.holes[i].first_offset <= end < log.holes[i].end_offset:
            end = log.holes[i].end_offset
    log.list_guard.unlock()
    if end == offset[0]:
        return False
    offset[0] = end
    return True


cdef bint _next_base(PartitionLog* log, int64_t offset, int64_t* base) noexcept nogil:
    cdef size_t slot
    cdef bint found
    log.list_guard.lock()
    slot = _segment_at(log, offset) + 1
    found = slot < log.segments.size()
    if found:
        base[0] = log.segments[slot].get().base_offset
    log.list_guard.unlock()
    return found


cdef int _fill_slice(PartitionLog* log, Segment* segment, const Found* found, int64_t offset,
                     int64_t hole_at, int64_t max_bytes, Slice* slice) noexcept nogil:
    cdef Found first_hidden
    cdef int64_t end = segment.size.load()
    cdef int code
    # The CRC does not cover the base offset, so a reader could not notice that it is wrong.
    if found.header.base_offset > offset and offset >= log.gaps_end.load():
        return BATCH_CORRUPT
    if found.header.base_offset >= slice.limit_offset:
        return OK
    code = segment_file(segment, &slice.file)
    if code != OK:
        return code
    if segment.end_offset.load() > slice.limit_offset:
        code = segment_find(segment, slice.limit_offset, &first_hidden)
        if code == OK:
            end = first_hidden.position
        elif code != OFFSET_OUT_OF_RANGE:
            return code
    slice.position = found.position
    slice.size = min(end - found.position, max(max_bytes, found.header.size))
    return _stop_before_hole(segment, hole_at, slice)


cdef int _stop_before_hole(Segment* segment, int64_t hole_at, Slice* slice) noexcept nogil:
    cdef Found damaged
    cdef int code
    slice.size = min(slice.size, segment_next_damage(segment, slice.position) - slice.position)
    if hole_at >= segment.end_offset.load():
        return OK
    code = segment_find(segment, hole_at - 1, &damaged)
    if code == OK:
        slice.size = min(slice.size, damaged.position + damaged.header.size - slice.position)
    return OK if code == OFFSET_OUT_OF_RANGE else code


cdef int log_find_time(PartitionLog* log, int64_t timestamp, int64_t from_offset, int limit,
                       Slice* slice) noexcept nogil:
    cdef int64_t truncations = log.truncations.load()
    cdef int code = _find_time(log, timestamp, from_offset, limit, slice)
    if code == FILES_EXHAUSTED and descriptors_relieve():
        code = _find_time(log, timestamp, from_offset, limit, slice)
    if code != OK and not truncations & 1 and truncations == log.truncations.load():
        log_note_fault(log, slice.segment_base, slice.segment_base, code)
    return code


cdef int _find_time(PartitionLog* log, int64_t timestamp, int64_t from_offset, int limit,
                    Slice* slice) noexcept nogil:
    cdef SegmentRef segment
    cdef Found found
    cdef int64_t next_offset = from_offset
    cdef int code
    slice.position = slice.size = 0
    slice.limit_offset = log_limit(log, limit)
    while _candidate(log, timestamp, &next_offset, &segment):
        slice.segment_base = segment.get().base_offset
        code = segment_load_largest(segment.get())
        if code == OFFSET_OUT_OF_RANGE:
            if _is_gone(log, segment) and not _starts_in_hole(log, segment.get()):
                return BATCH_CORRUPT
            continue  # retention came by, or what was there is known to be lost
        if code != OK:
            return code
        if (segment.get().largest_timestamp.load() < timestamp
                or segment.get().end_offset.load() <= from_offset):
            continue
        code = _find_time_in(segment.get(), timestamp, from_offset, &found)
        if code == OFFSET_OUT_OF_RANGE:
            if _is_gone(log, segment) and not _starts_in_hole(log, segment.get()):
                return BATCH_CORRUPT
            continue
        if code != OK or found.header.base_offset >= slice.limit_offset:
            return code
        slice.position = found.position
        slice.size = found.header.size
        return segment_file(segment.get(), &slice.file)
    return OK


cdef bint _candidate(PartitionLog* log, int64_t timestamp, int64_t* next_offset,
                     SegmentRef* segment) noexcept nogil:
    """The first segment from `next_offset` on that may have such a record; moves `next_offset`."""
    cdef Segment* it
    cdef size_t slot
    cdef bint is_found = False
    if next_offset[0] == INT64_MAX:
        return False  # there was no segment behind the last one
    log.list_guard.lock()
    slot = _segment_at(log, next_offset[0])
    while slot < log.segments.size() and not is_found:
        it = log.segments[slot].get()
        if not it.largest_is_known.load() or it.largest_timestamp.load() >= timestamp:
            segment[0] = log.segments[slot]
            is_found = True
        slot += 1
    if is_found:
        next_offset[0] = INT64_MAX
        if slot < log.segments.size():
            next_offset[0] = log.segments[slot].get().base_offset
    log.list_guard.unlock()
    return is_found


cdef int _find_time_in(Segment* segment, int64_t timestamp, int64_t from_offset,
                       Found* found) noexcept nogil:
    cdef int code = segment_find_time(segment, timestamp, found)
    while code == OK and (found.header.base_offset + found.header.last_offset_delta < from_offset
                          or found.header.max_timestamp < timestamp):
        code = segment_find(segment, found.header.base_offset + found.header.last_offset_delta + 1,
                            found)
    return code


cdef void log_aborted(PartitionLog* log, int64_t from_offset, int64_t end_offset,
                      vector[AbortedTxn]* into) noexcept nogil:
    cdef size_t low = 0, high, middle
    log.list_guard.lock()
    high = log.aborted.size()
    while low < high:
        middle = (low + high) // 2
        if log.aborted[middle].last_offset < from_offset:
            low = middle + 1
        else:
            high = middle
    while low < log.aborted.size():
        if log.aborted[low].first_offset < end_offset:
            into.push_back(log.aborted[low])
        # Nothing that ended later can have begun below this one's stable offset.
        if log.aborted[low].last_stable_offset >= end_offset:
            break
        low += 1
    log.list_guard.unlock()


cdef void log_end_for_epoch(PartitionLog* log, int32_t epoch, int32_t* found,
                            int64_t* end_offset) noexcept nogil:
    cdef size_t i
    log.guard.lock()
    found[0] = -1
    end_offset[0] = -1
    for i in range(log.epochs.size()):
        if log.epochs[i].epoch > epoch:
            break
        found[0] = log.epochs[i].epoch
        end_offset[0] = log.log_end_offset.load()
        if i + 1 < log.epochs.size():
            end_offset[0] = log.epochs[i + 1].start_offset
    log.guard.unlock()


# Durability

cdef void log_commit_begin(const LogRef& log, bint with_checkpoint,
                           CommitPlan* plan) noexcept nogil:
    cdef PartitionLog* it = log.get()
    cdef Segment* segment
    cdef FileRef file
    cdef size_t slot
    plan.log = log
    plan.result = OK
    plan.error = 0
    it.guard.lock()
    it.commit_is_wanted.store(False)
    if it.failed.load() != OK or it.is_closed.load():
        plan.result = LOG_FAILED if it.failed.load() != OK else LOG_CLOSED
        it.guard.unlock()
        return
    plan.end_offset = it.log_end_offset.load()
    plan.truncations = it.truncations.load()
    if not mutant(b"segment_without_directory_sync"):
        plan.directory = it.dirty_directory
    it.dirty_directory.reset()
    it.unflushed_records = 0
    it.committing_ns.store(it.oldest_unflushed_ns.exchange(0))
    plan.bytes_appended = it.bytes_appended.load()
    plan.began_ns = monotonic_ns()
    slot = it.segments.size()
    while slot > 0:
        slot -= 1
        segment = it.segments[slot].get()
        if segment.synced_size < segment.size.load():
            # Open since its first unsynced byte: log_rest lets go of no such file.
            plan.segments.push_back(it.segments[slot])
            if segment_file(segment, &file) != OK:
                plan.result = STORAGE_IO
            plan.files.push_back(file)
            plan.sizes.push_back(segment.size.load())
        elif slot + 1 < it.segments.size():
            break
        if mutant(b"roll_without_sync_of_old_segment"):
            break
    if mutant(b"watermark_before_sync"):
        watermarks_note(&it.storage.get().marks, it.name, plan.end_offset)
    plan.with_checkpoint = with_checkpoint
    if with_checkpoint:
        log_capture(it, &plan.checkpoint)
    it.guard.unlock()


cdef void log_commit_end(CommitPlan* plan) noexcept nogil:
    cdef PartitionLog* log = plan.log.get()
    cdef size_t i
    if plan.result == LOG_CLOSED:
        return
    if plan.result != OK:
        if plan.error != 0:
            failure_note(b"sync", b"", plan.error)  # another thread met it
        log_fail(log, plan.result)
        log_tell(log)
        return
    log.guard.lock()
    log.committing_ns.store(0)
    if plan.truncations != log.truncations.load():
        log.guard.unlock()
        return
    for i in range(plan.segments.size()):
        plan.segments[i].get().synced_size = max(plan.segments[i].get().synced_size, plan.sizes[i])
    if plan.end_offset > log.durable_offset.load():
        # Before anybody is answered, so that after a kill recovery knows what was. Not for a log
        # that is closed: its note was taken back, and its name may be another's soon.
        if not log.is_closed.load():
            watermarks_note(&log.storage.get().marks, log.name, plan.end_offset)
        log.durable_offset.store(plan.end_offset)
    log.bytes_durable.store(plan.bytes_appended)
    if not plan.files.empty():
        log.flushed_ns.store(monotonic_ns())
        log.flush_took_ns.store(log.flushed_ns.load() - plan.began_ns)
    _forget_ended(log)
    log.guard.unlock()
    log_tell(log)
    if not plan.with_checkpoint and (not plan.files.empty() or plan.directory.get() != NULL):
        log.is_changed.store(True)


cdef void _forget_ended(PartitionLog* log) noexcept nogil:
    cdef int64_t visible = log_high_watermark(log)
    cdef size_t i, kept = 0
    log.list_guard.lock()
    for i in range(log.ended.size()):
        if log.ended[i].marker_offset >= visible:
            log.ended[kept] = log.ended[i]
            kept += 1
    log.ended.resize(kept)
    log.list_guard.unlock()


cdef void log_fail(PartitionLog* log, int code) noexcept nogil:
    # The first reason is the true one; what follows is its echo.
    if log.failed.load() == OK:
        log.failed_errno.store(failure_errno() if code <= LOG_FAILED else 0)
        log.failed.store(code)


cdef void _end_at_durable(PartitionLog* log) noexcept nogil:
    """What was not durable when the log failed does not come back, whether the disk has it or not.

    Its writers hear that it is not written, and write it again: librdkafka may do so under its next
    epoch, by which no log knows it again. Recovery would keep what the disk happens to have, and
    the records would be there twice. Durable before anybody is told; where the journal cannot be
    written, either, the next start finds what it finds.
    """
    log.saved_guard.lock()
    if log.saved.end_limit > log.durable_offset.load() and not log.is_closed.load():
        log.saved.end_limit = log.durable_offset.load()
        log_save_locked(log)
    log.saved_guard.unlock()


cdef void log_tell(PartitionLog* log) noexcept nogil:
    cdef Reached reached
    if log.failed.load() != OK:
        _end_at_durable(log)
    if log.watches.count.load() == 0:
        return
    reached.durable = log.durable_offset.load()
    reached.visible = log_high_watermark(log)
    reached.stable = log_last_stable_offset(log)
    reached.is_over = log.failed.load() != OK or log.is_closed.load()
    watches_tell(&log.watches, &reached)


# Recovery points

cdef void log_capture(PartitionLog* log, Checkpoint* checkpoint) noexcept nogil:
    """The log as it stands now; guard is held. What maintenance owns is filled in when saved."""
    cdef Segment* segment = log.segments.back().get()
    producers_expire(&log.producers, storage_earliest_ms(log.storage.get()),
                     log.settings.producer_expiration_ms)
    checkpoint.recovery_offset = log.log_end_offset.load()
    checkpoint.segment_base = segment.base_offset
    checkpoint.position = segment.size.load()
    checkpoint.created_ms = segment.created_ms
    checkpoint.first_timestamp = segment.first_timestamp
    checkpoint.largest_timestamp = segment.largest_timestamp.load()
    checkpoint.largest_timestamp_offset = segment.largest_timestamp_offset.load()
    checkpoint.leader_epoch = <int32_t>log.leader_epoch.load()
    checkpoint.epochs = log.epochs
    checkpoint.producers.clear()
    producers_store(&log.producers, &checkpoint.producers)


cdef void _fill_list(PartitionLog* log, Checkpoint* checkpoint) noexcept nogil:
    """The list of segments as it is now, so that one that goes missing is missed."""
    cdef size_t i
    checkpoint.bases.clear()
    log.list_guard.lock()
    for i in range(log.segments.size()):
        if log.segments[i].get().base_offset < checkpoint.segment_base:
            checkpoint.bases.push_back(log.segments[i].get().base_offset)
    checkpoint.holes = log.holes
    log.list_guard.unlock()


cdef bint log_checkpoint_is_due(PartitionLog* log) noexcept nogil:
    cdef int64_t appended
    cdef bint is_due
    if not log.saved_guard.try_lock():
        return False
    appended = log.bytes_appended.load() - log.bytes_at_saved
    is_due = appended >= CHECKPOINT_WORTH * checkpoint_size(&log.saved)
    # Retention and compaction stop short of the segment that recovery begins in: it must move on.
    is_due = is_due or log.saved.segment_base != log.active_base.load()
    log.saved_guard.unlock()
    return is_due


cdef int log_checkpoint_put(CommitPlan* plan) noexcept nogil:
    """After what recovery will believe unseen was synced."""
    cdef PartitionLog* log = plan.log.get()
    cdef Checkpoint* saved = &log.saved
    cdef int code = plan.indexes
    if code != OK:
        # A failed sync is final; a full disk or no free descriptor is tried again at the next
        # point.
        if code == STORAGE_IO:
            log_fail(log, code)
        return code
    log.saved_guard.lock()
    # A log closed for deletion must not come back into the journal.
    if (not log.is_closed.load() and plan.truncations == log.truncations.load()
            and plan.checkpoint.recovery_offset >= saved.recovery_offset):
        plan.checkpoint.log_start_offset = saved.log_start_offset
        plan.checkpoint.end_limit = saved.end_limit
        plan.checkpoint.swap_base = saved.swap_base
        plan.checkpoint.swap_end = saved.swap_end
        plan.checkpoint.cleaned_offset = saved.cleaned_offset
        plan.checkpoint.gaps_end = saved.gaps_end
        saved[0] = plan.checkpoint
        if mutant(b"producer_state_ahead_of_log"):
            log.guard.lock()
            saved.producers.clear()
            producers_store(&log.producers, &saved.producers)
            log.guard.unlock()
        log.bytes_at_saved = log.bytes_appended.load()
        _fill_list(log, saved)
        journal_put(&log.storage.get().journal, log.name, saved)
    log.saved_guard.unlock()
    return OK


cdef int64_t log_unfinished(PartitionLog* log) noexcept nogil:
    cdef size_t slot
    cdef int64_t count = 0
    log.list_guard.lock()
    slot = log.segments.size() - 1
    while slot > 0 and not log.segments[slot - 1].get().index_is_final.load():
        slot -= 1
        count += 1
    log.list_guard.unlock()
    return count


cdef void log_store_indexes(CommitPlan* plan, bint is_durable) noexcept nogil:
    plan.indexes = _store_indexes(plan, is_durable)
    if plan.indexes == FILES_EXHAUSTED and descriptors_relieve():
        plan.indexes = _store_indexes(plan, is_durable)


cdef void log_finish_indexes(CommitPlan* plan, bint is_durable) noexcept nogil:
    cdef size_t i
    for i in range(plan.sealed.size()):
        if is_durable:
            _finish_segment(plan.log.get(), plan.sealed[i].get())
        else:
            segment_forget_stored(plan.sealed[i].get())
    plan.sealed.clear()


cdef int _store_indexes(CommitPlan* plan, bint is_durable) noexcept nogil:
    """A lost offset or time index costs a walk. A lost transaction index would show aborted ones,
    so the recovery point must not pass it unsynced: it is always durable.
    """
    cdef PartitionLog* log = plan.log.get()
    cdef vector[SegmentRef] segments
    cdef Segment* segment
    cdef size_t slot
    cdef bint is_sealed
    cdef int code = OK
    log.list_guard.lock()
    segments = log.segments
    log.list_guard.unlock()
    slot = segments.size()
    while slot > 0 and code == OK:
        slot -= 1
        segment = segments[slot].get()
        is_sealed = slot + 1 < segments.size()
        if is_sealed and segment.index_is_final.load():
            break
        if segment.txn_is_dirty.load():
            code = log_store_aborted(log, segment)
            if code != OK:
                return code
        # Derived files: a full disk leaves them short, and the next checkpoint tries again.
        if segment_store_index(segment, is_sealed and is_durable) == OK and is_sealed:
            if is_durable:
                _finish_segment(log, segment)
            else:
                plan.sealed.push_back(segments[slot])
    return code


cdef void _finish_segment(PartitionLog* log, Segment* segment) noexcept nogil:
    """Sealed for good, unless it was rolled after the commit began and still has bytes to sync."""
    log.guard.lock()
    segment.index_is_final.store(segment.synced_size == segment.size.load())
    log.guard.unlock()


cdef int log_store_aborted(PartitionLog* log, Segment* segment) noexcept nogil:
    cdef vector[AbortedTxn] here
    cdef int64_t end_offset = segment.end_offset.load()
    cdef FileRef directory
    cdef size_t i
    cdef int code = directory_hold(segment.directory.get(), &directory)
    if log.is_closed.load():
        code = LOG_CLOSED  # the file may be another log's by now
    if code != OK:
        return code
    log.list_guard.lock()
    segment.txn_is_dirty.store(False)
    for i in range(log.aborted.size()):
        if segment.base_offset <= log.aborted[i].last_offset < end_offset:
            here.push_back(log.aborted[i])
    log.list_guard.unlock()
    code = txn_index_store(directory.get().fd, segment.base_offset, here.data(), here.size())
    if code != OK:
        segment.txn_is_dirty.store(True)
    return code


cdef void log_put_locked(PartitionLog* log) noexcept nogil:
    _fill_list(log, &log.saved)
    journal_put(&log.storage.get().journal, log.name, &log.saved)


cdef int log_save_locked(PartitionLog* log) noexcept nogil:
    # Another log may have its name in the journal by now: one that was opened again, or made anew.
    if log.is_closed.load():
        return LOG_CLOSED
    log_put_locked(log)
    return storage_commit(log.storage.get())


cdef void log_seal_times(PartitionLog* log) noexcept nogil:
    cdef Segment* active
    log.guard.lock()
    active = log.segments.back().get()
    # An index that nobody loaded in this life is as it was left.
    if active.index_is_loaded and log.failed.load() == OK:
        segment_seal_times(active)
        log.is_changed.store(True)
    log.guard.unlock()


cdef void log_rest(PartitionLog* log, int64_t before_ns) noexcept nogil:
    cdef vector[SegmentRef] segments
    cdef Segment* active
    cdef size_t i
    log.list_guard.lock()
    segments = log.segments
    log.list_guard.unlock()
    log.guard.lock()
    for i in range(segments.size() - 1):
        if segments[i].get().index_is_final.load():
            segment_rest(segments[i].get(), before_ns, False)
    active = log.segments.back().get()
    # A write-back error is told to descriptors that were open when it happened: only a file with
    # nothing left to write may be closed, and only an index that is in its file may be dropped.
    if active.synced_size == active.size.load() and segment_index_is_stored(active):
        segment_rest(active, before_ns, False)
    directory_rest(log.directory.get())
    log.guard.unlock()


cdef int64_t log_close_idle(PartitionLog* log, int64_t before_ns) noexcept nogil:
    cdef Segment* segment
    cdef int64_t closed = 0
    cdef size_t i
    if not log.guard.try_lock():
        return 0
    for i in range(log.segments.size()):
        segment = log.segments[i].get()
        # As in log_rest: an unsynced file stays open. The index stays, so it need be in no file.
        if segment.synced_size == segment.size.load():
            closed += segment_rest(segment, before_ns, True)
    closed += directory_rest(log.directory.get())
    log.guard.unlock()
    return closed


cdef bint log_is_dirty(PartitionLog* log) noexcept nogil:
    return log.oldest_unflushed_ns.load() != 0


# ---- with the GIL ----

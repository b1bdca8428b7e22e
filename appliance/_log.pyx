"""The Python edge of the log engine: `Engine` is a data directory, `Log` one partition in it.

Everything here is thin: arguments to C, one block without the GIL, result to Python.
"""

from collections import namedtuple
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libcpp.memory cimport make_shared
from libcpp.string cimport string
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from cpython.bytes cimport PyBytes_FromStringAndSize

from appliance.native._codes cimport (
    BATCH_CORRUPT, BATCH_TORN, LOG_CLOSED, OFFSET_OUT_OF_RANGE, OK, STORAGE_FULL,
)
from appliance.native._descriptors cimport (
    DirectoryRef, FileRef, directory_hold, directory_rest, file_own,
)
from appliance.native._files cimport (
    error_of, failure_errno, failure_forget, failure_note, failure_text, open_file, read_whole,
    sync_directory,
)
from appliance.native._native cimport (
    EROFS, O_CREAT, O_DIRECTORY, O_RDONLY, O_RDWR, close, errno, monotonic_ns, mutant,
)
from appliance.native._socket cimport EFD_CLOEXEC, EFD_NONBLOCK, eventfd
from appliance.record._batch cimport (
    ATTRIBUTE_CODEC, ATTRIBUTE_CONTROL, BATCH_HEADER_SIZE, BatchHeader, batch_check_crc,
    batch_check_header, batch_load_header,
)
from appliance.record._batch_check cimport batch_check, batch_check_own
from appliance.storage._append cimport (
    ORIGIN_CLIENT, ORIGIN_COORDINATOR, ORIGIN_UNVERIFIED, AppendOptions, Appended as CAppended,
    log_append, log_append_mirrored,
)
from appliance.storage._commit cimport log_tell
from appliance.storage._committer cimport (
    SYNC_AUTO, SYNC_FILES, SYNC_FILESYSTEM, Committer, CommitterRef, committer_ask, committer_await,
    committer_checkpoint, committer_forget, committer_notify,
)
from appliance.storage._group_commit cimport committer_start, committer_stop
from appliance.storage._index cimport AbortedTxn
from appliance.storage._journal cimport (
    Checkpoint, Hole, Journal, journal_close, journal_find, journal_open, journal_remove,
    journal_start,
)
from appliance.storage._last_stable_offset cimport log_high_watermark, log_last_stable_offset
from appliance.storage._open_logs cimport open_logs_add
from appliance.storage._partition_log cimport (
    LogRef, LogSettings, PartitionLog, log_end_for_epoch, log_rest, log_roll, log_seal_times,
)
from appliance.storage._producers cimport Producer
from appliance.storage._read cimport (
    READ_END, READ_STABLE, READ_VISIBLE, Slice, log_aborted, log_find_time, log_note_fault,
    log_note_fault_at, log_read,
)
from appliance.storage._read_faults cimport (
    ReadFault, read_faults_take, read_faults_wake,
)
from appliance.storage._recovery cimport log_close, log_open
from appliance.storage._relief cimport relief_watch
from appliance.storage._retention cimport log_delete_before, log_kept_bytes, log_retain
from appliance.storage._salvage cimport Recovered as CRecovered
from appliance.storage._segment cimport (
    FileRef, Segment, SegmentRef,
)
from appliance.storage._storage cimport (
    Storage, StorageRef, storage_commit, storage_earliest_ms, storage_now, storage_poll,
    storage_release_reserve,
)
from appliance.storage._truncation cimport log_truncate
from appliance.storage.compaction._cleanable cimport cleanable_roll
from appliance.storage.compaction._cleaner cimport compact
from appliance.storage.compaction._offset_map cimport KEYS_MAX

from appliance.native._traffic cimport TIME_BUCKETS
from appliance.storage._watermarks cimport (
    Watermarks, watermarks_close, watermarks_find, watermarks_open, watermarks_start,
    watermarks_take_back,
)

from appliance.errors import ApplianceError, from_code
from appliance.process.spoken import disk_full, read_only
from appliance.record import compression
from appliance.record._batch import headers, records
from appliance.record._batch_check import check

cdef extern from "sys/file.h" nogil:
    int flock(int fd, int operation)
    enum:
        LOCK_EX, LOCK_NB

Appended = namedtuple("Appended", "base_offset last_offset append_time duplicate")
Recovered = namedtuple(
    "Recovered",
    "scanned_bytes cut_bytes cut_records cut_offset aside_bytes was_known is_noted "
    "promised_offset losses txn_indexes",
)
RecoveredLoss = namedtuple("RecoveredLoss", "first_offset end_offset cause aside")
ReadFaultInfo = namedtuple(
    "ReadFaultInfo", "topic partition base_offset offset why times age_s"
)
SegmentInfo = namedtuple("SegmentInfo", "base_offset end_offset size largest_timestamp path")
LogFacts = namedtuple(
    "LogFacts",
    "log_start_offset log_end_offset durable_offset high_watermark last_stable_offset leader_epoch "
    "segments size largest_timestamp unflushed_records unflushed_bytes unflushed_age_ms "
    "flush_took_us flushed_ago_ms batches_of_clients bytes_of_clients records_of_clients "
    "is_alive",
)
ProducerInfo = namedtuple(
    "ProducerInfo",
    "producer_id epoch last_sequence last_offset txn_first_offset last_timestamp coordinator_epoch",
)

_LIMITS = {"visible": READ_VISIBLE, "end": READ_END, "stable": READ_STABLE}
_ORIGINS = {
    "client": ORIGIN_CLIENT, "coordinator": ORIGIN_COORDINATOR, "unverified": ORIGIN_UNVERIFIED,
}
# In the order of `Cause`.
_CAUSES = ("a segment is missing", "a file is shorter than it was", "a batch is damaged",
           "a batch is damaged, and may have been acknowledged",
           "the transaction index was damaged, and aborted records may be shown")
_SYNC_BY = {"auto": SYNC_AUTO, "files": SYNC_FILES, "filesystem": SYNC_FILESYSTEM}

# `LogFacts` of one log.
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
    log.list_guard.lock()
    facts.segments = log.segments.size()
    for i in range(log.segments.size()):
        facts.size += log.segments[i].get().size.load()
        facts.largest_timestamp = max(facts.largest_timestamp,
                                      log.segments[i].get().largest_timestamp.load())
    log.list_guard.unlock()


cdef int _engine_open(StorageRef storage, const char* path) noexcept nogil:
    cdef int fd = open_file(-100, path, O_RDONLY | O_DIRECTORY)
    if fd < 0:
        return fd
    storage.get().directory = file_own(fd)
    storage.get().lock_fd = open_file(fd, b"lock", O_RDWR | O_CREAT)
    if storage.get().lock_fd < 0:
        return storage.get().lock_fd
    if flock(storage.get().lock_fd, LOCK_EX | LOCK_NB) < 0:
        return LOG_CLOSED
    cdef int code = journal_open(&storage.get().journal, fd)
    return code if code != OK else watermarks_open(&storage.get().marks, fd)


cdef int _engine_start(StorageRef storage, CommitterRef committer) noexcept nogil:
    cdef Journal* journal = &storage.get().journal
    cdef Watermarks* marks = &storage.get().marks
    cdef int code
    # A journal that lost its newest generation must not use that number for another one.
    journal.generation = max(journal.generation, marks.found_generation)
    code = journal_start(journal)
    if code != OK and storage_release_reserve(storage.get()):
        code = journal_start(journal)
    if code != OK:
        return code
    if (watermarks_start(marks, journal.durable_generation, journal.durable_records) != OK
            and storage_release_reserve(storage.get())):
        watermarks_start(marks, journal.durable_generation, journal.durable_records)
    storage_poll(storage.get())
    return committer_start(committer.get())


cdef void _end_wakes(Storage* storage) noexcept nogil:
    cdef int fd = storage.faults.wake_fd
    read_faults_wake(&storage.faults, -1)
    if fd >= 0:
        close(fd)


cdef int engine_append(Committer* committer, const LogRef& log, uint8_t* data, int64_t size,
                       const AppendOptions* options, CAppended* appended) noexcept nogil:
    cdef BatchHeader header
    cdef int code = _check(data, size, options.origin, &header)
    if code == OK:
        code = log_append(committer, log, data, &header, options, appended)
    return code


cdef int _check(const uint8_t* data, int64_t size, int origin, BatchHeader* header) noexcept nogil:
    """The coordinator may write control batches, and in a transaction batches without sequence,
    which no client may; all else is the same."""
    cdef int code
    if origin != ORIGIN_COORDINATOR:
        return batch_check(data, size, header)
    if size >= BATCH_HEADER_SIZE:
        batch_load_header(data, header)
        if header.attributes & ATTRIBUTE_CONTROL:
            code = batch_check_header(header, size)
            if code == OK and header.size != size:
                code = BATCH_TORN
            return code if code != OK else batch_check_crc(data, header)
    return batch_check_own(data, size, header)


cdef int _read(const LogRef& log, int64_t offset, int64_t max_bytes, int limit,
               vector[uint8_t]* into) noexcept nogil:
    """Whole batches only: the slice may end within one."""
    cdef Slice slice
    cdef BatchHeader header
    cdef int64_t at = 0, got
    cdef int code = log_read(log.get(), offset, max_bytes, limit, &slice)
    if code != OK or slice.size == 0:
        return code
    into.resize(slice.size)
    got = read_whole(slice.file.get().fd, into.data(), slice.size, slice.position)
    if got < slice.size:
        log_note_fault(log.get(), slice.segment_base, offset, _fault_of(got))
    if got < 0:
        return <int>got
    while at + BATCH_HEADER_SIZE <= got:
        batch_load_header(into.data() + at, &header)
        if batch_check_header(&header, got - at) != OK:
            break
        at += header.size
    into.resize(at)
    # A file that was cut meanwhile: to answer nothing would say that the log ends here.
    return OK if at > 0 else BATCH_TORN


cdef bint _are_whole(const uint8_t* data, int64_t size) noexcept nogil:
    cdef BatchHeader header
    cdef int64_t at = 0
    while at + BATCH_HEADER_SIZE <= size:
        batch_load_header(data + at, &header)
        if batch_check_header(&header, size - at) != OK:
            return False
        if batch_check_crc(data + at, &header) != OK:
            return False
        at += header.size
    return at == size


cdef int _fault_of(int64_t got) noexcept nogil:
    """Of a read that gave fewer bytes than the segment has."""
    return <int>min(got, <int64_t>BATCH_TORN)


cdef int _flush(Committer* committer, const LogRef& log, int64_t deadline_ns) noexcept nogil:
    cdef int64_t end_offset
    cdef int code = OFFSET_OUT_OF_RANGE
    # A truncation meanwhile takes the end away: then there is a new one.
    while code == OFFSET_OUT_OF_RANGE:
        end_offset = log.get().log_end_offset.load()
        if log.get().durable_offset.load() >= end_offset:
            return OK
        code = committer_await(committer, log, end_offset - 1, deadline_ns)
    return code


# ---- with the GIL ----

cdef class Engine:
    """A data directory: its lock, its journal, its committer."""

    def __cinit__(self, str path not None, *, int64_t checkpoint_interval_ms=1000,
                  int64_t reserve_bytes=0, int64_t low_water_bytes=0, str sync="auto",
                  int sync_threads=4, int64_t write_behind_bytes=1 << 20,
                  int64_t poll_interval_ms=200):
        cdef bytes raw = path.encode()
        cdef const char* c_path = raw
        cdef int code
        self.path = path
        self.storage = make_shared[Storage]()
        self.storage.get().faults.wake_fd = -1
        self.storage.get().reserve_bytes = reserve_bytes
        self.storage.get().low_water_bytes = low_water_bytes
        self.storage.get().write_behind_bytes = write_behind_bytes
        self.committer = make_shared[Committer]()
        self.committer.get().storage = self.storage
        self.committer.get().sync_by = _SYNC_BY[sync]
        self.committer.get().threads_count = sync_threads
        self.committer.get().checkpoint_interval_ns = checkpoint_interval_ms * 1000000
        self.committer.get().poll_interval_ns = poll_interval_ms * 1000000
        with nogil:
            failure_forget()
            code = _engine_open(self.storage, c_path)
        if code == LOG_CLOSED:
            raise error_of(code, f"{path} is in use by another broker: its file `lock` is held")
        if code != OK and failure_errno() == EROFS:
            raise error_of(code, read_only(path))
        if code != OK:
            raise error_of(code, f"{path} cannot be opened as a data directory")

    def __dealloc__(self):
        # Also of one that could not be opened, or that nobody started.
        if self.is_closed or self.storage.get() == NULL:
            return
        if self.is_started:
            committer_stop(self.committer.get())
        journal_close(&self.storage.get().journal, False)
        watermarks_close(&self.storage.get().marks)
        _end_wakes(self.storage.get())
        if self.storage.get().lock_fd > 0:
            close(self.storage.get().lock_fd)

    @property
    def was_clean(self):
        return self.storage.get().journal.was_clean

    @property
    def is_new(self):
        """Whether no journal was found: the directory is new, or was never ours."""
        return self.storage.get().journal.generation == 0

    @property
    def journal_is_behind(self):
        """Whether it is older than what the watermarks say of it: its newest part is damaged."""
        cdef const Journal* journal = &self.storage.get().journal
        cdef const Watermarks* marks = &self.storage.get().marks
        if not marks.was_found:
            return False
        if journal.durable_generation != marks.found_generation:
            return journal.durable_generation < marks.found_generation
        return journal.durable_records < marks.found_records

    @property
    def journal_is_lost(self):
        """Whether there was one, and neither of its files can be read."""
        cdef const Journal* journal = &self.storage.get().journal
        return not journal.was_found and (self.storage.get().marks.was_found
                                          or min(journal.sizes[0], journal.sizes[1]) > 0)

    @property
    def has_watermarks(self):
        return self.storage.get().marks.was_found

    @property
    def is_same_boot(self):
        """Whether the machine ran on since the last life, so that every watermark is there."""
        return self.storage.get().marks.was_found and self.storage.get().marks.is_same_boot

    @property
    def closed_ms(self):
        return self.storage.get().journal.closed_ms

    @property
    def is_full(self):
        return self.storage.get().is_full.load()

    @property
    def free_bytes(self):
        return self.storage.get().free_bytes.load()

    @property
    def full_in_words(self):
        return disk_full(self.free_bytes, self.storage.get().low_water_bytes)

    @property
    def journal_failed(self):
        return self.committer.get().journal_failed.load()

    def known(self):
        """Directory names that the journal has a checkpoint for."""
        names = []
        for entry in self.storage.get().journal.live:
            names.append((<bytes>entry.first).decode())
        return names

    def promised(self, str name not None):
        """(log start offset, end) of what was durable of a log that the journal knows."""
        cdef Checkpoint checkpoint
        cdef string c_name = name.encode()
        cdef int64_t noted = watermarks_find(&self.storage.get().marks, c_name)
        if not journal_find(&self.storage.get().journal, c_name, &checkpoint):
            return 0, max(noted, <int64_t>0)
        return (max(checkpoint.log_start_offset, <int64_t>0),
                max(checkpoint.recovery_offset, min(noted, checkpoint.end_limit)))

    def wake_at_read_faults(self):
        """A descriptor that is readable when `take_read_faults` has something; the engine's."""
        cdef int fd = self.storage.get().faults.wake_fd
        if fd < 0:
            fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)
            if fd < 0:
                raise OSError(errno, "there is no descriptor for hearing of read errors")
            read_faults_wake(&self.storage.get().faults, fd)
        return fd

    def take_read_faults(self):
        """Reads of stored records that failed or were refused since the last call, by segment."""
        cdef vector[ReadFault] found
        cdef int64_t now_ns = monotonic_ns()
        cdef size_t i
        with nogil:
            read_faults_take(&self.storage.get().faults, &found)
        return [_read_fault(&found[i], now_ns) for i in range(found.size())]

    @property
    def read_faults(self):
        """How many there were in this life; how many of them have no place among those taken."""
        return (self.storage.get().faults.count.load(), self.storage.get().faults.unnamed.load())

    def counters(self):
        cdef Committer* committer = self.committer.get()
        cdef int64_t began = committer.sync_began_ns.load()
        return {
            "commits": committer.commits.load(),
            "logs_committed": committer.logs_committed.load(),
            "syncs": committer.syncs.load(),
            "sync_ns": committer.sync_ns.load(),
            "sync_age_ns": monotonic_ns() - began if began else 0,
        }

    def believe(self, int64_t wall_ms):
        """What time it is now by whom the machine's clock is measured against: see storage_now."""
        self.storage.get().believed_ahead_ms.store(wall_ms - monotonic_ns() // 1000000)

    def commit_times(self):
        """How many commits took how long, by `TIME_BOUNDS_NS`, and their sum in nanoseconds."""
        cdef Committer* committer = self.committer.get()
        cdef int i
        counts = [committer.commit_times.counts[i].load() for i in range(TIME_BUCKETS)]
        return counts, committer.commit_times.sum_ns.load()

    def start(self):
        """After every log found was opened: a fresh journal generation, the committer's threads."""
        cdef int code
        with nogil:
            failure_forget()
            code = _engine_start(self.storage, self.committer)
        if code != OK:
            raise error_of(code, f"{self.path}: the checkpoint journal cannot be written")
        self.is_started = True

    def open_log(self, str name not None, settings, *, bint is_again=False):
        """The log in directory `name`, which must exist, and what recovery met there. `is_again`:
        it could not be opened before, or failed, so that nothing of it is trusted."""
        cdef Log log = Log.__new__(Log)
        cdef LogSettings c_settings
        cdef string c_name = name.encode()
        cdef CRecovered found
        cdef Journal* journal = &self.storage.get().journal
        # Once started, only a new log's directory is known to be as this process left it.
        cdef bint is_trusted = journal.was_clean and not self.is_started
        cdef size_t i
        cdef int code
        if self.is_started:
            journal.guard.lock()
            is_trusted = journal.live.count(c_name) == 0
            journal.guard.unlock()
        _fill_settings(&c_settings, settings)
        failure_forget()
        log.engine = self
        log.name = name
        log.topic, _, partition = name.rpartition("-")
        log.partition = int(partition)
        with nogil:
            code = log_open(self.storage, c_name, &c_settings, is_trusted, &log.log, &found)
            if code == OK:
                open_logs_add(&self.committer.get().open_logs, log.log)
        if code != OK:
            raise error_of(code, f"{name}: the log cannot be opened")
        relief_watch(self.committer, log.log)
        losses = [
            RecoveredLoss(found.losses[i].first_offset, found.losses[i].end_offset,
                          _CAUSES[found.losses[i].cause], found.losses[i].aside.decode())
            for i in range(found.losses.size())
        ]
        return log, Recovered(found.scanned_bytes, found.cut_bytes, found.cut_records,
                              found.cut_offset, found.aside_bytes, bool(found.was_known),
                              bool(found.is_noted), found.promised_offset, losses,
                              found.txn_indexes)

    def release_reserve(self):
        """Lets go of the space held back: whether there was any."""
        cdef bint was_held
        with nogil:
            was_held = storage_release_reserve(self.storage.get())
        return was_held

    def sync_directory(self):
        """Makes the names in the data directory durable."""
        cdef int code
        with nogil:
            failure_forget()
            code = OK
            if not mutant(b"partition_without_parent_sync"):
                code = sync_directory(self.storage.get().directory.get().fd)
        if code != OK:
            raise error_of(code, f"{self.path}: the directory cannot be synced")

    def forget_names(self, list names not None):
        """Takes logs that are closed, or never were open, out of the journal, durably."""
        if not names:
            return
        cdef vector[string] gone = [name.encode() for name in names]
        cdef int code = OK
        cdef size_t i
        with nogil:
            failure_forget()
            code = watermarks_take_back(&self.storage.get().marks, &gone, -1)
            for i in range(gone.size()):
                if code == OK:
                    journal_remove(&self.storage.get().journal, gone[i])
            if self.is_started and code == OK:
                code = storage_commit(self.storage.get())
        if code != OK:
            raise error_of(code, f"{names[0]} and {len(names) - 1} more: their deletion cannot be "
                                  "written to the journal")

    def commit_journal(self):
        """Makes what was put into the journal durable: after a log was created."""
        cdef int code
        with nogil:
            failure_forget()
            code = storage_commit(self.storage.get())
        if code != OK:
            raise error_of(code, f"{self.path}: the checkpoint journal cannot be written")

    def checkpoint(self):
        """Recovery points of every log that changed are in the journal when this returns."""
        cdef int code
        with nogil:
            failure_forget()
            code = committer_checkpoint(self.committer.get())
        if code != OK:
            raise error_of(code, f"{self.path}: the checkpoint journal cannot be written")

    def poll(self):
        """Looks at the free space now rather than at the next turn."""
        with nogil:
            storage_poll(self.storage.get())

    def close(self, bint cleanly=True):
        """The caller has flushed and checkpointed the logs. Unclean is for tests."""
        cdef int code
        if self.is_closed:
            return
        self.is_closed = True
        with nogil:
            failure_forget()
            if self.is_started:
                committer_stop(self.committer.get())
            code = journal_close(&self.storage.get().journal, cleanly and self.is_started)
            watermarks_close(&self.storage.get().marks)
            _end_wakes(self.storage.get())
            close(self.storage.get().lock_fd)
            self.storage.get().lock_fd = -1
        if code != OK:
            raise error_of(code, f"{self.path}: the clean stop cannot be written to the journal")


cdef _read_fault(const ReadFault* fault, int64_t now_ns):
    name = (<bytes>fault.name).decode()
    why = type(from_code(fault.code, "")).__name__
    if fault.error != 0:
        failure_note(b"", b"", fault.error)
        why = failure_text()
        failure_forget()
    topic, _, partition = name.rpartition("-")
    return ReadFaultInfo(topic, int(partition), fault.base_offset, fault.offset, why, fault.count,
                      max(<int64_t>0, now_ns - fault.last_ns) / 1e9)


cdef int _fill_settings(LogSettings* c, settings) except -1:
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


cdef class FileSlice:
    """Bytes of a segment that stay readable for as long as this object lives, deleted or not."""

    cdef FileRef file
    cdef readonly int64_t position
    cdef readonly int64_t size

    @property
    def fd(self):
        return self.file.get().fd if self.file.get() != NULL else -1


cdef class DirectoryHold:
    """Keeps the directory of a log open. A log that rests opens its directory by name; in the
    moment in which that has moved and the log is not closed yet it would find nothing there, and
    fail as if the disk had."""

    cdef DirectoryRef directory
    cdef FileRef file

    def __enter__(self):
        with nogil:
            # Where it cannot be opened nobody else can open it, either, and it may be moved.
            failure_forget()
            directory_hold(self.directory.get(), &self.file)

    def __exit__(self, *failure):
        with nogil:
            self.file.reset()
            directory_rest(self.directory.get())


cdef class Log:
    """One partition's log."""

    # Writing

    def append(self, const unsigned char[::1] batch not None, *, object leader_epoch=None,
               str origin="client", object now_ms=None):
        """Validates, stamps and writes one record batch. Not durable yet: see await_durable."""
        cdef vector[uint8_t] copy
        cdef AppendOptions options
        cdef CAppended appended
        cdef int code
        _fill_options(&options, self.log.get(), leader_epoch, origin, now_ms)
        self._check_keys(batch, options.origin)
        with nogil:
            failure_forget()
            copy.assign(&batch[0], &batch[0] + batch.shape[0])
            code = engine_append(self.engine.committer.get(), self.log, copy.data(), copy.size(),
                                 &options, &appended)
        if code != OK:
            raise error_of(code, self._refused(code, batch))
        return Appended(appended.base_offset, appended.last_offset, appended.append_time,
                        bool(appended.duplicate))

    def append_in_place(self, unsigned char[::1] batch not None, *, object leader_epoch=None,
                        str origin="client", object now_ms=None):
        """As append, but the caller's buffer itself is stamped: no copy."""
        cdef AppendOptions options
        cdef CAppended appended
        cdef int code
        _fill_options(&options, self.log.get(), leader_epoch, origin, now_ms)
        self._check_keys(batch, options.origin)
        with nogil:
            failure_forget()
            code = engine_append(self.engine.committer.get(), self.log, &batch[0], batch.shape[0],
                                 &options, &appended)
        if code != OK:
            raise error_of(code, self._refused(code, batch))
        return Appended(appended.base_offset, appended.last_offset, appended.append_time,
                        bool(appended.duplicate))

    def append_mirrored(self, const unsigned char[::1] batches not None):
        """Writes batches of another log at the offsets that they have there: the first that is not
        here already begins at the log end. Not durable yet: see await_durable."""
        cdef vector[uint8_t] copy
        cdef CAppended appended
        cdef int code
        if batches.shape[0] == 0:
            raise error_of(BATCH_TORN, f"{self.name}: 0 bytes, at least one batch is wanted")
        with nogil:
            failure_forget()
            copy.assign(&batches[0], &batches[0] + batches.shape[0])
            code = log_append_mirrored(self.engine.committer.get(), self.log, copy.data(),
                                       copy.size(), False, &appended)
        if code != OK:
            facts = self._refused(code, batches)
            raise error_of(code, f"{facts}; the mirror's next batch goes on from there")
        return Appended(appended.base_offset, appended.last_offset, appended.append_time,
                        bool(appended.duplicate))

    def append_durable(self, const unsigned char[::1] batch not None, *, object leader_epoch=None,
                       str origin="client", object now_ms=None, double timeout_s=30.0):
        appended = self.append(batch, leader_epoch=leader_epoch, origin=origin, now_ms=now_ms)
        self.await_durable(appended.last_offset, timeout_s)
        return appended

    def await_durable(self, int64_t offset, double timeout_s=30.0):
        """Returns once every record at or below `offset` is on disk."""
        cdef int64_t deadline_ns = monotonic_ns() + <int64_t>(timeout_s * 1e9)
        cdef int code
        with nogil:
            failure_forget()
            code = committer_await(self.engine.committer.get(), self.log, offset, deadline_ns)
        if code != OK:
            raise error_of(code, self._not_durable(offset, timeout_s))

    cdef str _not_durable(self, int64_t offset, double timeout_s):
        return (f"{self.name}: offset {offset} is not durable after {timeout_s:g} s; durable up to "
                f"{self.durable_offset}, log end {self.log_end_offset}")

    def flush(self, double timeout_s=30.0):
        """Everything appended so far is durable when this returns."""
        cdef int64_t deadline_ns = monotonic_ns() + <int64_t>(timeout_s * 1e9)
        cdef int code
        with nogil:
            failure_forget()
            code = _flush(self.engine.committer.get(), self.log, deadline_ns)
        if code != OK:
            raise error_of(code,
                            f"{self.name}: cannot be flushed; durable up to {self.durable_offset}, "
                                  f"log end {self.log_end_offset}")

    def seal_times(self):
        """Before a clean stop: the active time index ends with the largest timestamp."""
        with nogil:
            log_seal_times(self.log.get())

    def ask_commit(self):
        """Asks for a commit without waiting for it."""
        with nogil:
            committer_ask(self.engine.committer.get(), self.log, 0)

    def roll(self):
        cdef int code
        with nogil:
            failure_forget()
            code = log_roll(self.log.get())
            if code == OK:
                committer_ask(self.engine.committer.get(), self.log, 0)
        self._raise(code, "cannot begin a new segment")

    def configure(self, settings):
        cdef LogSettings c_settings
        _fill_settings(&c_settings, settings)
        with nogil:
            self.log.get().guard.lock()
            self.log.get().settings = c_settings
            self.log.get().shows_appended.store(c_settings.shows_appended)
            self.log.get().is_compacted.store(c_settings.cleanup_compact)
            self.log.get().is_mirror.store(c_settings.is_mirror)
            self.log.get().guard.unlock()
            log_tell(self.log.get())

    def close(self):
        with nogil:
            log_close(self.log.get())
            log_tell(self.log.get())
            committer_forget(self.engine.committer.get())

    def directory_held(self):
        """While its directory is moved: see `DirectoryHold`."""
        cdef DirectoryHold hold = DirectoryHold()
        hold.directory = self.log.get().directory
        return hold

    def files_held(self):
        """How many of its files somebody reads or syncs just now."""
        cdef vector[SegmentRef] segments
        cdef size_t i
        cdef int held = 0
        with nogil:
            self.log.get().list_guard.lock()
            segments = self.log.get().segments
            self.log.get().list_guard.unlock()
            for i in range(segments.size()):
                segments[i].get().guard.lock()
                held += segments[i].get().file.use_count() > 1
                segments[i].get().guard.unlock()
        return held

    def settle(self):
        """After `close`: nothing that was begun before goes on when this returns."""
        with nogil:
            self.log.get().maintenance.lock()
            self.log.get().saved_guard.lock()
            self.log.get().saved_guard.unlock()
            self.log.get().maintenance.unlock()

    def settle_journal(self):
        """After `close`: nothing puts it into the journal any more when this returns. It waits for
        no compaction, which only meets a log that is closed."""
        with nogil:
            self.log.get().saved_guard.lock()
            self.log.get().saved_guard.unlock()

    # Reading

    def read(self, int64_t offset, int64_t max_bytes=1 << 20, str up_to="visible"):
        """Whole batches from the one that holds `offset`, at least that one; b"" at the limit."""
        cdef vector[uint8_t] data
        cdef int limit = _LIMITS[up_to]
        cdef int code
        with nogil:
            failure_forget()
            code = _read(self.log, offset, max_bytes, limit, &data)
        if code != OK:
            raise error_of(code, f"{self.name}: cannot read at offset {offset}; log start "
                                  f"{self.log_start_offset}, log end {self.log_end_offset}")
        return PyBytes_FromStringAndSize(<const char*>data.data(), data.size())

    def slice(self, int64_t offset, int64_t max_bytes=1 << 20, str up_to="visible"):
        """The same bytes as a range of a file, for sendfile; it may end within a batch."""
        cdef FileSlice result = FileSlice.__new__(FileSlice)
        cdef Slice slice
        cdef int limit = _LIMITS[up_to]
        cdef int code
        with nogil:
            failure_forget()
            code = log_read(self.log.get(), offset, max_bytes, limit, &slice)
        if code != OK:
            raise error_of(code, f"{self.name}: cannot read at offset {offset}; log start "
                                  f"{self.log_start_offset}, log end {self.log_end_offset}")
        result.file = slice.file
        result.position = slice.position
        result.size = slice.size
        return result

    def batch_for_timestamp(self, int64_t timestamp_ms, int64_t from_offset=0, str up_to="visible"):
        """The first batch that ends at or after `from_offset` and has a record at or after
        `timestamp_ms`; b"" when there is none."""
        cdef vector[uint8_t] data
        cdef Slice slice
        cdef int limit = _LIMITS[up_to]
        cdef int64_t got = 0
        with nogil:
            failure_forget()
            got = log_find_time(self.log.get(), timestamp_ms, from_offset, limit, &slice)
            if got == OK and slice.size > 0:
                data.resize(slice.size)
                got = read_whole(slice.file.get().fd, data.data(), slice.size, slice.position)
                if got < slice.size:
                    got = _fault_of(got)
                    log_note_fault(self.log.get(), slice.segment_base, slice.segment_base, <int>got)
        self._raise(<int>min(got, <int64_t>0), f"cannot search for timestamp {timestamp_ms}")
        return PyBytes_FromStringAndSize(<const char*>data.data(), data.size())

    def offset_for_timestamp(self, int64_t timestamp_ms, str up_to="visible"):
        """(offset, timestamp) of the first record at or after `timestamp_ms`, or None."""
        start = self.log_start_offset
        while True:
            data = self.batch_for_timestamp(timestamp_ms, start, up_to)
            if not data:
                return None
            batch = headers(data)[0]
            if batch.is_control:
                # Kafka's answer too: a consumer that starts at a marker skips it.
                return batch.base_offset, batch.max_timestamp
            for record in self._records(data, batch.base_offset):
                if record.timestamp >= timestamp_ms and record.offset >= start:
                    return record.offset, record.timestamp
            start = batch.last_offset + 1

    cdef _records(self, data, int64_t offset):
        try:
            return records(data)
        except ApplianceError:
            self.note_damaged(offset, data)
            raise

    def note_damaged(self, int64_t offset, const unsigned char[::1] batches not None):
        """For who cannot make sense of batches that were read there: where they are not what was
        written, health tells so, and the segment is verified. What `read` refuses is noted already.
        A client may have written records that nobody can read: then the disk is well."""
        with nogil:
            if batches.shape[0] == 0 or not _are_whole(&batches[0], batches.shape[0]):
                log_note_fault_at(self.log.get(), offset, BATCH_CORRUPT)

    def aborted_transactions(self, int64_t first_offset, int64_t end_offset):
        """(producer id, first offset, offset of the abort marker) of those that touch the range."""
        cdef vector[AbortedTxn] found
        cdef size_t i
        with nogil:
            log_aborted(self.log.get(), first_offset, end_offset, &found)
        return [(found[i].producer_id, found[i].first_offset, found[i].last_offset)
                for i in range(found.size())]

    def end_offset_for_epoch(self, int32_t epoch):
        cdef int32_t found
        cdef int64_t end_offset
        with nogil:
            log_end_for_epoch(self.log.get(), epoch, &found, &end_offset)
        return found, end_offset

    # Shortening

    def truncate(self, int64_t offset):
        cdef int code
        with nogil:
            failure_forget()
            code = log_truncate(self.log.get(), offset)
            committer_notify(self.engine.committer.get())
        self._raise(code,
                    f"cannot be truncated to offset {offset}; log start {self.log_start_offset}")

    def delete_before(self, int64_t offset):
        cdef int code
        with nogil:
            failure_forget()
            code = log_delete_before(self.log.get(), offset)
        self._raise(code,
                    f"cannot delete up to offset {offset}; high watermark {self.high_watermark}")

    def retain(self, object now_ms=None, int64_t keep_from=INT64_MAX):
        """Applies retention, but for segments with an offset from `keep_from` on; the count of
        segments deleted."""
        cdef int64_t now = _time_of(self.log.get(), now_ms)
        cdef bint rolled
        cdef int64_t deleted
        with nogil:
            failure_forget()
            deleted = log_retain(self.log.get(), now, keep_from, &rolled)
            if rolled:
                committer_ask(self.engine.committer.get(), self.log, 0)
        self._raise(<int>min(deleted, <int64_t>0), "retention cannot be applied")
        return deleted

    def kept_bytes(self, int64_t keep_from, object now_ms=None):
        """Bytes that `retain` would delete if it were not for `keep_from`."""
        cdef int64_t now = _time_of(self.log.get(), now_ms)
        cdef int64_t size
        with nogil:
            failure_forget()
            size = log_kept_bytes(self.log.get(), now, keep_from)
        self._raise(<int>min(size, <int64_t>0), "cannot tell what retention would delete")
        return size

    def compact(self, object now_ms=None, *, object latest_ms=None, int64_t keys_max=KEYS_MAX):
        """One round of compaction, if the log is due: whether there was one. What is young or old
        is so by `now_ms`; `latest_ms`, which may be later while the clock is in doubt, is what
        tombstones stay on from. `keys_max` bounds memory."""
        cdef int64_t now = _time_of(self.log.get(), now_ms)
        cdef int64_t latest = now if latest_ms is None else latest_ms
        with nogil:
            if cleanable_roll(self.log.get(), now):
                committer_ask(self.engine.committer.get(), self.log, 0)
        return bool(compact(self.log, now, latest, keys_max))

    def rest(self, int64_t idle_ms):
        """Lets go of the files of sealed segments that nobody read for `idle_ms`."""
        with nogil:
            log_rest(self.log.get(), monotonic_ns() - idle_ms * 1000000)

    # Looking

    @property
    def log_start_offset(self):
        return self.log.get().log_start_offset.load()

    @property
    def log_end_offset(self):
        return self.log.get().log_end_offset.load()

    @property
    def durable_offset(self):
        return self.log.get().durable_offset.load()

    @property
    def high_watermark(self):
        return log_high_watermark(self.log.get())

    @property
    def last_stable_offset(self):
        return log_last_stable_offset(self.log.get())

    @property
    def leader_epoch(self):
        return self.log.get().leader_epoch.load()

    @property
    def failed(self):
        """Why this log takes no more appends; None while it does."""
        cdef int64_t code = self.log.get().failed.load()
        return None if code == OK else type(from_code(code, "")).__name__

    @property
    def failed_text(self):
        """`failed`, with what the kernel said; "" while it takes appends."""
        cdef int64_t code = self.log.get().failed.load()
        if code == OK:
            return ""
        failure_note(b"", b"", <int>self.log.get().failed_errno.load())
        text = failure_text()
        failure_forget()
        return " ".join(filter(None, [self.failed, text]))

    @property
    def unflushed_age_ms(self):
        cdef int64_t oldest = self.log.get().oldest_unflushed_ns.load()
        return 0 if oldest == 0 else (monotonic_ns() - oldest) // 1000000

    @property
    def size(self):
        return sum(segment.size for segment in self.segments())

    def holes(self):
        """Ranges [first, end) that were set aside as damaged or are gone."""
        cdef vector[Hole] holes
        cdef size_t i
        with nogil:
            self.log.get().list_guard.lock()
            holes = self.log.get().holes
            self.log.get().list_guard.unlock()
        return [(holes[i].first_offset, holes[i].end_offset) for i in range(holes.size())]

    def segments(self):
        cdef vector[SegmentRef] segments
        cdef Segment* segment
        cdef size_t i
        with nogil:
            self.log.get().list_guard.lock()
            segments = self.log.get().segments
            self.log.get().list_guard.unlock()
        found = []
        for i in range(segments.size()):
            segment = segments[i].get()
            found.append(SegmentInfo(
                segment.base_offset, segment.end_offset.load(), segment.size.load(),
                segment.largest_timestamp.load() if segment.largest_is_known.load() else None,
                f"{self.engine.path}/{self.name}/{segment.base_offset:020d}.log",
            ))
        return found

    def producers(self):
        cdef unordered_map[int64_t, Producer] producers
        cdef Producer producer
        with nogil:
            self.log.get().guard.lock()
            producers = self.log.get().producers.producers
            self.log.get().guard.unlock()
        found = []
        for entry in producers:
            producer = entry.second
            found.append(ProducerInfo(
                entry.first, producer.epoch,
                producer.batches[producer.count - 1].last_sequence if producer.count else -1,
                producer.batches[producer.count - 1].last_offset if producer.count else -1,
                producer.txn_first_offset, producer.last_timestamp, producer.coordinator_epoch,
            ))
        return found

    cdef _raise(self, int code, str doing):
        if code != OK:
            raise error_of(code, f"{self.name}: {doing}")

    cdef _check_keys(self, const unsigned char[::1] batch, int origin):
        """What log_append does where it can: a compressed batch must be decompressed for it."""
        cdef BatchHeader header
        cdef int64_t most
        if origin == ORIGIN_COORDINATOR or not self.log.get().is_compacted.load():
            return
        if batch.shape[0] >= BATCH_HEADER_SIZE:
            batch_load_header(&batch[0], &header)
            if header.attributes & ATTRIBUTE_CODEC:
                with nogil:
                    self.log.get().guard.lock()
                    most = self.log.get().settings.max_message_bytes
                    self.log.get().guard.unlock()
                check(batch, keys_required=True, size_max=compression.RATIO_MAX * most)

    cdef str _refused(self, int code, const unsigned char[::1] batch):
        cdef BatchHeader header
        if code == STORAGE_FULL:  # nothing is wrong with the batch
            return f"{self.name}: {self.engine.full_in_words}"
        facts = f"{self.name}: batch of {batch.shape[0]} bytes"
        if batch.shape[0] >= BATCH_HEADER_SIZE:
            batch_load_header(&batch[0], &header)
            facts += (f" (length field {header.size - 12}, magic {header.magic}, "
                      f"{header.records_count} records, "
                      f"producer {header.producer_id} epoch {header.producer_epoch} "
                      f"sequence {header.base_sequence})")
        return f"{facts} refused at log end {self.log_end_offset}"


cdef int _fill_options(AppendOptions* options, PartitionLog* log, object leader_epoch, str origin,
                       object now_ms) except -1:
    options.origin = _ORIGINS[origin]
    options.leader_epoch = -1 if leader_epoch is None else leader_epoch
    options.is_awaited = False
    if now_ms is None:
        storage_now(log.storage.get(), &options.earliest_ms, &options.latest_ms)
    else:
        options.earliest_ms = options.latest_ms = now_ms
    return 0


cdef int64_t _time_of(PartitionLog* log, object now_ms) except? -1:
    """By which something is old."""
    return storage_earliest_ms(log.storage.get()) if now_ms is None else now_ms


def log_facts(list logs not None):
    """What is to be seen of each log. One call for many: whoever asks a thousand times lets go of
    the GIL, and waits for it, once."""
    cdef vector[LogRef] wanted
    cdef vector[Facts] found
    cdef int64_t now_ns = monotonic_ns()
    cdef size_t i
    for log in logs:
        wanted.push_back((<Log?>log).log)
    found.resize(wanted.size())
    with nogil:
        for i in range(wanted.size()):
            _look(wanted[i].get(), now_ns, &found[i])
    return [_log_facts(wanted[i].get(), &found[i]) for i in range(wanted.size())]


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

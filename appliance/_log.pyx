"""The Python face of storage: `Engine` is a data directory with its committer and logs, `Log` one
partition in it: opened, configured, shortened, closed. What a log can besides is in `storage/`:
`_log_description.pyx` (look), `_read_from_python.pyx` and `_append_from_python.pyx`.

Everything here is thin: arguments to C, one block without the GIL, result to Python.
"""

from collections import namedtuple
from libc.stdint cimport INT64_MAX, int32_t, int64_t
from libcpp.memory cimport make_shared
from libcpp.string cimport string
from libcpp.vector cimport vector

from appliance.native._codes cimport LOG_FAILED, OK
from appliance.native._descriptors cimport (
    DirectoryRef, FileRef, directory_hold, directory_rest,
)
from appliance.native._files cimport error_of, failure_forget
from appliance.native._histogram cimport TIME_BUCKETS
from appliance.native._native cimport monotonic_ns, mutex
from appliance.storage._checkpoint cimport log_hand_over, log_raise_epoch
from appliance.storage._checkpoint_journal cimport (
    Checkpoint, Journal, journal_knows, journal_put, journal_remove,
)
from appliance.storage._commit_requests cimport (
    SYNC_AUTO, SYNC_FILES, SYNC_FILESYSTEM, Committer, committer_ask, committer_checkpoint,
    committer_forget, committer_notify,
)
from appliance.storage._commit_sync cimport sync_is_for_file_system
from appliance.storage._group_commit cimport committer_start, committer_stop
from appliance.storage._idle_file_closing cimport relief_watch
from appliance.storage._log_commit cimport log_tell
from appliance.storage._log_settings cimport settings_apply, settings_fill
from appliance.storage._open_logs cimport open_logs_add
from appliance.storage._partition_log cimport (
    LogSettings, PartitionLog, log_rest, log_roll, log_seal_times,
)
from appliance.storage._recovery cimport log_close, log_open
from appliance.storage._retention cimport log_delete_before, log_kept_bytes, log_retain
from appliance.storage._salvage cimport Recovered as CRecovered
from appliance.storage._storage cimport (
    Storage, storage_close, storage_commit, storage_earliest_ms, storage_start,
)
from appliance.storage._truncation cimport CUT_ALONE, log_truncate
from appliance.storage._watermark_file cimport watermarks_take_back
from appliance.storage.compaction._cleanable cimport cleanable_roll
from appliance.storage.compaction._cleaner cimport compact
from appliance.storage.compaction._offset_map cimport KEYS_MAX

Recovered = namedtuple(
    "Recovered",
    "scanned_bytes cut_bytes cut_records cut_offset aside_bytes was_known is_noted "
    "promised_offset losses txn_indexes",
)
RecoveredLoss = namedtuple("RecoveredLoss", "first_offset end_offset cause aside")

# In the order of `Cause`.
_CAUSES = ("a segment is missing", "a file is shorter than it was", "a batch is damaged",
           "a batch is damaged, and may have been acknowledged",
           "the transaction index was damaged, and aborted records may be shown")
_SYNC_BY = {"auto": SYNC_AUTO, "files": SYNC_FILES, "filesystem": SYNC_FILESYSTEM}


# ---- without the GIL ----

cdef int _forget(Storage* storage, const vector[string]* names, bint is_started) noexcept nogil:
    cdef int code = watermarks_take_back(&storage.marks, names, -1)
    cdef size_t i
    if code != OK:
        return code
    for i in range(names.size()):
        journal_remove(&storage.journal, names.at(i))
    return storage_commit(storage) if is_started else OK


cdef void _pass(mutex& guard) noexcept nogil:
    """Whoever held it when this began holds it no more."""
    guard.lock()
    guard.unlock()


# ---- with the GIL ----

cdef class Engine(DataDirectory):
    """A data directory: its lock, its journal, its committer."""

    def __cinit__(self, str path not None, *, int64_t checkpoint_interval_ms=1000,
                  int64_t reserve_bytes=0, int64_t low_water_bytes=0, str sync="auto",
                  int sync_threads=4, int64_t write_behind_bytes=4 << 20,
                  int64_t poll_interval_ms=200):
        self._open(path, reserve_bytes, low_water_bytes, write_behind_bytes)
        self.committer = make_shared[Committer]()
        self.committer.get().storage = self.storage
        self.committer.get().sync_by = _SYNC_BY[sync]
        self.committer.get().threads_count = sync_threads
        self.committer.get().checkpoint_interval_ns = checkpoint_interval_ms * 1000000
        self.committer.get().poll_interval_ns = poll_interval_ms * 1000000

    def __dealloc__(self):
        # Also of one that could not be opened, or that nobody started.
        if self.is_closed or self.storage.get() == NULL:
            return
        if self.is_started:
            committer_stop(self.committer.get())
        storage_close(self.storage.get(), False)

    def start(self):
        """After every log found was opened: a fresh journal generation, the committer's threads."""
        cdef int code
        with nogil:
            failure_forget()
            code = storage_start(self.storage.get())
            if code == OK:
                code = committer_start(self.committer.get())
        self._raise(code, "the checkpoint journal cannot be written")
        self.is_started = True

    def open_log(self, str name not None, settings, *, bint is_again=False, bint is_moved=False):
        """The log in directory `name`, which must exist, and what recovery met there. `is_again`:
        it could not be opened before, or failed, so that nothing of it is trusted. `is_moved`: as
        `take_over` says."""
        cdef Log log = Log.__new__(Log)
        cdef LogSettings c_settings
        cdef string c_name = name.encode()
        cdef CRecovered recovered
        cdef Journal* journal = &self.storage.get().journal
        cdef bint is_trusted, is_started = self.is_started
        cdef int code
        settings_fill(&c_settings, settings)
        log.engine = self
        log.committer = self.committer
        log.name = name
        log.directory = f"{self.path}/{name}"
        log.topic, _, partition = name.rpartition("-")
        log.partition = int(partition)
        with nogil:
            failure_forget()
            # Once started, only a new log's directory is known to be as this process left it.
            is_trusted = not journal_knows(journal, c_name) if is_started else journal.was_clean
            code = log_open(self.storage, c_name, &c_settings, is_trusted, is_moved, &log.log,
                            &recovered)
            if code == OK:
                log.log.get().committer = self.committer.get()
                open_logs_add(&self.committer.get().open_logs, log.log)
        if code != OK:
            raise error_of(code, f"{name}: the log cannot be opened")
        relief_watch(self.committer, log.log)
        return log, _recovered(&recovered)

    def take_over(self, Log log not None):
        """The journal knows, durably, a log of another directory as that one does, which has
        closed it: its files are copied to here, and it is to be opened with `is_moved`."""
        cdef string c_name = log.name.encode()
        cdef Checkpoint checkpoint
        cdef int code
        with nogil:
            failure_forget()
            log_hand_over(log.log.get(), &checkpoint)
            code = LOG_FAILED if checkpoint.swap_base >= 0 else OK
        # Then a segment of it is in a file without its name, of which a copy knows nothing. It is
        # finished where the log is opened again.
        if code != OK:
            raise error_of(code, f"{log.name}: a compaction of it is not finished")
        with nogil:
            journal_put(&self.storage.get().journal, c_name, &checkpoint)
            code = storage_commit(self.storage.get())
        self._raise(code, "the checkpoint journal cannot be written")

    def syncs_together(self, size_t files):
        """Whether so many are made durable by one sync of the file system: as in a commit."""
        return bool(sync_is_for_file_system(self.committer.get(), files))

    def forget_names(self, list names not None):
        """Takes logs that are closed, or never were open, out of the journal, durably."""
        if not names:
            return
        cdef vector[string] gone = [name.encode() for name in names]
        cdef bint is_started = self.is_started
        cdef int code
        with nogil:
            failure_forget()
            code = _forget(self.storage.get(), &gone, is_started)
        if code != OK:
            raise error_of(code, f"{names[0]} and {len(names) - 1} more: their deletion cannot be "
                                  "written to the journal")

    def checkpoint(self):
        """Recovery points of every log that changed are in the journal when this returns."""
        cdef int code
        with nogil:
            failure_forget()
            code = committer_checkpoint(self.committer.get())
        self._raise(code, "the checkpoint journal cannot be written")

    @property
    def journal_failed(self):
        return self.committer.get().journal_failed.load()

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

    def commit_times(self):
        """How many commits took how long, by `TIME_BOUNDS_NS`, and their sum in nanoseconds."""
        cdef Committer* committer = self.committer.get()
        cdef int i
        counts = [committer.commit_times.counts[i].load() for i in range(TIME_BUCKETS)]
        return counts, committer.commit_times.sum_ns.load()

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
            code = storage_close(self.storage.get(), cleanly and self.is_started)
        self._raise(code, "the clean stop cannot be written to the journal")


cdef _recovered(const CRecovered* found):
    cdef size_t i
    losses = [
        RecoveredLoss(found.losses[i].first_offset, found.losses[i].end_offset,
                      _CAUSES[found.losses[i].cause], found.losses[i].aside.decode())
        for i in range(found.losses.size())
    ]
    return Recovered(found.scanned_bytes, found.cut_bytes, found.cut_records, found.cut_offset,
                     found.aside_bytes, bool(found.was_known), bool(found.is_noted),
                     found.promised_offset, losses, found.txn_indexes)


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


cdef class Log(LogReplica):
    """One partition's log."""

    # Its life

    def configure(self, settings):
        cdef LogSettings c_settings
        cdef int64_t due_ns
        settings_fill(&c_settings, settings)
        with nogil:
            due_ns = settings_apply(self.log.get(), &c_settings)
            if due_ns != INT64_MAX:
                committer_ask(self.committer.get(), self.log, due_ns)
            log_tell(self.log.get())

    def end_at_durable(self):
        """Of one that failed, before it is closed to be opened again: what was not durable does not
        return. Whoever waits for it is told."""
        with nogil:
            log_tell(self.log.get())

    def close(self):
        with nogil:
            log_close(self.log.get())
            log_tell(self.log.get())
            committer_forget(self.committer.get())

    def directory_held(self):
        """While its directory is moved: see `DirectoryHold`."""
        cdef DirectoryHold hold = DirectoryHold()
        hold.directory = self.log.get().directory
        return hold

    def settle(self):
        """After `close`: nothing that was begun before goes on when this returns."""
        with nogil:
            _pass(self.log.get().maintenance)
            _pass(self.log.get().saved_guard)

    def settle_journal(self):
        """After `close`: nothing puts it into the journal any more when this returns. It waits for
        no compaction, which only meets a log that is closed."""
        with nogil:
            _pass(self.log.get().saved_guard)

    def raise_leader_epoch(self, int32_t epoch):
        """To that, if it is lower: of a restored log, whose last epochs are in no batch. With the
        journal's next commit it is on disk."""
        with nogil:
            log_raise_epoch(self.log.get(), epoch)

    # Its files

    def seal_times(self):
        """Before a clean stop: the active time index ends with the largest timestamp."""
        with nogil:
            log_seal_times(self.log.get())

    def roll(self):
        cdef int code
        with nogil:
            failure_forget()
            code = log_roll(self.log.get())
            if code == OK:
                committer_ask(self.committer.get(), self.log, 0)
        self._raise(code, "cannot begin a new segment")

    def rest(self, int64_t idle_ms):
        """Lets go of the files of sealed segments that nobody read for `idle_ms`."""
        with nogil:
            log_rest(self.log.get(), monotonic_ns() - idle_ms * 1000000)

    # Shortening

    def truncate(self, int64_t offset):
        """Of a log that is alone; one of several replicas is cut by its leader's word: `cut`."""
        cdef int code
        with nogil:
            failure_forget()
            code = log_truncate(self.log.get(), offset, CUT_ALONE)
            committer_notify(self.committer.get())
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
                committer_ask(self.committer.get(), self.log, 0)
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
                committer_ask(self.committer.get(), self.log, 0)
        return bool(compact(self.log, now, latest, keys_max))


cdef int64_t _time_of(PartitionLog* log, object now_ms) except? -1:
    """By which something is old."""
    return storage_earliest_ms(log.storage.get()) if now_ms is None else now_ms

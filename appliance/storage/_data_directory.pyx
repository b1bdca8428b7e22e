"""A data directory from Python: the state that the last life left, its free space, failed reads.
`Engine` (`appliance/_log.pyx`) is one with a committer and logs.
"""

from collections import namedtuple
from libc.stdint cimport int64_t
from libcpp.memory cimport make_shared
from libcpp.string cimport string
from libcpp.vector cimport vector

from appliance.native._codes cimport LOG_CLOSED, OK, STORAGE_IO
from appliance.native._files cimport (
    error_of, failure_errno, failure_forget, failure_note, failure_text, sync_code, sync_directory,
)
from appliance.native._native cimport EINTR, EROFS, errno, monotonic_ns, mutant, syncfs
from appliance.native._socket cimport EFD_CLOEXEC, EFD_NONBLOCK, eventfd
from appliance.storage._checkpoint_journal cimport Checkpoint, Journal, journal_find
from appliance.storage._free_space cimport space_poll, space_release_reserve
from appliance.storage._read_faults cimport ReadFault, read_faults_take, read_faults_wake
from appliance.storage._storage cimport (
    Storage, storage_commit, storage_open, storage_takes_writes,
)
from appliance.storage._watermark_file cimport Watermarks, watermarks_find

from appliance.errors import from_code
from appliance.process.spoken import read_only

ReadFaultInfo = namedtuple(
    "ReadFaultInfo", "topic partition base_offset offset why times age_s"
)


# ---- without the GIL ----

cdef bint _is_behind(const Journal* journal, const Watermarks* marks) noexcept nogil:
    if not marks.was_found:
        return False
    if journal.durable_generation != marks.found_generation:
        return journal.durable_generation < marks.found_generation
    return journal.durable_records < marks.found_records


cdef int _sync_file_system(int fd) noexcept nogil:
    while syncfs(fd) < 0:
        if errno != EINTR:
            return sync_code(failure_note(b"sync of the file system", b"", errno))
    return OK


cdef int _believed(Storage* storage, int code) noexcept nogil:
    # As after a commit. Where a partition is stands in a catalog on another disk.
    if (code == OK and not storage_takes_writes(storage)
            and not mutant(b"directory_without_question")):
        failure_note(b"sync of the directory", b"", EROFS)
        return STORAGE_IO
    return code


# ---- with the GIL ----

cdef class DataDirectory:
    cdef _open(self, str path, int64_t reserve_bytes, int64_t low_water_bytes,
               int64_t write_behind_bytes):
        cdef bytes raw = path.encode()
        cdef const char* c_path = raw
        cdef int code
        self.path = path
        self.storage = make_shared[Storage]()
        self.storage.get().reserve_bytes = reserve_bytes
        self.storage.get().low_water_bytes = low_water_bytes
        self.storage.get().write_behind_bytes = write_behind_bytes
        with nogil:
            failure_forget()
            code = storage_open(self.storage.get(), c_path)
        if code == LOG_CLOSED:
            raise error_of(code, f"{path} is in use by another broker: its file `lock` is held")
        if code != OK and failure_errno() == EROFS:
            raise error_of(code, read_only(path))
        if code != OK:
            raise error_of(code, f"{path} cannot be opened as a data directory")

    cdef _raise(self, int code, str doing):
        if code != OK:
            raise error_of(code, f"{self.path}: {doing}")

    # What the last life left

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
        return bool(_is_behind(&self.storage.get().journal, &self.storage.get().marks))

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

    # The disk

    def commit_journal(self):
        """Makes what was put into the journal durable: after a log was created."""
        cdef int code
        with nogil:
            failure_forget()
            code = storage_commit(self.storage.get())
        self._raise(code, "the checkpoint journal cannot be written")

    def sync_directory(self):
        """Makes the names in the data directory durable."""
        cdef int code
        with nogil:
            failure_forget()
            code = OK
            if not mutant(b"partition_without_parent_sync"):
                code = sync_directory(self.storage.get().directory.get().fd)
            code = _believed(self.storage.get(), code)
        self._raise(code, "the directory cannot be synced")

    def sync_file_system(self, int fd):
        """Makes durable what was written to the file system, names too. `fd`: a descriptor of it
        that is older. Each is told an error once, so the committer's is left alone."""
        cdef int code
        with nogil:
            failure_forget()
            code = OK
            if not mutant(b"partitions_without_sync"):
                code = _sync_file_system(fd)
            code = _believed(self.storage.get(), code)
        self._raise(code, "the file system cannot be synced")

    @property
    def is_full(self):
        return self.storage.get().is_full.load()

    @property
    def free_bytes(self):
        return self.storage.get().free_bytes.load()

    def poll(self):
        """Checks the free space now instead of at the next poll."""
        with nogil:
            space_poll(self.storage.get())

    def release_reserve(self):
        """Releases the reserve. Returns whether there was one."""
        cdef bint was_held
        with nogil:
            was_held = space_release_reserve(self.storage.get())
        return was_held

    def believe(self, int64_t wall_ms):
        """What time it is now by whom the machine's clock is measured against: see storage_now."""
        self.storage.get().believed_ahead_ms.store(wall_ms - monotonic_ns() // 1000000)

    # Reads that failed

    def wake_at_read_faults(self):
        """A descriptor that is readable when `take_read_faults` has something; the directory's."""
        cdef int fd = self.storage.get().faults.wake_fd
        if fd < 0:
            fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)
            if fd < 0:
                raise OSError(errno, "there is no descriptor for hearing of read errors")
            read_faults_wake(&self.storage.get().faults, fd)
        return fd

    def take_read_faults(self):
        """Reads of stored records that failed or were refused since the last call, by segment."""
        cdef vector[ReadFault] faults
        cdef int64_t now_ns = monotonic_ns()
        cdef size_t i
        with nogil:
            read_faults_take(&self.storage.get().faults, &faults)
        return [_read_fault(&faults[i], now_ns) for i in range(faults.size())]

    @property
    def read_faults(self):
        """How many there were in this life; how many of them have no place among those taken."""
        return (self.storage.get().faults.count.load(), self.storage.get().faults.unnamed.load())


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

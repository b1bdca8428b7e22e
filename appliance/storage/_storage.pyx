"""The data directory as a whole: its lock, free space, and the reserve.

A full disk stops clients' writes before the kernel does: below `low_water_bytes` appends get a
retriable error, while fetches, deletes, retention and the coordinator's own records go on. The
reserve is a file with allocated space: it is released when even the journal cannot grow, and taken
back when there is space again.
"""

from libc.stdint cimport int64_t

from appliance.native._codes cimport LOG_CLOSED, OK, STORAGE_FULL
from appliance.native._descriptors cimport file_own
from appliance.native._files cimport open_file, sync_directory
from appliance.native._native cimport (
    EINTR, O_CREAT, O_DIRECTORY, O_RDONLY, O_RDWR, c_stat, close, errno, fallocate, fstat, unlinkat,
)
from appliance.storage._checkpoint_journal cimport (
    Journal, journal_close, journal_commit, journal_open, journal_reached, journal_start,
)
from appliance.storage._read_faults cimport read_faults_wake
from appliance.storage._watermark_file cimport (
    Watermarks, watermarks_close, watermarks_note_journal, watermarks_open, watermarks_start,
)

cdef extern from "sys/file.h" nogil:
    int flock(int fd, int operation)
    enum:
        LOCK_EX, LOCK_NB

cdef extern from "sys/statvfs.h" nogil:
    struct c_statvfs "statvfs":
        unsigned long f_frsize
        unsigned long f_bavail
        unsigned long f_flag
    int fstatvfs(int fd, c_statvfs* status)
    enum:
        ST_RDONLY


# ---- without the GIL ----

cdef int storage_open(Storage* storage, const char* path) noexcept nogil:
    cdef int code, fd = open_file(-100, path, O_RDONLY | O_DIRECTORY)
    if fd < 0:
        return fd
    storage.directory = file_own(fd)
    storage.lock_fd = open_file(fd, b"lock", O_RDWR | O_CREAT)
    if storage.lock_fd < 0:
        return storage.lock_fd
    if flock(storage.lock_fd, LOCK_EX | LOCK_NB) < 0:
        return LOG_CLOSED
    code = journal_open(&storage.journal, fd)
    return code if code != OK else watermarks_open(&storage.marks, fd)


cdef int storage_start(Storage* storage) noexcept nogil:
    cdef Journal* journal = &storage.journal
    cdef Watermarks* marks = &storage.marks
    cdef int code
    # A journal that lost its newest generation must not use that number for another one.
    journal.generation = max(journal.generation, marks.found_generation)
    code = journal_start(journal)
    if code != OK and storage_release_reserve(storage):
        code = journal_start(journal)
    if code != OK:
        return code
    if (watermarks_start(marks, journal.durable_generation, journal.durable_records) != OK
            and storage_release_reserve(storage)):
        watermarks_start(marks, journal.durable_generation, journal.durable_records)
    storage_poll(storage)
    return OK


cdef int storage_close(Storage* storage, bint cleanly) noexcept nogil:
    cdef int code = journal_close(&storage.journal, cleanly)
    cdef int wake_fd
    watermarks_close(&storage.marks)
    wake_fd = storage.faults.wake_fd
    read_faults_wake(&storage.faults, -1)
    if wake_fd >= 0:
        close(wake_fd)
    if storage.lock_fd > 0:
        close(storage.lock_fd)
    storage.lock_fd = -1
    return code


cdef void storage_poll(Storage* storage) noexcept nogil:
    cdef c_statvfs status
    cdef int64_t free_bytes
    if fstatvfs(storage.directory.get().fd, &status) < 0:
        return  # a directory that cannot be looked at fails its writes by itself
    free_bytes = <int64_t>status.f_bavail * <int64_t>status.f_frsize
    storage.free_bytes.store(free_bytes)
    if (not storage.reserve_is_held.load()
            and free_bytes >= storage.reserve_bytes + storage.low_water_bytes):
        _take_reserve(storage)
    if free_bytes < storage.low_water_bytes:
        storage.is_full.store(True)
    elif free_bytes >= storage_resume_bytes(storage):
        storage.is_full.store(False)


cdef bint storage_takes_writes(Storage* storage) noexcept nogil:
    cdef c_statvfs status
    while fstatvfs(storage.directory.get().fd, &status) < 0:
        if errno != EINTR:
            return False
    return not status.f_flag & ST_RDONLY


cdef void storage_mark_full(Storage* storage) noexcept nogil:
    storage.is_full.store(True)


cdef void _take_reserve(Storage* storage) noexcept nogil:
    cdef c_stat status
    cdef int fd = open_file(storage.directory.get().fd, b"reserve", O_RDWR | O_CREAT)
    if fd < 0:
        return  # no room for it yet: the next poll tries again
    if fstat(fd, &status) == 0 and status.st_blocks * 512 >= storage.reserve_bytes:
        storage.reserve_is_held.store(True)
    elif fallocate(fd, 0, 0, storage.reserve_bytes) == 0:
        storage.reserve_is_held.store(True)
    close(fd)


cdef bint storage_release_reserve(Storage* storage) noexcept nogil:
    cdef int directory_fd = storage.directory.get().fd
    storage.reserve_is_held.store(False)
    if unlinkat(directory_fd, b"reserve", 0) < 0:
        return False
    # Freed blocks can be used again only after the journal of the file system has the unlink.
    return sync_directory(directory_fd) == OK


cdef int storage_commit(Storage* storage) noexcept nogil:
    cdef int64_t generation, records
    cdef int code = journal_commit(&storage.journal)
    if code == STORAGE_FULL and storage_release_reserve(storage):
        code = journal_commit(&storage.journal)
    if code == OK:
        journal_reached(&storage.journal, &generation, &records)
        watermarks_note_journal(&storage.marks, generation, records)
    return code

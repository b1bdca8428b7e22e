"""The data directory as a whole: its lock, and the order in which its own files open and close."""

from libc.stdint cimport int64_t

from appliance.native._codes cimport (
    LOG_CLOSED, OK, STORAGE_FULL, STORAGE_FULL_LATE, STORAGE_IO,
)
from appliance.native._descriptors cimport file_own
from appliance.native._files cimport failure_note, open_file
from appliance.native._native cimport (
    EINTR, EROFS, O_CLOEXEC, O_CREAT, O_DIRECTORY, O_RDONLY, O_RDWR, close, errno, mutant, pread,
    pwrite,
)
from appliance.storage._checkpoint_journal cimport (
    Journal, journal_close, journal_commit, journal_fail, journal_open, journal_reached,
    journal_start,
)
from appliance.storage._free_space cimport space_poll, space_release_reserve
from appliance.storage._read_faults cimport read_faults_wake
from appliance.storage._watermark_file cimport (
    Watermarks, watermarks_close, watermarks_note_journal, watermarks_open, watermarks_start,
)

cdef extern from "sys/file.h" nogil:
    int flock(int fd, int operation)
    enum:
        LOCK_EX, LOCK_NB

cdef extern from "unistd.h" nogil:
    int dup3(int fd, int other, int flags)

cdef extern from "sys/statvfs.h" nogil:
    struct c_statvfs "statvfs":
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
    if code in (STORAGE_FULL, STORAGE_FULL_LATE) and space_release_reserve(storage):
        code = journal_start(journal)
    if code != OK:
        return code
    code = watermarks_start(marks, journal.durable_generation, journal.durable_records)
    if code in (STORAGE_FULL, STORAGE_FULL_LATE) and space_release_reserve(storage):
        watermarks_start(marks, journal.durable_generation, journal.durable_records)
    space_poll(storage)
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
    _let_go(storage)
    return code


cdef void _let_go(Storage* storage) noexcept nogil:
    """Who is silent for hours may keep a closed log, and with it the directory's descriptor: that
    is nothing's from now on, and the file system can be unmounted."""
    cdef int fd = open_file(-100, b"/dev/null", O_RDONLY)
    if fd < 0:
        return
    if storage.directory.get() != NULL:
        dup3(fd, storage.directory.get().fd, O_CLOEXEC)
    close(fd)


cdef bint storage_takes_writes(Storage* storage) noexcept nogil:
    cdef c_statvfs status
    cdef char nothing
    while fstatvfs(storage.directory.get().fd, &status) < 0:
        if errno != EINTR:
            return False
    if status.f_flag & ST_RDONLY and not mutant(b"question_without_flags"):
        return False
    # A device that vanished shuts ext4 and XFS down, and since Linux 6.14 ext4 has a state of its
    # own after an error: neither is read-only. Who syncs in that moment may be told of success,
    # since the transaction it waits for is neither running nor committing any more; but the state
    # was set before. Nothing is read or written here.
    while pread(storage.lock_fd, &nothing, 1, 0) < 0 and not mutant(b"question_without_read"):
        if errno != EINTR:
            return False
    while pwrite(storage.lock_fd, &nothing, 0, 0) < 0 and not mutant(b"question_without_write"):
        if errno != EINTR:
            return False
    return True


cdef int storage_commit(Storage* storage) noexcept nogil:
    cdef int64_t generation, records
    cdef int code = journal_commit(&storage.journal)
    if code == STORAGE_FULL and space_release_reserve(storage):
        code = journal_commit(&storage.journal)
    if (code == OK and not storage_takes_writes(storage)
            and not mutant(b"journal_without_question")):
        failure_note(b"sync of the journal", b"", EROFS)
        journal_fail(&storage.journal, STORAGE_IO)
        return STORAGE_IO
    if code == OK:
        journal_reached(&storage.journal, &generation, &records)
        watermarks_note_journal(&storage.marks, generation, records)
    return code

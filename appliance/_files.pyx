"""Whole reads and writes: short counts, EINTR and errno are dealt with here and nowhere else."""

from libc.stdint cimport int64_t, uint8_t
from libcpp.vector cimport vector

from appliance._codes cimport FILES_EXHAUSTED, OK, STORAGE_FULL, STORAGE_IO
from appliance._native cimport (
    EDQUOT, EINTR, EMFILE, ENFILE, ENOSPC, EIO, O_CLOEXEC, O_NOFOLLOW, O_NONBLOCK, O_RDONLY,
    S_ISREG,
    c_stat, close, errno, fdatasync, fstat, fsync, mutant, openat, pread, pwrite, snprintf,
)


# ---- without the GIL ----

cdef int storage_code(int error) noexcept nogil:
    if error == ENOSPC or error == EDQUOT:
        return STORAGE_FULL
    if error == EMFILE or error == ENFILE:
        return FILES_EXHAUSTED
    return STORAGE_IO


cdef void file_name(char* name, int64_t base_offset, const char* suffix) noexcept nogil:
    snprintf(name, NAME_SIZE, b"%020lld%s", <long long>base_offset, suffix)


cdef int write_whole(int fd, const uint8_t* data, int64_t size, int64_t position) noexcept nogil:
    cdef ssize_t written
    cdef int64_t done = 0
    while done < size:
        written = pwrite(fd, data + done, size - done, position + done)
        if written < 0:
            if errno == EINTR:
                continue
            return storage_code(errno)
        done += written
    return OK


cdef int64_t read_whole(int fd, uint8_t* data, int64_t size, int64_t position) noexcept nogil:
    cdef ssize_t got
    cdef int64_t done = 0
    while done < size:
        got = pread(fd, data + done, size - done, position + done)
        if got < 0:
            if errno == EINTR:
                continue
            return storage_code(errno)
        if got == 0:
            break
        done += got
    return done


cdef int open_file(int directory_fd, const char* name, int flags) noexcept nogil:
    cdef int fd
    while True:
        fd = openat(directory_fd, name, flags | O_CLOEXEC | O_NOFOLLOW, 0o644)
        if fd >= 0:
            return fd
        if errno != EINTR:
            return storage_code(errno)


cdef int64_t load_file(int directory_fd, const char* name, vector[uint8_t]* into) noexcept nogil:
    # Not waiting for the other end of a pipe that has the name of a file of ours.
    cdef int fd = openat(directory_fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW)
    cdef c_stat status
    cdef int64_t size
    into.clear()
    if fd < 0:
        return storage_code(errno) if errno == EMFILE or errno == ENFILE or errno == EIO else 0
    if fstat(fd, &status) < 0 or not S_ISREG(status.st_mode):
        close(fd)
        return 0
    size = status.st_size
    if size >= 0:
        into.resize(size)
        size = read_whole(fd, into.data(), size, 0)
        into.resize(size if size > 0 else 0)
    close(fd)
    return size


cdef int sync_directory(int directory_fd) noexcept nogil:
    while fsync(directory_fd) < 0:
        if errno != EINTR:
            return STORAGE_IO
    return OK


cdef int sync_file(int fd) noexcept nogil:
    # EINTR is not a verdict of the disk; every other failure is final and must not be tried again:
    # the kernel marks the lost pages clean, so that a second call would succeed over a hole.
    while fdatasync(fd) < 0:
        if errno != EINTR:
            if mutant(b"second_sync_after_failure"):
                return OK if fdatasync(fd) == 0 else STORAGE_IO
            # Also ENOSPC: what was to find its place only now has none, and is lost.
            return STORAGE_IO
    return OK


cdef int64_t file_size(int fd) noexcept nogil:
    cdef c_stat status
    if fstat(fd, &status) < 0:
        return storage_code(errno)
    return status.st_size


# ---- with the GIL ----

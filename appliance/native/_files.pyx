"""Whole reads and writes: short counts, EINTR and errno are dealt with here and nowhere else.

A code of `_codes.pxd` says what kind of failure it was, and passes through many hands. What the
kernel said exactly, about which file, is noted beside it, for the thread that met it: whoever makes
an exception of the code on the same thread adds it (`error_of`).
"""

import os
from errno import errorcode as errno_names

from libc.stdint cimport int64_t, uint8_t
from libcpp.vector cimport vector

from appliance.native._codes cimport (
    FILES_EXHAUSTED, OK, STORAGE_FULL, STORAGE_FULL_LATE, STORAGE_IO, WOULD_WAIT,
)
from appliance.native._native cimport (
    EAGAIN, EDQUOT, EINTR, EMFILE, ENFILE, ENOSPC, EIO, EOPNOTSUPP, O_CLOEXEC, O_NOFOLLOW,
    O_NONBLOCK, O_RDONLY, POSIX_FADV_DONTNEED, POSIX_FADV_WILLNEED, S_ISREG,
    c_stat, close, errno, fdatasync, fstat, fsync, mutant, openat, posix_fadvise, pread, pwrite,
    set_errno, snprintf,
)
from appliance.native._socket cimport RWF_NOWAIT, iovec, preadv2

from appliance.errors import from_code


cdef extern from "errno.h" nogil:
    int EBADMSG, EUCLEAN, EREMOTEIO, ENODATA, EILSEQ

cdef extern from "_page_cache.h" nogil:
    int has_pages(int fd, int64_t position, int64_t size)

cdef extern from * nogil:
    """
    struct noted_failure { int error; char doing[32]; char name[64]; };
    static thread_local noted_failure last_failure;
    static thread_local bool must_not_wait;
    """
    struct NotedFailure "noted_failure":
        int error
        char* doing
        char* name
    NotedFailure last_failure
    bint must_not_wait

cdef enum:
    COPY_SIZE = 1048576
    SAMPLE_BYTES = 131072          # Linux reads ahead, and takes memory back, by about as much


# ---- without the GIL ----

cdef int failure_note(const char* doing, const char* name, int error) noexcept nogil:
    last_failure.error = error
    snprintf(last_failure.doing, DOING_SIZE, b"%s", doing)
    snprintf(last_failure.name, NAME_SIZE, b"%s", name)
    return _code(error)


cdef void failure_forget() noexcept nogil:
    last_failure.error = 0


cdef int failure_errno() noexcept nogil:
    return last_failure.error


cdef void failure_keep(Failure* into) noexcept nogil:
    into.error = last_failure.error
    snprintf(into.doing, DOING_SIZE, b"%s", last_failure.doing)
    snprintf(into.name, NAME_SIZE, b"%s", last_failure.name)


cdef void failure_recall(const Failure* kept) noexcept nogil:
    failure_note(kept.doing, kept.name, kept.error)


cdef int storage_code(int error) noexcept nogil:
    return failure_note(b"", b"", error)


cdef int _code(int error) noexcept nogil:
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
            return failure_note(b"write", b"", errno)
        done += written
    return OK


cdef int64_t read_whole(int fd, uint8_t* data, int64_t size, int64_t position) noexcept nogil:
    cdef ssize_t got
    cdef int64_t done = 0
    while done < size:
        got = _read(fd, data + done, size - done, position + done)
        if got < 0:
            if errno == EINTR:
                continue
            if errno == EAGAIN and must_not_wait:
                return WOULD_WAIT
            return failure_note(b"read", b"", errno)
        if got == 0:
            break
        done += got
    return done


cdef ssize_t _read(int fd, uint8_t* data, int64_t size, int64_t position) noexcept nogil:
    cdef ssize_t got
    cdef iovec part
    if must_not_wait:
        part.iov_base = data
        part.iov_len = size
        got = preadv2(fd, &part, 1, position, RWF_NOWAIT)
        if got >= 0 or errno != EOPNOTSUPP:
            return got
    return pread(fd, data, size, position)


cdef int copy_whole(int source, int target, int64_t position, int64_t end,
                    int short_code) noexcept nogil:
    cdef vector[uint8_t] data
    cdef int64_t done = 0, got
    cdef int code
    data.resize(COPY_SIZE)
    while position + done < end:
        got = read_whole(source, data.data(), min(<int64_t>COPY_SIZE, end - position - done),
                         position + done)
        if got == 0 and short_code == OK:
            break
        if got <= 0:
            return <int>got if got < 0 else short_code
        code = write_whole(target, data.data(), got, done)
        if code != OK:
            return code
        done += got
    return sync_file(target)


cdef bint is_media_error(int error) noexcept nogil:
    return error in (EIO, EBADMSG, EUCLEAN, EREMOTEIO, ENODATA, EILSEQ)


cdef void disk_may_wait(bint may) noexcept nogil:
    global must_not_wait
    must_not_wait = not may


cdef bint disk_must_not_wait() noexcept nogil:
    return must_not_wait


cdef bint is_cached(int fd, int64_t position, int64_t size) noexcept nogil:
    """The last byte is read, for pages that are being read are not there yet; they come in order.
    Where the kernel does not count, a byte of each stretch stands for it: a page that is missing
    between them costs a short wait."""
    cdef int64_t at = position + SAMPLE_BYTES, last = position + size - 1
    cdef int has_all
    if not _has_byte(fd, last):
        return False
    if size == 1:
        return True  # also behind the end of the file, where there is nothing to wait for
    has_all = has_pages(fd, position, size)
    if has_all >= 0:
        return has_all
    while at < last:
        if not _has_byte(fd, at):
            return False
        at += SAMPLE_BYTES
    return True


cdef void fill_cache(int fd, int64_t position, int64_t size, int64_t ahead) noexcept nogil:
    """Asks for all of it, then waits at the samples: nothing is copied."""
    cdef uint8_t byte
    cdef int64_t at = position
    while at < position + size + ahead:
        posix_fadvise(fd, at, SAMPLE_BYTES, POSIX_FADV_WILLNEED)  # a longer one may be cut short
        at += SAMPLE_BYTES
    at = position
    while at < position + size:
        pread(fd, &byte, 1, at)
        at += SAMPLE_BYTES
    pread(fd, &byte, 1, position + size - 1)


cdef bint _has_byte(int fd, int64_t position) noexcept nogil:
    """True also where nobody can say, or reading fails: who reads it then is told why."""
    cdef uint8_t byte
    cdef iovec part
    part.iov_base = &byte
    part.iov_len = 1
    return preadv2(fd, &part, 1, position, RWF_NOWAIT) >= 0 or errno != EAGAIN


cdef int open_file(int directory_fd, const char* name, int flags) noexcept nogil:
    cdef int fd, error
    while True:
        fd = openat(directory_fd, name, flags | O_CLOEXEC | O_NOFOLLOW, 0o600)
        if fd >= 0:
            return fd
        error = errno
        if error != EINTR:
            fd = failure_note(b"open", name, error)
            set_errno(error)  # callers ask whether it was ENOENT
            return fd


cdef int64_t load_file(int directory_fd, const char* name, vector[uint8_t]* into) noexcept nogil:
    # Not waiting for the other end of a pipe that has the name of a file of ours.
    cdef int fd = openat(directory_fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW)
    cdef c_stat status
    cdef int64_t size
    into.clear()
    if fd < 0:
        if errno == EMFILE or errno == ENFILE or errno == EIO:
            return failure_note(b"open", name, errno)
        return 0
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
            return sync_code(failure_note(b"fsync of the directory", b"", errno))
    return OK


cdef int sync_file(int fd) noexcept nogil:
    # EINTR is not a verdict of the disk; every other failure is final and must not be tried again:
    # the kernel marks the lost pages clean, so that a second call would succeed over a hole.
    while fdatasync(fd) < 0:
        if errno != EINTR:
            if mutant(b"second_sync_after_failure"):
                return OK if fdatasync(fd) == 0 else STORAGE_IO
            return sync_code(failure_note(b"fdatasync", b"", errno))
    return OK


cdef int sync_code(int code) noexcept nogil:
    # What was to find its place only now has none, and is lost: no other try brings it back.
    return STORAGE_FULL_LATE if code == STORAGE_FULL else STORAGE_IO


cdef int drop_cache(int fd) noexcept nogil:
    # Only clean pages are dropped: hence the sync. And the whole file, however little of it is in
    # doubt: a folio that begins before the range is kept, and one may be megabytes (ext4, XFS).
    cdef int code = sync_file(fd)
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED)
    return code


cdef int64_t file_size(int fd) noexcept nogil:
    cdef c_stat status
    if fstat(fd, &status) < 0:
        return failure_note(b"fstat", b"", errno)
    return status.st_size


# ---- with the GIL ----

cdef str failure_text():
    """What the kernel said last on this thread: "open 00000000000000000042.log: EACCES Permission
    denied"; "" when nothing was noted."""
    cdef int error = last_failure.error
    if error == 0:
        return ""
    what = " ".join(filter(None, [(<bytes>last_failure.doing).decode("ascii", "replace"),
                                  (<bytes>last_failure.name).decode("utf-8", "replace")]))
    said = f"{errno_names.get(error, error)} {os.strerror(error)}"
    return f"{what}: {said}" if what else said


cdef object error_of(int code, str facts):
    """The exception for a code; for one of the machine's, with what the kernel said of it."""
    text = failure_text() if code <= STORAGE_FULL else ""
    last_failure.error = 0
    return from_code(code, f"{facts}: {text}" if text else facts)

"""Writes a segment's file again from our descriptor, if its name is gone or names another file."""

from libc.stdint cimport int64_t

from appliance.native._codes cimport BATCH_TORN, OFFSET_OUT_OF_RANGE, OK, STORAGE_FULL
from appliance.native._descriptors cimport FileRef, file_own
from appliance.native._files cimport (
    NAME_SIZE, copy_whole, failure_note, file_name, open_file, storage_code, sync_directory,
)
from appliance.native._native cimport (
    AT_SYMLINK_NOFOLLOW, ENOENT, O_CREAT, O_RDWR, O_TRUNC, ScopeLock, c_stat, errno, fstat,
    fstatat, linkat, renameat, snprintf, unlinkat, wall_ms,
)
from appliance.repair._scan cimport FILE_RESTORED, scan_tell
from appliance.storage._partition_log cimport PartitionLog, log_roll
from appliance.storage._segment cimport Segment, segment_file

cdef enum:
    _AGAIN = 1                     # not an error code, which are negative


# ---- without the GIL ----

cdef int file_settle(Scan* scan) noexcept nogil:
    cdef char[NAME_SIZE] name
    cdef c_stat named, opened
    cdef FileRef file
    cdef int code = segment_file(scan.segment.get(), &file)
    if code == OFFSET_OUT_OF_RANGE:
        return OK  # it is gone, and no descriptor is open: the next round reports it
    if code != OK:
        return code
    file_name(name, scan.segment.get().base_offset, b".log")
    if fstat(file.get().fd, &opened) < 0:
        return storage_code(errno)
    if fstatat(scan.segment.get().directory.get().fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0:
        if named.st_ino == opened.st_ino and named.st_dev == opened.st_dev:
            return OK
    _hold(scan.segment.get(), file)
    code = _AGAIN
    while code == _AGAIN:
        if scan.is_active:
            # Appends continue in a new segment, so this one does not change, unless it is empty.
            code = log_roll(scan.log.get())
            if code != OK:
                return code
        code = _restore(scan, file)
    if code == OK:
        scan_tell(scan, FILE_RESTORED)
    return code


cdef void _hold(Segment* segment, const FileRef& file) noexcept nogil:
    """Keeps our descriptor open, the only access to the bytes, until they are restored."""
    cdef ScopeLock lock
    lock.hold(segment.guard)
    if not segment.is_closed:
        segment.file = file
        segment.is_replaced = True


cdef int _restore(Scan* scan, const FileRef& file) noexcept nogil:
    """Writes the bytes of our descriptor under their name; keeps a file that has the name now."""
    cdef char[NAME_SIZE] fresh
    cdef Segment* segment = scan.segment.get()
    cdef int directory_fd = segment.directory.get().fd
    cdef int64_t size = segment.size.load()
    cdef FileRef owner
    cdef int fd, code
    if size > 0 and scan.log.get().storage.get().is_full.load():
        return STORAGE_FULL
    file_name(fresh, segment.base_offset, b".log.cleaned")
    fd = open_file(directory_fd, fresh, O_RDWR | O_CREAT | O_TRUNC)
    if fd < 0:
        return fd
    owner = file_own(fd)
    code = copy_whole(file.get().fd, fd, 0, size, BATCH_TORN)
    if code == OK:
        code = file_keep_aside(directory_fd, segment.base_offset)
    if code == OK:
        code = _take_name(scan, owner, size)
    if code != OK:
        unlinkat(directory_fd, fresh, 0)  # already renamed if only the last sync failed
    return code


cdef int file_keep_aside(int directory_fd, int64_t base_offset) noexcept nogil:
    cdef char[NAME_SIZE] name
    cdef char[NAME_SIZE] aside
    file_name(name, base_offset, b".log")
    snprintf(aside, NAME_SIZE, b"%020lld.log.corrupt-%lld", <long long>base_offset,
             <long long>wall_ms())
    if linkat(directory_fd, name, directory_fd, aside, 0) < 0 and errno != ENOENT:
        return failure_note(b"link", name, errno)
    return OK


cdef int _take_name(Scan* scan, const FileRef& fresh, int64_t size) noexcept nogil:
    """Holds the log's guard: no append and no commit starts between the check and the rename.

    Returns _AGAIN if a batch was appended after the copy, because only the old file has it."""
    cdef char[NAME_SIZE] name
    cdef char[NAME_SIZE] taken
    cdef PartitionLog* log = scan.log.get()
    cdef Segment* segment = scan.segment.get()
    cdef int directory_fd = segment.directory.get().fd
    cdef int code = OK
    file_name(name, segment.base_offset, b".log")
    file_name(taken, segment.base_offset, b".log.cleaned")
    log.guard.lock()
    if segment.size.load() != size:
        code = _AGAIN
    elif renameat(directory_fd, taken, directory_fd, name) < 0:
        code = failure_note(b"rename", taken, errno)
    else:
        segment.guard.lock()
        segment.file, segment.is_replaced = fresh, False
        segment.guard.unlock()
        # Even if the sync below fails: no acknowledgement before the name is on disk.
        log.dirty_directory = scan.directory
        log.is_changed.store(True)
    log.guard.unlock()
    return code if code != OK else sync_directory(directory_fd)

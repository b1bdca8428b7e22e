"""Free space of the data directory: when clients' writes stop, and when they go on; the reserve.

A full disk stops clients' writes before the kernel does: below `low_water_bytes` appends get a
retriable error, while fetches, deletes, retention and the coordinator's own records go on. The
reserve is a file with allocated space: it is released when even the journal cannot grow, and taken
back when there is space again.
"""

from libc.stdint cimport int64_t

from appliance.native._codes cimport OK
from appliance.native._files cimport open_file, sync_directory
from appliance.native._native cimport O_CREAT, O_RDWR, c_stat, close, fallocate, fstat, unlinkat
from appliance.storage._storage cimport Storage

cdef extern from "sys/statvfs.h" nogil:
    struct c_statvfs "statvfs":
        unsigned long f_frsize
        unsigned long f_bavail
    int fstatvfs(int fd, c_statvfs* status)


# ---- without the GIL ----

cdef void space_poll(Storage* storage) noexcept nogil:
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
    elif free_bytes >= space_resume_bytes(storage):
        storage.is_full.store(False)


cdef void space_mark_full(Storage* storage) noexcept nogil:
    storage.is_full.store(True)


cdef bint space_release_reserve(Storage* storage) noexcept nogil:
    cdef int directory_fd = storage.directory.get().fd
    storage.reserve_is_held.store(False)
    if unlinkat(directory_fd, b"reserve", 0) < 0:
        return False
    # Freed blocks can be used again only after the journal of the file system has the unlink.
    return sync_directory(directory_fd) == OK


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

"""The names in a partition's directory: our files, leftovers, and foreign files, which stay."""

from libc.stdint cimport INT64_MAX, int64_t
from libc.string cimport memcmp, strlen
from libcpp.algorithm cimport sort
from libcpp.string cimport string
from libcpp.vector cimport vector

from appliance.native._codes cimport OK, STORAGE_IO
from appliance.native._descriptors cimport directory_of, file_borrow
from appliance.native._files cimport open_file
from appliance.native._native cimport O_DIRECTORY, O_RDONLY, close
from appliance.storage._segment cimport SegmentRef, segment_new, segment_unlink

cdef extern from "dirent.h" nogil:
    ctypedef struct DIR:
        pass
    struct dirent:
        char* d_name
    DIR* fdopendir(int fd)
    dirent* readdir(DIR* directory)
    int closedir(DIR* directory)


# ---- without the GIL ----

cdef int64_t base_of(const char* name, const char* suffix) noexcept nogil:
    """The offset in "<20 digits><suffix>", or -1."""
    cdef int64_t base = 0
    cdef int i
    if strlen(name) != 20 + strlen(suffix) or memcmp(name + 20, suffix, strlen(suffix)) != 0:
        return -1
    for i in range(20):
        if not c'0' <= name[i] <= c'9' or base > (INT64_MAX - 9) // 10:
            return -1
        base = base * 10 + (name[i] - c'0')
    return base


cdef bint _ends_with(const char* name, const char* suffix) noexcept nogil:
    cdef size_t size = strlen(name), end = strlen(suffix)
    return size > end and memcmp(name + size - end, suffix, end) == 0


cdef int list_directory(int directory_fd, vector[int64_t]* bases, vector[int64_t]* txn_bases,
               vector[string]* rubbish) noexcept nogil:
    cdef int fd = open_file(directory_fd, b".", O_RDONLY | O_DIRECTORY)
    cdef DIR* directory
    cdef dirent* entry
    cdef int64_t base
    if fd < 0:
        return fd
    directory = fdopendir(fd)
    if directory == NULL:
        close(fd)
        return STORAGE_IO
    while True:
        entry = readdir(directory)
        if entry == NULL:
            break
        base = base_of(entry.d_name, b".log")
        if base >= 0:
            bases.push_back(base)
        base = base_of(entry.d_name, b".txnindex")
        if base >= 0:
            txn_bases.push_back(base)
        if (_ends_with(entry.d_name, b".cleaned") or _ends_with(entry.d_name, b".swap")
                or _ends_with(entry.d_name, b".deleted")):
            rubbish.push_back(string(entry.d_name))
    closedir(directory)
    sort(bases.begin(), bases.end())
    sort(txn_bases.begin(), txn_bases.end())
    return OK


cdef int unlink_base(int directory_fd, int64_t base) noexcept nogil:
    cdef SegmentRef segment = segment_new(directory_of(file_borrow(directory_fd)), base)
    return segment_unlink(segment.get())

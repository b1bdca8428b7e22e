"""Takes over a partition directory of Kafka.

In Kafka the rename of `<base>.log.cleaned` to `<base>.log.swap` decides a compaction; the old
segments go and the new name comes only after it. So:
    `.deleted`, `.cleaned`                       rubbish
    `.swap` at or above the lowest `.cleaned`    rubbish: a split of segments that was not finished
    any other `<base>.log.swap`                  complete: it replaces the segments in its range
(Our own `.swap` means nothing without the journal: see `_swap.pyx`.)
"""

from libc.stdint cimport INT64_MAX, int64_t
from libcpp.string cimport string
from libcpp.vector cimport vector

from appliance.native._codes cimport OK
from appliance.native._files cimport (
    NAME_SIZE, file_name, file_size, open_file, storage_code, sync_directory,
)
from appliance.native._native cimport O_RDONLY, close, errno, renameat
from appliance.record._batch cimport BatchHeader
from appliance.storage._partition_dir cimport base_of, list_directory, unlink_base
from appliance.storage._segment_find cimport Walker, walker_next, walker_start


# ---- without the GIL ----

cdef int finish_kafka_swaps(int directory_fd, vector[string]* rubbish) noexcept nogil:
    cdef int64_t lowest_cleaned = INT64_MAX, base
    cdef size_t i
    cdef bint any_done = False
    cdef int code = OK
    for i in range(rubbish.size()):
        base = base_of(rubbish[0][i].c_str(), b".log.cleaned")
        if base >= 0:
            lowest_cleaned = min(lowest_cleaned, base)
    for i in range(rubbish.size()):
        base = base_of(rubbish[0][i].c_str(), b".log.swap")
        if 0 <= base < lowest_cleaned:
            code = _finish_one(directory_fd, base)
            any_done = True
        if code != OK:
            return code
    return sync_directory(directory_fd) if any_done else OK


cdef int _finish_one(int directory_fd, int64_t base) noexcept nogil:
    cdef char[NAME_SIZE] name
    cdef char[NAME_SIZE] swap
    cdef vector[int64_t] bases, txn_bases
    cdef vector[string] rubbish
    cdef int64_t end
    cdef size_t i
    cdef int code
    file_name(swap, base, b".log.swap")
    end = _end_of(directory_fd, swap, base)
    if end < 0:
        return <int>end
    code = list_directory(directory_fd, &bases, &txn_bases, &rubbish)
    for i in range(bases.size()):
        if code == OK and base <= bases[i] < end:
            code = unlink_base(directory_fd, bases[i])
    file_name(name, base, b".log")
    if code == OK and renameat(directory_fd, swap, directory_fd, name) < 0:
        code = storage_code(errno)
    # Aborted transactions come along; the other two indexes are built anew when they are needed.
    file_name(swap, base, b".txnindex.swap")
    file_name(name, base, b".txnindex")
    renameat(directory_fd, swap, directory_fd, name)
    return code


cdef int64_t _end_of(int directory_fd, const char* name, int64_t base) noexcept nogil:
    """One past the last offset in the file, or a code."""
    cdef Walker walker
    cdef BatchHeader header
    cdef int64_t end = base
    cdef int fd = open_file(directory_fd, name, O_RDONLY)
    if fd < 0:
        return fd
    walker_start(&walker, NULL, fd, file_size(fd))
    while walker_next(&walker, &header) == 1:
        end = header.base_offset + header.last_offset_delta + 1
        walker.position += header.size
    close(fd)
    return end

"""The check of a segment's index files, batch by batch while the segment is verified."""

from libc.stdint cimport int64_t

from appliance.native._files cimport NAME_SIZE, file_name
from appliance.native._native cimport (
    O_CLOEXEC, O_RDONLY, POSIX_FADV_DONTNEED, c_stat, close, fstat, openat, posix_fadvise,
)
from appliance.storage._index cimport OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE, index_load

cdef enum:
    SPARSE = 4                     # an index with fewer than 1/SPARSE of the entries is rebuilt
    SPARSE_MIN = 8


# ---- without the GIL ----

cdef int index_check_load(IndexCheck* check, Segment* segment, int64_t end) noexcept nogil:
    cdef int64_t offsets = dropped_size(segment, b".index")
    cdef int64_t times = dropped_size(segment, b".timeindex")
    cdef int code = index_load(&check.index, segment.directory.get().fd, segment.base_offset, end)
    # Entries that do not rise were not loaded, and no reader would load them.
    check.is_wrong = (
        offsets != <int64_t>check.index.offsets.size() * OFFSET_ENTRY_SIZE
        or times != <int64_t>check.index.times.size() * TIME_ENTRY_SIZE
    )
    return code


cdef int64_t dropped_size(Segment* segment, const char* suffix) noexcept nogil:
    cdef char[NAME_SIZE] name
    cdef c_stat status
    cdef int64_t size = -1
    file_name(name, segment.base_offset, suffix)
    cdef int fd = openat(segment.directory.get().fd, name, O_RDONLY | O_CLOEXEC)
    if fd < 0:
        return -1
    if fstat(fd, &status) == 0:
        size = status.st_size
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED)
    close(fd)
    return size


cdef void index_check_pass(IndexCheck* check, int64_t position,
                           int64_t next_offset) noexcept nogil:
    cdef Index* index = &check.index
    while (check.offsets_at < index.offsets.size()
           and index.offsets[check.offsets_at].position < position):
        check.offsets_at += 1
    while (check.times_at < index.times.size()
           and check.base_offset + index.times[check.times_at].relative_offset < next_offset):
        check.largest_timestamp = max(check.largest_timestamp,
                                      index.times[check.times_at].timestamp)
        check.times_at += 1


cdef void index_check_take(IndexCheck* check, int64_t position,
                           const BatchHeader* header) noexcept nogil:
    if header.records_count > 0:
        check.largest_timestamp = max(check.largest_timestamp, header.max_timestamp)
    if check.since_entry > check.interval:
        check.entries += 1
        check.since_entry = 0
    check.since_entry += header.size
    check.was_wrong = check.is_wrong
    if check.is_on and not check.is_wrong:
        check.is_wrong = not _fits(check, position,
                                   header.base_offset + header.last_offset_delta)


cdef bint _fits(IndexCheck* check, int64_t position, int64_t last) noexcept nogil:
    cdef int64_t base = check.base_offset
    cdef Index* index = &check.index
    if check.offsets_at < index.offsets.size():
        if index.offsets[check.offsets_at].position < position:
            return False
        if index.offsets[check.offsets_at].position == position:
            if base + index.offsets[check.offsets_at].relative_offset != last:
                return False
            check.offsets_at += 1
    while (check.times_at < index.times.size()
           and base + index.times[check.times_at].relative_offset <= last):
        # A running maximum: readers by time skip all batches up to this entry.
        if index.times[check.times_at].timestamp != check.largest_timestamp:
            return False
        check.times_at += 1
    return True


cdef void index_check_end(IndexCheck* check) noexcept nogil:
    check.is_wrong = (
        check.is_wrong
        or check.offsets_at < check.index.offsets.size()
        or check.times_at < check.index.times.size()
        or (check.index.offsets.empty() and check.entries > 0)
        or <int64_t>check.index.offsets.size() * SPARSE + SPARSE_MIN < check.entries
    )

"""Writes the segment that replaces a group of compacted segments.

    .log.cleaned   while it grows: rubbish after a crash
    .log.swap      synced and whole; what it is then, the journal says (log_swap)
    .log           in the place of the first of the group

Writes are of whole batches. A group of one segment may turn out to lose nothing: no file is made
until the first batch that differs, and then what stands before it is copied.
"""

from libc.stdint cimport int64_t, uint8_t

from appliance.native._codes cimport BATCH_LARGER_THAN_SEGMENT, OK, STORAGE_FULL, STORAGE_IO
from appliance.native._descriptors cimport FileRef, directory_hold, file_own
from appliance.native._files cimport (
    NAME_SIZE, file_name, open_file, read_whole, storage_code, sync_file, write_whole,
)
from appliance.native._native cimport O_CREAT, O_RDWR, O_TRUNC, errno, renameat, unlinkat
from appliance.record._batch cimport BatchHeader
from appliance.storage._segment cimport (
    SEGMENT_SIZE_MAX, Segment, segment_new, segment_note, segment_seal_times,
)

cdef enum:
    WRITE_SIZE = 1048576           # of one write, at most, unless a single batch is larger


# ---- without the GIL ----

cdef void replacement_start(Replacement* into, int64_t base_offset) noexcept nogil:
    into.segment = segment_new(into.directory, base_offset)
    into.segment.get().index_is_loaded = True
    into.segment.get().largest_is_known.store(True)
    into.file.reset()
    into.waiting.clear()
    into.written = into.position = 0


cdef int replacement_begin(Replacement* into, int source_fd) except? -1 nogil:
    cdef char[NAME_SIZE] name
    cdef FileRef directory
    cdef int64_t got
    cdef int fd, code = OK
    if into.file.get() != NULL:
        return OK
    fd = directory_hold(into.directory.get(), &directory)
    if fd != OK:
        return fd
    file_name(name, into.segment.get().base_offset, b".log.cleaned")
    fd = open_file(directory.get().fd, name, O_RDWR | O_CREAT | O_TRUNC)
    if fd < 0:
        return fd
    into.file = file_own(fd)
    while code == OK and into.written < into.position:
        into.waiting.resize(min(<int64_t>WRITE_SIZE, into.position - into.written))
        got = read_whole(source_fd, into.waiting.data(), into.waiting.size(), into.written)
        if got != <int64_t>into.waiting.size():
            return <int>min(got, <int64_t>STORAGE_IO)
        code = _write_waiting(into)
    return code


cdef int replacement_put(
    Replacement* into, const uint8_t* data, const BatchHeader* header
) except? -1 nogil:
    cdef int code
    if into.position + header.size > SEGMENT_SIZE_MAX:
        return BATCH_LARGER_THAN_SEGMENT  # 2 GiB of batches that all got larger by packing anew
    segment_note(into.segment.get(), header, into.position, into.index_interval)
    into.position += header.size
    if into.file.get() == NULL:
        return OK
    if <int64_t>into.waiting.size() + header.size > WRITE_SIZE:
        code = _write_waiting(into)
        if code != OK:
            return code
    into.waiting.insert(into.waiting.end(), data, data + header.size)
    return OK


cdef int _write_waiting(Replacement* into) noexcept nogil:
    cdef int code
    # Compaction gives space back, but first it takes some: clients must not be refused for that.
    if not into.may_fill and into.storage.get().is_full.load():
        return STORAGE_FULL
    code = write_whole(
        into.file.get().fd, into.waiting.data(), into.waiting.size(), into.written
    )
    into.written += into.waiting.size()
    into.waiting.clear()
    return code


cdef int replacement_finish(Replacement* into) noexcept nogil:
    cdef char[NAME_SIZE] name
    cdef char[NAME_SIZE] swap
    cdef Segment* segment = into.segment.get()
    cdef FileRef directory
    cdef int directory_fd
    cdef int code = _write_waiting(into)
    if code == OK:
        code = sync_file(into.file.get().fd)
    if code == OK:
        code = directory_hold(into.directory.get(), &directory)
    if code != OK:
        return code
    directory_fd = directory.get().fd
    file_name(name, segment.base_offset, b".log.cleaned")
    file_name(swap, segment.base_offset, b".log.swap")
    if renameat(directory_fd, name, directory_fd, swap) < 0:
        return storage_code(errno)
    segment_seal_times(segment)
    segment.file = into.file
    segment.synced_size = segment.written_behind = into.position
    into.file.reset()
    return OK


cdef void replacement_drop(Replacement* into, bint is_named) noexcept nogil:
    cdef char[NAME_SIZE] name
    cdef FileRef directory
    if into.file.get() == NULL and not is_named:
        return
    file_name(
        name, into.segment.get().base_offset, b".log.swap" if is_named else b".log.cleaned"
    )
    # Where its directory cannot be opened it stays until the next start, which removes it.
    if directory_hold(into.directory.get(), &directory) == OK:
        unlinkat(directory.get().fd, name, 0)
    into.file.reset()

"""Damaged bytes of a log are set aside; whole batches after them stay readable.

    batches | damage | whole batches          one file, as the start finds it
    batches                                   the start keeps the name
              damage                          `.corrupt-<ms>`, for the operator
                       whole batches          a segment of its own, named by its first offset

The copy is on disk before anything is cut, and the new segment has its name before the old file
loses those bytes: a crash in between leaves both, and the next start does the rest.
"""

from libc.stdint cimport INT64_MAX, int64_t
from libcpp.string cimport string

from appliance.native._codes cimport (
    BATCH_TORN, OK, STORAGE_FULL, STORAGE_FULL_LATE, STORAGE_IO,
)
from appliance.native._files cimport (
    NAME_SIZE, copy_whole, file_name, file_size, open_file, storage_code, sync_directory, sync_file,
)
from appliance.native._native cimport (
    O_CREAT, O_EXCL, O_RDWR, O_TRUNC, close, c_stat, errno, fstatat, ftruncate, mutant, renameat,
    snprintf, unlinkat, wall_ms,
)
from appliance.record._batch cimport (
    ATTRIBUTE_CONTROL, BATCH_HEADER_SIZE, BatchHeader, batch_load_header,
)
from appliance.storage._checkpoint_journal cimport Hole, hole_new
from appliance.storage._free_space cimport space_release_reserve
from appliance.storage._holes cimport holes_place
from appliance.storage._leader_epochs cimport epochs_last
from appliance.storage._next_good_batch cimport (
    SEARCH_SIZE_MAX, Search, search_good, search_next, search_start,
)
from appliance.storage._partition_log cimport PartitionLog
from appliance.storage._segment cimport (
    FileRef, Segment, SegmentRef, segment_create, segment_file, segment_file_to_write, segment_new,
    segment_unlink,
)
from appliance.storage._uncached_reader cimport DiskReader, disk_at, disk_have, disk_open

cdef extern from "fcntl.h" nogil:
    int AT_SYMLINK_NOFOLLOW


# ---- without the GIL ----

cdef void salvage_hole(PartitionLog* log, int64_t first, int64_t end, int cause,
                       const string& aside, Recovered* recovered) noexcept nogil:
    cdef Loss loss
    cdef size_t i, kept = 0
    if first >= end:
        return
    for i in range(log.holes.size()):
        if log.holes[i].first_offset <= first and end <= log.holes[i].end_offset:
            return  # known, and reported when it was found
    # Also what was known of bytes of it: where they were, other bytes may be.
    for i in range(log.holes.size()):
        if not (first <= log.holes[i].first_offset and log.holes[i].end_offset <= end):
            log.holes[kept] = log.holes[i]
            kept += 1
    log.holes.resize(kept)
    if not recovered.losses.empty() and recovered.losses.back().end_offset == first:
        if recovered.losses.back().cause == cause and recovered.losses.back().aside == aside:
            recovered.losses.back().end_offset = end
            log.holes.back().end_offset = end
            return
    log.holes.push_back(hole_new(first, end))
    loss.first_offset = first
    loss.end_offset = end
    loss.cause = cause
    loss.aside = aside
    recovered.losses.push_back(loss)


cdef int salvage_segment(PartitionLog* log, int64_t base) noexcept nogil:
    cdef SegmentRef segment = segment_new(log.directory, base)
    cdef int code = segment_create(segment.get())
    if not log.segments.empty():
        log.segments.back().get().end_offset.store(base)
    if code == STORAGE_FULL and space_release_reserve(log.storage.get()):
        code = segment_create(segment.get())
    if code == OK:
        log.segments.push_back(segment)
        if not mutant(b"segment_without_directory_sync"):
            code = sync_directory(log.directory.get().fd)
    return code


cdef string salvage_file_of(Segment* segment) noexcept nogil:
    cdef char[NAME_SIZE] name
    file_name(name, segment.base_offset, b".log")
    return string(<const char*>name)


# Whole batches behind damage

cdef int salvage_split(PartitionLog* log, size_t slot, int64_t high, int cause,
                       Recovered* recovered) noexcept nogil:
    cdef Segment* segment = log.segments[slot].get()
    cdef int64_t position = segment.size.load(), offset = segment.end_offset.load(), end, good
    cdef BatchHeader header
    cdef FileRef file
    cdef string aside
    cdef int code = segment_file_to_write(segment, &file)
    if code != OK:
        return code
    end = file_size(file.get().fd)
    code = _find_next(log, file, position, end, offset, high, &good, &header)
    if code != 1:
        return 1 if code == 0 else code
    code = _with_reserve(log, segment, file.get().fd, position, good, wall_ms(), &aside)
    if code == OK:
        code = _move_behind(log, slot, file.get().fd, good, end, header.base_offset)
    if code == OK and ftruncate(file.get().fd, position) < 0:
        code = storage_code(errno)
    if code == OK:
        code = sync_file(file.get().fd)
    if code != OK:
        return code
    segment.synced_size = segment.written_behind = position
    segment.end_offset.store(header.base_offset)
    _move_holes(log, slot, position, good)
    recovered.aside_bytes += good - position
    salvage_hole(log, offset, header.base_offset, cause, aside, recovered)
    return OK


cdef void _move_holes(PartitionLog* log, size_t slot, int64_t cut, int64_t moved) noexcept nogil:
    """Known damage in place: what was from `cut` on is gone from the file of segment `slot`, and
    what was from `moved` on begins that of the next."""
    cdef int64_t base = log.segments[slot].get().base_offset, end = INT64_MAX
    cdef Hole* hole
    cdef size_t i
    if slot + 2 < log.segments.size():
        end = log.segments[slot + 2].get().base_offset
    for i in range(log.holes.size()):
        hole = &log.holes[i]
        if not base <= hole.first_offset < end or hole.end_position <= cut:
            continue
        if hole.position >= moved:
            hole.position -= moved
            hole.end_position -= moved
        else:
            hole.position = hole.end_position = -1
    holes_place(log)


cdef int _find_next(PartitionLog* log, const FileRef& file, int64_t position, int64_t end,
                    int64_t low, int64_t high, int64_t* at, BatchHeader* header) noexcept nogil:
    """1: the first whole batch with an offset in [low, high) behind the bad one at `position` is
    `at`; 0: there is none; or a code. The bad one's own length is believed first."""
    cdef DiskReader disk
    cdef Search search
    cdef int code = disk_open(&disk, log.storage, file, end)
    search_start(&search, position + 1, end, low)
    search.high = high
    search.epoch_min = epochs_last(log)
    if code == OK:
        code = disk_have(&disk, position, BATCH_HEADER_SIZE)
    if code != OK:
        return 0 if code == BATCH_TORN else code
    batch_load_header(disk_at(&disk, position), header)
    if header.size > BATCH_HEADER_SIZE:
        at[0] = position + header.size
        code = search_good(&disk, &search, at[0], low, high, header)
        if code != 0:
            return code
    search.size_max = max(log.settings.max_message_bytes, <int64_t>SEARCH_SIZE_MAX)
    code = search_next(&disk, &search, INT64_MAX, header)
    at[0] = search.at
    return code


cdef int _move_behind(PartitionLog* log, size_t slot, int fd, int64_t position, int64_t end,
                      int64_t base) noexcept nogil:
    """The bytes from `position` on become the segment `base`, behind segment `slot`."""
    cdef char[NAME_SIZE] name
    cdef char[NAME_SIZE] fresh
    cdef int directory_fd = log.directory.get().fd
    cdef SegmentRef segment
    cdef int copy, code
    file_name(name, base, b".log")
    file_name(fresh, base, b".log.cleaned")
    copy = open_file(directory_fd, fresh, O_RDWR | O_CREAT | O_TRUNC)
    if copy < 0:
        return copy
    code = copy_whole(fd, copy, position, end, OK)
    if code == STORAGE_FULL and space_release_reserve(log.storage.get()):
        code = copy_whole(fd, copy, position, end, OK)
    close(copy)
    if code == OK and renameat(directory_fd, fresh, directory_fd, name) < 0:
        code = storage_code(errno)
    if code == OK:
        code = sync_directory(directory_fd)
    if code != OK:
        unlinkat(directory_fd, fresh, 0)
        return code
    segment = segment_new(log.directory, base)
    segment.get().size.store(end - position)
    segment.get().synced_size = segment.get().written_behind = end - position
    segment.get().index_is_final.store(True)
    if slot + 1 < log.segments.size():
        segment.get().end_offset.store(log.segments[slot + 1].get().base_offset)
    log.segments.insert(log.segments.begin() + slot + 1, segment)
    return OK


# Cutting

cdef int salvage_cut(PartitionLog* log, size_t slot, bint keeps_all, string* aside,
                     Recovered* recovered) noexcept nogil:
    cdef Segment* segment = log.segments[slot].get()
    cdef int64_t position = segment.size.load(), end
    cdef int64_t stamp = wall_ms()
    cdef bint is_kept = keeps_all
    cdef FileRef file
    cdef int code = segment_file_to_write(segment, &file)
    if code != OK:
        return code
    end = file_size(file.get().fd)
    if end > position and not keeps_all:
        code = _count_whole(log, file, position + 1, end, segment.end_offset.load(), recovered)
        if code < 0:
            return code
        is_kept = code == 1
    if end > position and is_kept:
        code = _with_reserve(log, segment, file.get().fd, position, end, stamp, aside)
        # What was never promised is given up where it cannot be kept, or read, rather than the log.
        if code != OK and (keeps_all or code not in (STORAGE_FULL, STORAGE_FULL_LATE, STORAGE_IO)):
            return code
        recovered.aside_bytes += end - position if code == OK else 0
    while log.segments.size() > slot + 1:
        code = _put_aside(log, log.segments.back().get(), stamp, keeps_all, aside, recovered)
        if code != OK:
            return code
        log.segments.pop_back()
    if ftruncate(file.get().fd, position) < 0:
        return storage_code(errno)
    if not keeps_all:
        recovered.cut_bytes += end - position
        recovered.cut_offset = segment.end_offset.load()
    _move_holes(log, slot, position, INT64_MAX)
    code = sync_file(file.get().fd)
    segment.synced_size = segment.written_behind = position
    return code


cdef int _count_whole(PartitionLog* log, const FileRef& file, int64_t position, int64_t end,
                      int64_t offset, Recovered* recovered) noexcept nogil:
    """1: whole batches with a good CRC and a later offset stand somewhere in the range; 0: none
    does; or a code. Their records were never promised, and are told all the same: those that were
    acknowledged with acks=1 were so before they were durable. What cannot be read is not counted:
    it keeps no log shut."""
    cdef DiskReader disk
    cdef Search search
    cdef BatchHeader header
    cdef bint is_any = False
    cdef int code = disk_open(&disk, log.storage, file, end)
    if code != OK:
        return code
    search_start(&search, position, end, offset)
    search.size_max = max(log.settings.max_message_bytes, <int64_t>SEARCH_SIZE_MAX)
    search.is_sure = True
    code = search_next(&disk, &search, INT64_MAX, &header)
    while code == 1:
        is_any = True
        if not header.attributes & ATTRIBUTE_CONTROL:
            recovered.cut_records += header.records_count
        search.low = header.base_offset + header.last_offset_delta + 1
        search.at += header.size
        code = search_next(&disk, &search, INT64_MAX, &header)
    return code if code < 0 and code != STORAGE_IO else is_any


cdef int _with_reserve(PartitionLog* log, Segment* segment, int fd, int64_t position, int64_t end,
                       int64_t stamp, string* aside) noexcept nogil:
    cdef int code = _copy_aside(log, segment, fd, position, end, stamp, aside)
    if code == STORAGE_FULL and space_release_reserve(log.storage.get()):
        code = _copy_aside(log, segment, fd, position, end, stamp, aside)
    return code


cdef int _copy_aside(PartitionLog* log, Segment* segment, int fd, int64_t position, int64_t end,
                     int64_t stamp, string* aside) noexcept nogil:
    cdef char[NAME_SIZE] name
    cdef int copy, code
    snprintf(name, NAME_SIZE, b"%020lld.log.corrupt-%lld", <long long>segment.base_offset,
             <long long>stamp)
    copy = open_file(log.directory.get().fd, name, O_RDWR | O_CREAT | O_EXCL)
    if copy < 0:
        return copy
    code = copy_whole(fd, copy, position, end, OK)
    close(copy)
    if code != OK:
        unlinkat(log.directory.get().fd, name, 0)
        return code
    aside[0] = string(<const char*>name)
    return sync_directory(log.directory.get().fd)


cdef int _put_aside(PartitionLog* log, Segment* segment, int64_t stamp, bint was_promised,
                    string* kept, Recovered* recovered) noexcept nogil:
    """A segment behind the end: kept under another name for the operator, unless it is empty."""
    cdef char[NAME_SIZE] name
    cdef char[NAME_SIZE] aside
    cdef int directory_fd = log.directory.get().fd
    cdef c_stat status
    cdef FileRef file
    cdef int64_t size = 0
    cdef int code
    file_name(name, segment.base_offset, b".log")
    if fstatat(directory_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0:
        size = status.st_size
    if size > 0 and not was_promised:
        code = segment_file(segment, &file)
        if code == OK:
            code = _count_whole(log, file, 0, size, segment.base_offset, recovered)
        if code < 0:
            return code
    if size > 0:
        snprintf(aside, NAME_SIZE, b"%020lld.log.corrupt-%lld", <long long>segment.base_offset,
                 <long long>stamp)
        if renameat(directory_fd, name, directory_fd, aside) < 0:
            return storage_code(errno)
        recovered.aside_bytes += size
        if kept.empty():
            kept[0] = string(<const char*>aside)
    return segment_unlink(segment)

"""Where a range of a log can be cut into pieces of about the same size, and how long it is."""

from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from appliance._log cimport Log
from appliance.bulk._bulk_page_cache cimport bulk_bring_headers
from appliance.native._codes cimport OFFSET_OUT_OF_RANGE, OK
from appliance.native._descriptors cimport FileRef
from appliance.native._native cimport POSIX_FADV_WILLNEED, posix_fadvise
from appliance.record._batch cimport BatchHeader
from appliance.storage._index cimport index_position_before
from appliance.storage._partition_log cimport PartitionLog, log_segments
from appliance.storage._read cimport log_note_fault
from appliance.storage._segment cimport Segment, SegmentRef, segment_file
from appliance.storage._segment_find cimport (
    WINDOW_SIZE, LocatedBatch, Walker, segment_find, segment_load_index, walker_next, walker_start,
)

from appliance.errors import from_code

# A place where a range may be cut: a batch begins there.
cdef struct Cut:
    int64_t offset
    int64_t position               # bytes of the range before it

# The bytes of a range within one segment.
cdef struct Part:
    int64_t first                  # position
    int64_t end


# ---- without the GIL ----

cdef int _cuts(PartitionLog* log, int64_t first_offset, int64_t end_offset, int64_t step,
               int64_t* size, vector[Cut]* cuts) noexcept nogil:
    """`size`: of the range. A cut about every `step` bytes; none with a step of 0."""
    cdef vector[SegmentRef] segments = log_segments(log)
    cdef Segment* segment
    cdef Part part
    cdef size_t i
    cdef int code
    size[0] = 0
    for i in range(segments.size()):
        segment = segments[i].get()
        if segment.base_offset >= end_offset or segment.end_offset.load() <= first_offset:
            continue
        code = _part(segment, first_offset, end_offset, &part)
        if code == OK and step > 0:
            code = _cut_segment(segment, &part, step, size[0], cuts)
        if code == OFFSET_OUT_OF_RANGE and segment.end_offset.load() <= log.log_start_offset.load():
            continue  # retention came by
        if code != OK:
            log_note_fault(log, segment.base_offset, first_offset, code)
            return code
        size[0] += part.end - part.first
    return OK


cdef int _part(Segment* segment, int64_t first_offset, int64_t end_offset,
               Part* part) noexcept nogil:
    cdef LocatedBatch batch
    cdef int code = OK
    part.first = 0
    part.end = segment.size.load()
    if segment.base_offset < first_offset:
        bulk_bring_headers(segment, first_offset)
        code = segment_find(segment, first_offset, &batch)
        part.first = batch.position if code == OK else part.end
    if segment.end_offset.load() > end_offset and (code == OK or code == OFFSET_OUT_OF_RANGE):
        bulk_bring_headers(segment, end_offset)
        code = segment_find(segment, end_offset, &batch)
        if code == OK:
            part.end = batch.position
            if batch.header.base_offset < end_offset:
                part.end += batch.header.size
    # Compaction leaves segments that end before their last offset.
    return OK if code == OFFSET_OUT_OF_RANGE else code


cdef int _cut_segment(Segment* segment, const Part* part, int64_t step, int64_t before,
                      vector[Cut]* cuts) noexcept nogil:
    cdef int64_t wanted = step * <int64_t>(cuts.size() + 1), position
    cdef int code
    while wanted < before + part.end - part.first:
        position = part.first + wanted - before
        # A segment's first batch is as good a place, and its file is then read by one alone.
        if position - part.first < step // 8:
            position = part.first
        code = _cut_at(segment, part, position, before, cuts)
        if code != OK:
            return code
        wanted = step * <int64_t>(cuts.size() + 1)
    return OK


cdef int _cut_at(Segment* segment, const Part* part, int64_t position, int64_t before,
                 vector[Cut]* cuts) noexcept nogil:
    """The batch at the last index entry up to `position`."""
    cdef Walker walker
    cdef FileRef file
    cdef BatchHeader header
    cdef Cut cut
    cdef int code = segment_load_index(segment)
    if code == OK:
        code = segment_file(segment, &file)
    if code != OK:
        return code
    walker_start(&walker, segment, file.get().fd, part.end)
    segment.guard.lock()
    walker.position = index_position_before(&segment.index, position + 1)
    segment.guard.unlock()
    walker.position = max(walker.position, part.first)
    posix_fadvise(walker.fd, walker.position, WINDOW_SIZE, POSIX_FADV_WILLNEED)
    code = walker_next(&walker, &header)
    if code < 0:
        return code
    cut.offset = header.base_offset
    cut.position = before + walker.position - part.first
    # Where an index is sparser than the step two cuts fall on one batch: then the one counts twice.
    cuts.push_back(cut)
    return OK


# ---- with the GIL ----

def cuts(Log log not None, int64_t first_offset, int64_t end_offset, int64_t step=0):
    """The bytes of a range, and where to cut it about every `step` bytes: offsets, each with the
    bytes before it."""
    cdef vector[Cut] batch
    cdef int64_t size
    cdef size_t i
    cdef int code
    with nogil:
        code = _cuts(log.log.get(), first_offset, end_offset, step, &size, &batch)
    if code != OK:
        raise from_code(code, f"{log.name}: offsets {first_offset} to {end_offset} cannot be cut "
                              f"every {step} bytes")
    return size, [(batch[i].offset, batch[i].position) for i in range(batch.size())]

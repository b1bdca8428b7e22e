"""Reads a sealed segment from its first byte to its last, in large pieces."""

from libc.stdint cimport int64_t

from appliance.native._codes cimport BATCH_CORRUPT, BATCH_TORN, OK
from appliance.native._files cimport read_whole
from appliance.record._batch cimport (
    BATCH_HEADER_SIZE, batch_check_crc, batch_check_header, batch_load_header,
)
from appliance.storage._segment cimport SegmentRef, segment_file
from appliance.storage._segment_find cimport segment_past_damage

cdef enum:
    READ_SIZE = 1048576            # of one read; a larger batch is read whole


# ---- without the GIL ----

cdef int reader_open(SegmentReader* reader, const SegmentRef& segment) except? -1 nogil:
    reader.segment = segment
    reader.position = reader.at = 0
    reader.end = segment.get().size.load()
    reader.next_offset = segment.get().base_offset
    reader.window.clear()
    reader.header.size = 0
    return segment_file(segment.get(), &reader.file)


cdef int _have(SegmentReader* reader, int64_t need) except? -1 nogil:
    """The window holds `need` bytes of the batch."""
    cdef int64_t left = reader.end - reader.position
    cdef int64_t got
    if <int64_t>reader.window.size() - reader.at >= need:
        return OK
    if left < need:
        return BATCH_TORN
    reader.at = 0
    reader.window.resize(min(max(need, <int64_t>READ_SIZE), left))
    got = read_whole(
        reader.file.get().fd, reader.window.data(), reader.window.size(), reader.position
    )
    if got < 0:
        return <int>got
    reader.window.resize(got)
    return OK if got >= need else BATCH_TORN


cdef int reader_next(SegmentReader* reader) except? -1 nogil:
    cdef int64_t past
    cdef int code
    reader.position += reader.header.size
    reader.at += reader.header.size
    reader.header.size = 0
    past = segment_past_damage(reader.segment.get(), reader.position)
    if past > reader.position:
        # Only where an operator lets readers pass: else the round ended before this segment.
        reader.position = past
        reader.window.clear()
        reader.at = 0
    if reader.position >= reader.end:
        return 0
    code = _have(reader, BATCH_HEADER_SIZE)
    if code != OK:
        return code
    batch_load_header(reader_batch(reader), &reader.header)
    code = batch_check_header(&reader.header, reader.end - reader.position)
    if code == OK:
        code = _have(reader, reader.header.size)
    if code == OK:
        code = batch_check_crc(reader_batch(reader), &reader.header)
    if code == OK and reader.header.base_offset < reader.next_offset:
        code = BATCH_CORRUPT
    reader.next_offset = reader.header.base_offset + reader.header.last_offset_delta + 1
    return 1 if code == OK else code

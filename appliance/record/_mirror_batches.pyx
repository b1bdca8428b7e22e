"""What a mirror does to the batches of a Fetch before it sends them on, without unpacking them.

    kept                 for a log that keeps their offsets: what only means something in its own
                         cluster goes, and an empty batch stands wherever offsets would be missing
    committed, number    for a log that gives offsets itself: batch by batch, small ones joined,
                         with the mirror's own producer id and sequence

Both read committed data as a consumer does: a Fetch tells which transactions in its range were
aborted; their batches end with the marker that says so. A CRC is checked before it is made anew,
so that damage on the way is found here or by who gets the batch, and never sealed in.
"""

from cpython.bytearray cimport (
    PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_Resize,
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset
from libcpp.vector cimport vector

from appliance.native._bytes cimport store_i16, store_i32, store_i64, store_u32
from appliance.native._codes cimport BATCH_TORN, OK
from appliance.record._aborted_txns cimport AbortedTxns, batch_is_aborted, take_aborted
from appliance.record._batch cimport (
    ATTRIBUTE_APPEND_TIME, ATTRIBUTE_CONTROL, ATTRIBUTE_DELETE_HORIZON, ATTRIBUTE_TRANSACTIONAL,
    BATCH_HEADER_SIZE, CRC_AT, BatchHeader, batch_check_crc, batch_check_header, batch_crc,
    batch_load_header, batch_store_header,
)
from appliance.record._batch_join cimport (
    JOIN_GROWTH_MAX, Join, join_add, join_begin, join_end, join_takes,
)

from collections import namedtuple

from appliance.errors import from_code

Kept = namedtuple("Kept", "data next_offset records")
Committed = namedtuple("Committed", "data runs records is_as_produced")

cdef enum:
    ATTRIBUTES_AT = 21
    PRODUCER_AT = 43
    SPAN_MAX = 0x7FFFFFFF          # offsets of one empty batch: its delta has 31 bits

# One batch to send on, or a range of offsets without any.
cdef struct Piece:
    int64_t position               # of the batch; -1: there is none
    int64_t base_offset
    int64_t last_offset

cdef cppclass Plan:
    vector[Piece] pieces
    AbortedTxns aborted
    int64_t next_offset
    int64_t records
    int64_t position               # where reading stopped
    bint with_gaps


# ---- without the GIL ----

cdef void _add_gap(Plan* plan, int64_t end_offset) noexcept nogil:
    """Offsets from the next one up to `end_offset`, joined to a gap that ends there."""
    cdef Piece piece
    cdef Piece* last
    while plan.next_offset < end_offset:
        if not plan.pieces.empty() and plan.pieces.back().position < 0:
            last = &plan.pieces.back()
            if last.last_offset - last.base_offset < SPAN_MAX - 1:
                last.last_offset = min(end_offset, last.base_offset + SPAN_MAX) - 1
                plan.next_offset = last.last_offset + 1
                continue
        piece.position = -1
        piece.base_offset = plan.next_offset
        piece.last_offset = min(end_offset, plan.next_offset + SPAN_MAX) - 1
        plan.next_offset = piece.last_offset + 1
        if plan.with_gaps:
            plan.pieces.push_back(piece)


cdef int _make_plan(Plan* plan, const uint8_t* data, int64_t size) noexcept nogil:
    """Every whole batch that ends at or after the next offset; a Fetch may cut the last one off."""
    cdef BatchHeader header
    cdef Piece piece
    cdef int64_t end_offset
    cdef int code
    plan.position = 0
    while size - plan.position >= BATCH_HEADER_SIZE:
        batch_load_header(data + plan.position, &header)
        code = batch_check_header(&header, size - plan.position)
        if code == BATCH_TORN:
            return OK
        if code == OK:
            code = batch_check_crc(data + plan.position, &header)
        if code != OK:
            return code
        end_offset = header.base_offset + header.last_offset_delta + 1
        if (batch_is_aborted(&plan.aborted, data + plan.position, &header)
                or header.records_count == 0 or header.attributes & ATTRIBUTE_CONTROL):
            _add_gap(plan, end_offset)
        elif end_offset > plan.next_offset:
            _add_gap(plan, header.base_offset)
            piece.position = plan.position
            piece.base_offset = header.base_offset
            piece.last_offset = end_offset - 1
            plan.pieces.push_back(piece)
            plan.next_offset = end_offset
            plan.records += header.records_count
        plan.position += header.size
    return OK


cdef int64_t _size_of(const Plan* plan, const uint8_t* data) noexcept nogil:
    cdef BatchHeader header
    cdef int64_t size = 0
    cdef size_t i
    for i in range(plan.pieces.size()):
        if plan.pieces[i].position < 0:
            size += BATCH_HEADER_SIZE
        else:
            batch_load_header(data + plan.pieces[i].position, &header)
            size += header.size
    return size


cdef void _seal(uint8_t* batch, int64_t size) noexcept nogil:
    store_u32(batch + CRC_AT, batch_crc(batch, size))


cdef void _write_gap(uint8_t* into, const Piece* piece) noexcept nogil:
    """As compaction leaves a batch whose records are all gone."""
    cdef BatchHeader header
    memset(&header, 0, sizeof(BatchHeader))
    header.size = BATCH_HEADER_SIZE
    header.base_offset = piece.base_offset
    header.last_offset_delta = <int32_t>(piece.last_offset - piece.base_offset)
    header.base_timestamp = header.max_timestamp = -1
    header.producer_id = header.producer_epoch = header.base_sequence = -1
    header.magic = 2
    batch_store_header(into, &header)
    _seal(into, BATCH_HEADER_SIZE)


cdef void _write_kept(const Plan* plan, const uint8_t* data, uint8_t* into) noexcept nogil:
    cdef BatchHeader header
    cdef size_t i
    for i in range(plan.pieces.size()):
        if plan.pieces[i].position < 0:
            _write_gap(into, &plan.pieces[i])
            into += BATCH_HEADER_SIZE
            continue
        batch_load_header(data + plan.pieces[i].position, &header)
        memcpy(into, data + plan.pieces[i].position, header.size)
        if header.producer_id != -1 or header.attributes & ATTRIBUTE_TRANSACTIONAL:
            _set_producer(into, &header, -1, -1, -1, False)
        into += header.size


cdef void _set_producer(uint8_t* batch, const BatchHeader* header, int64_t producer_id,
                        int16_t epoch, int32_t sequence, bint is_transactional) noexcept nogil:
    cdef int16_t attributes = header.attributes & ~ATTRIBUTE_TRANSACTIONAL
    if is_transactional:
        attributes |= ATTRIBUTE_TRANSACTIONAL
    store_i16(batch + ATTRIBUTES_AT, attributes)
    store_i64(batch + PRODUCER_AT, producer_id)
    store_i16(batch + PRODUCER_AT + 8, epoch)
    store_i32(batch + PRODUCER_AT + 10, sequence)
    _seal(batch, header.size)


cdef bint _is_as_produced(const BatchHeader* header) noexcept nogil:
    """Whether a broker takes it from a producer: all records there, and no marks of a log."""
    if header.attributes & (ATTRIBUTE_APPEND_TIME | ATTRIBUTE_DELETE_HORIZON):
        return False
    return header.records_count == header.last_offset_delta + 1


cdef size_t _joinable_end(const Plan* plan, const uint8_t* data, size_t first,
                          int64_t next_offset, int64_t size_max, int64_t* room) noexcept nogil:
    """The pieces from `first` on that may become one batch of at most that size, and the bytes that
    it takes at most."""
    cdef BatchHeader header
    cdef int64_t size = BATCH_HEADER_SIZE, growth = 0
    cdef size_t i = first
    while i < plan.pieces.size():
        batch_load_header(data + plan.pieces[i].position, &header)
        if not join_takes(&header) or header.base_offset < next_offset:
            break
        if size + header.size - BATCH_HEADER_SIZE > size_max:
            break
        size += header.size - BATCH_HEADER_SIZE
        growth += <int64_t>header.records_count * JOIN_GROWTH_MAX
        i += 1
    room[0] = min(size + growth, size_max)
    return i


# ---- with the GIL ----

cdef int _plan_of(
    Plan* plan, const unsigned char[::1] data, int64_t next_offset, list aborted, bint with_gaps
) except -1:
    cdef const uint8_t* at = &data[0] if data.shape[0] else NULL
    cdef int64_t size = data.shape[0]
    cdef int code
    take_aborted(&plan.aborted, aborted)
    plan.next_offset = next_offset
    plan.records = 0
    plan.with_gaps = with_gaps
    with nogil:
        code = _make_plan(plan, at, size)
    if code != OK:
        raise from_code(code, f"fetched batch at position {plan.position} of {size} bytes, behind "
                              f"offset {plan.next_offset}")
    return 0


def kept(const unsigned char[::1] data not None, int64_t next_offset, list aborted):
    """The committed batches of `data` from `next_offset` on, without a gap, for a log that ends
    there. `aborted` are pairs of producer id and first offset, as a Fetch has them."""
    cdef Plan plan
    cdef const uint8_t* at = &data[0] if data.shape[0] else NULL
    _plan_of(&plan, data, next_offset, aborted, True)
    cdef bytes into = PyBytes_FromStringAndSize(NULL, _size_of(&plan, at))
    cdef uint8_t* to = <uint8_t*>PyBytes_AS_STRING(into)
    with nogil:
        _write_kept(&plan, at, to)
    return Kept(into, plan.next_offset, plan.records)


def committed(
    const unsigned char[::1] data not None, int64_t next_offset, list aborted, int64_t join_max=0
):
    """Each committed batch of `data` that ends behind `next_offset`, and the offset behind all of
    them. Uncompressed ones that stand one behind the other are joined up to `join_max` bytes.
    `runs` says where records came from: pairs of a first offset and a length. One that no broker
    would take as it is, or that begins below `next_offset`, is not `is_as_produced`."""
    cdef Plan plan
    cdef BatchHeader header
    cdef const uint8_t* at = &data[0] if data.shape[0] else NULL
    cdef int64_t room
    cdef size_t i = 0, end
    _plan_of(&plan, data, next_offset, aborted, False)
    batches = []
    while i < plan.pieces.size():
        end = _joinable_end(&plan, at, i, next_offset, join_max, &room)
        if end > i + 1:
            end = i + _join(&plan, at, i, end, room, batches)
            if end > i:
                i = end
                continue
        batch_load_header(at + plan.pieces[i].position, &header)
        batches.append(Committed(
            PyByteArray_FromStringAndSize(
                <const char*>at + plan.pieces[i].position, header.size
            ),
            [(plan.pieces[i].base_offset, header.records_count)], header.records_count,
            _is_as_produced(&header) and header.base_offset >= next_offset,
        ))
        i += 1
    return batches, plan.next_offset


cdef size_t _join(const Plan* plan, const uint8_t* data, size_t first, size_t end, int64_t room,
                  list batches) except? 0:
    """How many of these pieces were joined to one batch; none when not even two could be."""
    cdef bytearray into = PyByteArray_FromStringAndSize(NULL, room)
    cdef Join join
    cdef BatchHeader header
    cdef size_t i = first
    join_begin(&join, <uint8_t*>PyByteArray_AS_STRING(into), room)
    with nogil:
        while i < end:
            batch_load_header(data + plan.pieces[i].position, &header)
            if not join_add(&join, data + plan.pieces[i].position, &header):
                break
            i += 1
        room = join_end(&join)
    if i < first + 2:
        return 0
    PyByteArray_Resize(into, room)
    batches.append(Committed(into, _runs(plan, first, i), join.records, True))
    return i - first


cdef list _runs(const Plan* plan, size_t first, size_t end):
    """Of pieces without gaps in them, neighbours as one."""
    cdef list runs = []
    cdef int64_t base_offset = plan.pieces[first].base_offset
    cdef size_t i
    for i in range(first, end):
        if i + 1 == end or plan.pieces[i].last_offset + 1 != plan.pieces[i + 1].base_offset:
            runs.append((base_offset, plan.pieces[i].last_offset + 1 - base_offset))
            if i + 1 < end:
                base_offset = plan.pieces[i + 1].base_offset
    return runs


def number(
    unsigned char[::1] batch not None, int64_t producer_id, int16_t producer_epoch,
    int32_t sequence, bint transactional=False,
):
    """Make a whole, checked batch the next one of this producer, in place."""
    cdef BatchHeader header
    if batch.shape[0] >= BATCH_HEADER_SIZE:
        batch_load_header(&batch[0], &header)
    if batch.shape[0] < BATCH_HEADER_SIZE or header.size != batch.shape[0]:
        raise from_code(BATCH_TORN, f"{batch.shape[0]} bytes are not one whole batch")
    with nogil:
        store_i64(&batch[0], 0)
        _set_producer(&batch[0], &header, producer_id, producer_epoch, sequence, transactional)


def gap(int64_t first_offset, int64_t end_offset):
    """Empty batches for the offsets from `first_offset` up to `end_offset`."""
    cdef Plan plan
    cdef bytes into
    cdef uint8_t* to
    cdef size_t i
    plan.next_offset = first_offset
    plan.with_gaps = True
    _add_gap(&plan, end_offset)
    into = PyBytes_FromStringAndSize(NULL, plan.pieces.size() * BATCH_HEADER_SIZE)
    to = <uint8_t*>PyBytes_AS_STRING(into)
    for i in range(plan.pieces.size()):
        _write_gap(to + i * BATCH_HEADER_SIZE, &plan.pieces[i])
    return into

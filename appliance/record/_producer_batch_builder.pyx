"""A producer's record batches: from lists of bytes to what goes on the wire.

Lists are looked at with the GIL once, to find out where the bytes are and how many of them fit.
What costs time, copying them and the sum over them, is done without it. The picture of a record is
in `_records.pyx`, that of a batch in `_batch.pyx`.

The records are one piece of memory and the 61 bytes before them another: sequence numbers are known
late and may change, and compression makes other records. Nothing is copied to put the two together,
a socket takes both.
"""

from cpython.bytes cimport (
    PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE,
)
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE, PyList_GetSlice
from cpython.object cimport PyObject
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy
from libcpp.vector cimport vector

from appliance._crc cimport crc32c
from appliance.native._bytes cimport varint_size, write_varint
from appliance.record._batch cimport (
    ATTRIBUTE_CODEC, BATCH_CRC_FROM, BATCH_HEADER_SIZE, BATCH_LOG_OVERHEAD, MAGIC, BatchHeader,
    batch_store_header,
)

from appliance import errors

cdef enum:
    HASH_SEED = 0x9747B28C         # of Kafka's default partitioner, as is what follows
    HASH_FACTOR = 0x5BD1E995
    HASH_SHIFT = 24
    VARINT_32_MAX = 5              # bytes of a length

# A record to be written. Its bytes belong to objects in lists that outlive it.
cdef struct Piece:
    const uint8_t* key
    const uint8_t* value
    const uint8_t* headers         # as they are written, with their count
    int64_t timestamp_delta
    int32_t headers_size           # -1: there are none
    int32_t key_size               # -1: null
    int32_t value_size             # -1: null
    int32_t body_size              # behind the length


# ---- without the GIL ----

cdef inline uint8_t* _put_field(uint8_t* at, const uint8_t* data, int32_t size) noexcept nogil:
    at = write_varint(at, size)
    if size > 0:
        memcpy(at, data, size)
        at += size
    return at


cdef void _put_records(uint8_t* at, const vector[Piece]& pieces) noexcept nogil:
    cdef size_t i
    cdef const Piece* piece
    for i in range(pieces.size()):
        piece = &pieces[i]
        at = write_varint(at, piece.body_size)
        at[0] = 0
        at = write_varint(at + 1, piece.timestamp_delta)
        at = write_varint(at, <int64_t>i)
        at = _put_field(at, piece.key, piece.key_size)
        at = _put_field(at, piece.value, piece.value_size)
        if piece.headers_size < 0:
            at[0] = 0
            at += 1
        else:
            memcpy(at, piece.headers, piece.headers_size)
            at += piece.headers_size


cdef inline int32_t _field_size(int32_t size) noexcept nogil:
    return <int32_t>varint_size(size) + (size if size > 0 else 0)


cdef void _measure(Piece* piece, int64_t offset_delta) noexcept nogil:
    piece.body_size = (
        1 + <int32_t>varint_size(piece.timestamp_delta) + <int32_t>varint_size(offset_delta)
        + _field_size(piece.key_size) + _field_size(piece.value_size)
        + (1 if piece.headers_size < 0 else piece.headers_size)
    )


cdef uint32_t _hash(const uint8_t* data, int32_t size) noexcept nogil:
    """Murmur2, as Kafka's producers of all languages hash a key."""
    cdef uint32_t h = <uint32_t>HASH_SEED ^ <uint32_t>size, word
    cdef int32_t left = size
    while left >= 4:
        memcpy(&word, data, 4)
        word *= <uint32_t>HASH_FACTOR
        word ^= word >> HASH_SHIFT
        word *= <uint32_t>HASH_FACTOR
        h = h * <uint32_t>HASH_FACTOR ^ word
        data += 4
        left -= 4
    if left >= 3:
        h ^= <uint32_t>data[2] << 16
    if left >= 2:
        h ^= <uint32_t>data[1] << 8
    if left >= 1:
        h ^= data[0]
        h *= <uint32_t>HASH_FACTOR
    h ^= h >> 13
    h *= <uint32_t>HASH_FACTOR
    return h ^ h >> 15


# ---- with the GIL ----

cdef class EncodedRecords:
    """The records of one batch, not compressed."""

    cdef readonly bytes data
    cdef readonly int32_t count
    cdef readonly int64_t base_timestamp
    cdef readonly int64_t max_timestamp


cdef inline bint _find(PyObject* given, const uint8_t** data, int32_t* size) noexcept:
    """Where the bytes are; false when it is neither bytes nor None."""
    if given == <PyObject*>None:
        size[0] = -1
        return True
    if not PyBytes_CheckExact(<object>given) or PyBytes_GET_SIZE(<object>given) > 0x7FFFFFFF:
        return False
    data[0] = <const uint8_t*>PyBytes_AS_STRING(<object>given)
    size[0] = <int32_t>PyBytes_GET_SIZE(<object>given)
    return True


cdef object _unfit(str what, list given, Py_ssize_t i):
    kind = type(given[i]).__name__
    return TypeError(f"{what} {i}: got {kind}, wanted bytes of less than 2 GiB, or None")


cdef int _fill_piece(Piece* piece, list values, list keys, list headers, Py_ssize_t i) except -1:
    piece.key_size = piece.headers_size = -1
    if not _find(PyList_GET_ITEM(values, i), &piece.value, &piece.value_size):
        raise _unfit("value", values, i)
    if keys is not None and not _find(PyList_GET_ITEM(keys, i), &piece.key, &piece.key_size):
        raise _unfit("key", keys, i)
    if headers is not None and not _find(
        PyList_GET_ITEM(headers, i), &piece.headers, &piece.headers_size
    ):
        raise _unfit("headers", headers, i)
    return 0


cdef int64_t _collect(
    list values, list keys, list headers, list timestamps, int64_t base_timestamp,
    Py_ssize_t start, int64_t size_max, vector[Piece]& pieces, int64_t* max_timestamp,
) except -1:
    """As many records from `start` on as fit into `size_max` bytes; returns their size."""
    cdef Piece piece
    cdef int64_t size = 0, more, timestamp
    cdef Py_ssize_t i
    piece.timestamp_delta = 0
    for i in range(start, PyList_GET_SIZE(values)):
        _fill_piece(&piece, values, keys, headers, i)
        if timestamps is not None:
            timestamp = timestamps[i]
            piece.timestamp_delta = timestamp - base_timestamp
            max_timestamp[0] = max(max_timestamp[0], timestamp)
        more = <int64_t>piece.key_size + piece.value_size + piece.headers_size
        if more <= size_max:
            _measure(&piece, pieces.size())
            more = varint_size(piece.body_size) + piece.body_size
        if size + more > size_max:
            if pieces.empty():
                raise errors.BatchTooLarge(f"record {i} of {more} bytes, {size_max} allowed")
            break
        pieces.push_back(piece)
        size += more
    return size


def encode_records(
    list values not None, list keys, timestamps, Py_ssize_t start, int64_t size_max,
    list headers=None,
):
    """As many records from `start` on as fit into `size_max` bytes, as EncodedRecords.

    `values` and `keys` are bytes or None each; `keys` may be None, which is no key at all.
    `timestamps` is one for all, or a list. A first record that does not fit is BatchTooLarge.
    `headers` are what `encode_headers` makes, or None, each.
    """
    cdef vector[Piece] pieces
    cdef EncodedRecords made = EncodedRecords.__new__(EncodedRecords)
    cdef list each = timestamps if isinstance(timestamps, list) else None
    cdef Py_ssize_t given = PyList_GET_SIZE(values)
    if not 0 <= start < given:
        raise IndexError(f"from record {start} of {given}")
    if keys is not None and PyList_GET_SIZE(keys) != given:
        raise ValueError(f"{PyList_GET_SIZE(keys)} keys for {given} values")
    if headers is not None and PyList_GET_SIZE(headers) != given:
        raise ValueError(f"{PyList_GET_SIZE(headers)} headers for {given} values")
    if each is not None and PyList_GET_SIZE(each) != given:
        raise ValueError(f"{PyList_GET_SIZE(each)} timestamps for {given} values")
    made.base_timestamp = timestamps if each is None else each[start]
    made.max_timestamp = made.base_timestamp
    cdef int64_t size = _collect(
        values, keys, headers, each, made.base_timestamp, start, size_max, pieces,
        &made.max_timestamp,
    )
    # from here on another thread may change the caller's lists: these hold what the pieces point to
    cdef Py_ssize_t end = start + pieces.size()
    held = PyList_GetSlice(values, start, end)
    held_keys = None if keys is None else PyList_GetSlice(keys, start, end)
    held_headers = None if headers is None else PyList_GetSlice(headers, start, end)
    made.count = <int32_t>pieces.size()
    made.data = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t* at = <uint8_t*>PyBytes_AS_STRING(made.data)
    with nogil:
        _put_records(at, pieces)
    del held, held_keys, held_headers
    return made


cdef uint8_t* _write_field(uint8_t* at, bytes field):
    if field is None:
        return _put_field(at, NULL, -1)
    return _put_field(
        at, <const uint8_t*>PyBytes_AS_STRING(field), <int32_t>PyBytes_GET_SIZE(field)
    )


def encode_headers(list pairs not None):
    """Names and values, bytes or None, as one record of `encode_records` has them."""
    cdef bytes name, value
    cdef int64_t size = varint_size(len(pairs))
    for name, value in pairs:
        size += 2 * VARINT_32_MAX + len(name) + (0 if value is None else len(value))
    if size > 0x7FFFFFFF:
        raise errors.BatchTooLarge(f"{len(pairs)} headers of {size} bytes")
    into = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t* begin = <uint8_t*>PyBytes_AS_STRING(into)
    cdef uint8_t* at = write_varint(begin, len(pairs))
    for name, value in pairs:
        at = _write_field(_write_field(at, name), value)
    return into[:at - begin]


def batch_head(
    EncodedRecords records not None, const unsigned char[::1] payload not None, int codec=0,
    int64_t producer_id=-1, int16_t producer_epoch=-1, int32_t base_sequence=-1,
):
    """The bytes before `payload`, which is `records.data`, or that compressed by `codec`."""
    cdef BatchHeader header
    cdef int64_t size = payload.shape[0]
    cdef const uint8_t* data = &payload[0]
    head = PyBytes_FromStringAndSize(NULL, BATCH_HEADER_SIZE)
    cdef uint8_t* at = <uint8_t*>PyBytes_AS_STRING(head)
    if BATCH_HEADER_SIZE + size - BATCH_LOG_OVERHEAD > 0x7FFFFFFF:
        raise errors.BatchTooLarge(f"batch of {size} bytes, its length field ends at {0x7FFFFFFF}")
    header.base_offset, header.size = 0, BATCH_HEADER_SIZE + size
    header.leader_epoch, header.magic, header.crc = -1, MAGIC, 0
    header.attributes = codec & ATTRIBUTE_CODEC
    header.records_count = records.count
    header.last_offset_delta = records.count - 1
    header.base_timestamp, header.max_timestamp = records.base_timestamp, records.max_timestamp
    header.producer_id, header.producer_epoch = producer_id, producer_epoch
    header.base_sequence = base_sequence
    with nogil:
        batch_store_header(at, &header)
        header.crc = crc32c(0, at + BATCH_CRC_FROM, BATCH_HEADER_SIZE - BATCH_CRC_FROM)
        header.crc = crc32c(header.crc, data, size)
        batch_store_header(at, &header)
    return head


def key_hash(bytes key not None):
    """What Kafka's default partitioner takes modulo the number of partitions."""
    return _hash(<const uint8_t*>PyBytes_AS_STRING(key), len(key)) & 0x7FFFFFFF


def check_fields(list given not None, str what not None):
    """TypeError for the first that is neither bytes nor None."""
    cdef const uint8_t* data
    cdef int32_t size
    cdef Py_ssize_t i
    for i in range(PyList_GET_SIZE(given)):
        if not _find(PyList_GET_ITEM(given, i), &data, &size):
            raise _unfit(what, given, i)


def split_by_key(list keys not None, list values not None, Py_ssize_t count):
    """For each of `count` partitions the keys and the values that belong there, in order. Those
    without a key are behind the last one: they belong anywhere."""
    cdef const uint8_t* data
    cdef int32_t size
    cdef Py_ssize_t i, to
    if PyList_GET_SIZE(keys) != PyList_GET_SIZE(values):
        raise ValueError(f"{PyList_GET_SIZE(keys)} keys for {PyList_GET_SIZE(values)} values")
    if count < 1:
        raise ValueError(f"{count} partitions")
    cdef list parts = [([], []) for _ in range(count + 1)]
    cdef tuple part
    for i in range(PyList_GET_SIZE(keys)):
        if not _find(PyList_GET_ITEM(keys, i), &data, &size):
            raise _unfit("key", keys, i)
        to = count if size < 0 else (_hash(data, size) & 0x7FFFFFFF) % count
        part = <tuple>parts[to]
        (<list>part[0]).append(keys[i])
        (<list>part[1]).append(values[i])
    return parts

"""Fields of the wire protocol: reads that cannot pass the end of the bytes, writes that append.

Strings, arrays and bytes have a 16- or 32-bit length in old versions and an unsigned varint of
length + 1 in flexible ones; both readers give -1 for null.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy
from libcpp.vector cimport vector

from appliance.native._bytes cimport (
    Cursor, load_i16, load_i32, load_i64, store_i16, store_i32, store_i64,
)

# Borrowed bytes; `size` -1 is null.
cdef struct Piece:
    const uint8_t* data
    int64_t size


cdef inline bint _has(Cursor* cursor, int64_t size) noexcept nogil:
    if size < 0 or cursor.end - cursor.at < size:
        cursor.failed = True
    return not cursor.failed


cdef inline int8_t read_i8(Cursor* cursor) noexcept nogil:
    if not _has(cursor, 1):
        return 0
    cursor.at += 1
    return <int8_t>cursor.at[-1]


cdef inline int16_t read_i16(Cursor* cursor) noexcept nogil:
    if not _has(cursor, 2):
        return 0
    cursor.at += 2
    return load_i16(cursor.at - 2)


cdef inline int32_t read_i32(Cursor* cursor) noexcept nogil:
    if not _has(cursor, 4):
        return 0
    cursor.at += 4
    return load_i32(cursor.at - 4)


cdef inline int64_t read_i64(Cursor* cursor) noexcept nogil:
    if not _has(cursor, 8):
        return 0
    cursor.at += 8
    return load_i64(cursor.at - 8)


cdef inline int64_t read_uvarint(Cursor* cursor) noexcept nogil:
    """At most 32 bits, as every length and tag is."""
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while cursor.at < cursor.end and shift < 35:
        byte = cursor.at[0]
        cursor.at += 1
        value |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFFULL:
                break
            return <int64_t>value
        shift += 7
    cursor.failed = True
    return 0


cdef inline Piece read_piece(Cursor* cursor, int64_t size) noexcept nogil:
    cdef Piece piece
    piece.data = NULL
    piece.size = -1
    if size >= 0 and _has(cursor, size):
        piece.data = cursor.at
        piece.size = size
        cursor.at += size
    elif size < -1:
        cursor.failed = True
    return piece


cdef inline Piece read_string(Cursor* cursor, bint is_flexible) noexcept nogil:
    return read_piece(cursor, read_uvarint(cursor) - 1 if is_flexible else read_i16(cursor))


cdef inline Piece read_bytes(Cursor* cursor, bint is_flexible) noexcept nogil:
    return read_piece(cursor, read_uvarint(cursor) - 1 if is_flexible else read_i32(cursor))


cdef inline int64_t read_count(Cursor* cursor, bint is_flexible) noexcept nogil:
    """Of an array whose elements have at least one byte each: more than is left is a lie."""
    cdef int64_t count = read_uvarint(cursor) - 1 if is_flexible else read_i32(cursor)
    if count < -1 or count > cursor.end - cursor.at:
        cursor.failed = True
    return count if not cursor.failed else 0


cdef inline void skip_tags(Cursor* cursor, bint is_flexible) noexcept nogil:
    cdef int64_t left
    if not is_flexible:
        return
    left = read_uvarint(cursor)
    while left > 0 and not cursor.failed:
        read_uvarint(cursor)
        read_piece(cursor, read_uvarint(cursor))
        left -= 1


# Writing

cdef inline uint8_t* put_room(vector[uint8_t]* out, size_t size) noexcept nogil:
    out.resize(out.size() + size)
    return out.data() + out.size() - size


cdef inline void put_i16(vector[uint8_t]* out, int16_t value) noexcept nogil:
    store_i16(put_room(out, 2), value)


cdef inline void put_i32(vector[uint8_t]* out, int32_t value) noexcept nogil:
    store_i32(put_room(out, 4), value)


cdef inline void put_i64(vector[uint8_t]* out, int64_t value) noexcept nogil:
    store_i64(put_room(out, 8), value)


cdef inline void put_uvarint(vector[uint8_t]* out, uint32_t value) noexcept nogil:
    while value >= 0x80:
        out.push_back(<uint8_t>(value | 0x80))
        value >>= 7
    out.push_back(<uint8_t>value)


cdef inline void put_raw(vector[uint8_t]* out, const void* data, size_t size) noexcept nogil:
    if size > 0:
        memcpy(put_room(out, size), data, size)


cdef inline void put_string(vector[uint8_t]* out, const char* text, int64_t size,
                            bint is_flexible) noexcept nogil:
    """`size` -1 is null."""
    if is_flexible:
        put_uvarint(out, <uint32_t>(size + 1))
    else:
        put_i16(out, <int16_t>size)
    if size > 0:
        put_raw(out, text, size)


cdef inline void put_count(vector[uint8_t]* out, int64_t count, bint is_flexible) noexcept nogil:
    """Of an array or of bytes; -1 is null."""
    if is_flexible:
        put_uvarint(out, <uint32_t>(count + 1))
    else:
        put_i32(out, <int32_t>count)


cdef inline void put_tags(vector[uint8_t]* out, bint is_flexible) noexcept nogil:
    if is_flexible:
        out.push_back(0)

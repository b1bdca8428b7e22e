"""Big-endian loads and stores, and zigzag varints, over borrowed bytes.

The caller has checked that the bytes are there; only the varint reader checks for itself, because
it is what finds out where a record ends.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from * nogil:
    uint16_t bswap16 "__builtin_bswap16"(uint16_t)
    uint32_t bswap32 "__builtin_bswap32"(uint32_t)
    uint64_t bswap64 "__builtin_bswap64"(uint64_t)
    int count_trailing_zeros "__builtin_ctzll"(unsigned long long word)
    long expect "__builtin_expect"(long condition, long usual)


cdef inline int16_t load_i16(const uint8_t* data) noexcept nogil:
    cdef uint16_t raw
    memcpy(&raw, data, 2)
    return <int16_t>bswap16(raw)


cdef inline int32_t load_i32(const uint8_t* data) noexcept nogil:
    cdef uint32_t raw
    memcpy(&raw, data, 4)
    return <int32_t>bswap32(raw)


cdef inline uint32_t load_u32(const uint8_t* data) noexcept nogil:
    cdef uint32_t raw
    memcpy(&raw, data, 4)
    return bswap32(raw)


cdef inline int64_t load_i64(const uint8_t* data) noexcept nogil:
    cdef uint64_t raw
    memcpy(&raw, data, 8)
    return <int64_t>bswap64(raw)


cdef inline void store_i16(uint8_t* data, int16_t value) noexcept nogil:
    cdef uint16_t raw = bswap16(<uint16_t>value)
    memcpy(data, &raw, 2)


cdef inline void store_i32(uint8_t* data, int32_t value) noexcept nogil:
    cdef uint32_t raw = bswap32(<uint32_t>value)
    memcpy(data, &raw, 4)


cdef inline void store_u32(uint8_t* data, uint32_t value) noexcept nogil:
    cdef uint32_t raw = bswap32(value)
    memcpy(data, &raw, 4)


cdef inline void store_i64(uint8_t* data, int64_t value) noexcept nogil:
    cdef uint64_t raw = bswap64(<uint64_t>value)
    memcpy(data, &raw, 8)


# A cursor over borrowed bytes. `failed` is sticky: check it once, after the last read.
cdef struct Cursor:
    const uint8_t* at
    const uint8_t* end
    bint failed


cdef inline int64_t read_varint(Cursor* cursor, int bits) noexcept nogil:
    """A zigzag varint of at most `bits` (32 or 64) bits; a longer one, or one cut short, fails."""
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while cursor.at < cursor.end and shift < bits:
        byte = cursor.at[0]
        cursor.at += 1
        value |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            if bits == 32 and value > 0xFFFFFFFFULL or shift == 63 and byte > 1:
                break
            return <int64_t>(value >> 1) ^ -<int64_t>(value & 1)
        shift += 7
    cursor.failed = True
    return 0


cdef inline size_t varint_size(int64_t value) noexcept nogil:
    cdef uint64_t zigzag = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    cdef size_t size = 1
    while zigzag >= 0x80:
        zigzag >>= 7
        size += 1
    return size


cdef inline uint8_t* write_varint(uint8_t* at, int64_t value) noexcept nogil:
    cdef uint64_t zigzag = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    while zigzag >= 0x80:
        at[0] = <uint8_t>(zigzag | 0x80)
        zigzag >>= 7
        at += 1
    at[0] = <uint8_t>zigzag
    return at + 1

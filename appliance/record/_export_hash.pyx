"""One 64-bit hash per record, over columns in Arrow's layout, for `export_hash` of `spark/`.

It is SipHash-2-4 under the key 00 01 .. 0f, which is public: it finds accidents, not forgers. The
sum of the hashes of many records, modulo 2^64, does not depend on their order, so the hash of two
files is the sum of theirs. What is hashed, little-endian:

    partition i32 | offset i64 | timestamp i64 | key | value | headers, their number i32 | ...

where a key or a value, of a header too, is its size as i32, or -1 for null, and its bytes.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from appliance.native._siphash cimport SipHash, sip_begin, sip_result, sip_take

cdef struct Sip:
    SipHash state
    uint64_t tail  # the bytes that do not fill a word yet, the first one lowest
    uint64_t size  # of all bytes so far

cdef struct Bytes:  # a column of byte strings, borrowed from Arrow
    const int32_t* ends  # of record i: from ends[i] to ends[i + 1]
    const uint8_t* data
    const uint8_t* validity  # a bit per value, NULL when all are there
    int64_t first  # the bit of record 0

cdef struct Lists:  # the lists of headers, and what is in them
    const int32_t* ends
    const uint8_t* validity
    int64_t first
    Bytes key
    Bytes value


# ---- without the GIL ----

cdef inline void _begin(Sip* sip) noexcept nogil:
    sip_begin(&sip.state, 0x0706050403020100U, 0x0F0E0D0C0B0A0908U)
    sip.tail = sip.size = 0


cdef inline void _feed_byte(Sip* sip, uint8_t byte) noexcept nogil:
    sip.tail |= <uint64_t>byte << (8 * (sip.size & 7))
    sip.size += 1
    if sip.size & 7 == 0:
        sip_take(&sip.state, sip.tail)
        sip.tail = 0


cdef inline void _feed(Sip* sip, const uint8_t* data, int64_t size) noexcept nogil:
    """Whole words are shifted together with what is left of the one before."""
    cdef int bits = 8 * (sip.size & 7)
    cdef int64_t words = size >> 3, i
    cdef uint64_t word
    for i in range(words):
        memcpy(&word, data + 8 * i, 8)
        sip_take(&sip.state, sip.tail | (word << bits))
        sip.tail = word >> (64 - bits) if bits else 0
    sip.size += 8 * words
    for i in range(8 * words, size):
        _feed_byte(sip, data[i])


cdef inline uint64_t _end(Sip* sip) noexcept nogil:
    sip_take(&sip.state, sip.tail | (sip.size << 56))
    sip.state.v2 ^= 0xFF
    return sip_result(&sip.state)


cdef inline bint _is_null(const uint8_t* validity, int64_t bit) noexcept nogil:
    return validity != NULL and not validity[bit >> 3] >> (bit & 7) & 1


cdef inline void _feed_value(Sip* sip, const Bytes* column, int64_t i) noexcept nogil:
    cdef int32_t size = column.ends[i + 1] - column.ends[i]
    if _is_null(column.validity, column.first + i):
        size = -1
    _feed(sip, <const uint8_t*>&size, 4)
    if size > 0:
        _feed(sip, column.data + column.ends[i], size)


cdef inline void _feed_headers(Sip* sip, const Lists* headers, int64_t i) noexcept nogil:
    cdef int32_t begin = headers.ends[i], count = headers.ends[i + 1] - begin, at
    if _is_null(headers.validity, headers.first + i):
        count = 0
    _feed(sip, <const uint8_t*>&count, 4)
    for at in range(begin, begin + count):
        _feed_value(sip, &headers.key, at)
        _feed_value(sip, &headers.value, at)


cdef void _hash_all(
    uint64_t* hashes, int64_t count, int32_t partition, const int64_t* offsets,
    const int64_t* timestamps, const Bytes* key, const Bytes* value, const Lists* headers
) noexcept nogil:
    cdef Sip sip
    cdef int64_t i
    for i in range(count):
        _begin(&sip)
        _feed(&sip, <const uint8_t*>&partition, 4)
        _feed(&sip, <const uint8_t*>&offsets[i], 8)
        _feed(&sip, <const uint8_t*>&timestamps[i], 8)
        _feed_value(&sip, key, i)
        _feed_value(&sip, value, i)
        _feed_headers(&sip, headers, i)
        hashes[i] = _end(&sip)


# ---- with the GIL ----

cdef class _Column:
    """Buffers of Arrow, held for as long as they are borrowed."""

    cdef const int[::1] ends
    cdef const unsigned char[::1] data, validity
    cdef long long first

    def __init__(self, ends, data, validity, first):
        self.ends, self.data, self.validity, self.first = ends, data, validity, first

    cdef Bytes bytes(self):
        cdef Bytes column
        column.ends, column.first = <const int32_t*>&self.ends[0], self.first
        column.data = column.validity = <const uint8_t*>NULL
        if self.data is not None and self.data.shape[0]:
            column.data = &self.data[0]
        if self.validity is not None and self.validity.shape[0]:
            column.validity = &self.validity[0]
        return column


def record_hashes(
    int partition, const long long[::1] offsets not None, const long long[::1] timestamps not None,
    key, value, lists, header_key, header_value,
):
    """As many 64-bit words as there are records. A column is (ends, data, validity, first bit)."""
    cdef long long count = offsets.shape[0]
    held = [_Column(*each) for each in (key, value, lists, header_key, header_value)]
    if timestamps.shape[0] != count or min(len((<_Column>c).ends) for c in held[:3]) <= count:
        raise ValueError(f"the columns of {count} records are not all as long as that")
    hashes = bytearray(8 * count)
    if count == 0:
        return hashes
    cdef unsigned char[::1] to = hashes
    cdef Bytes keys = (<_Column>held[0]).bytes(), values = (<_Column>held[1]).bytes()
    cdef Bytes ends = (<_Column>held[2]).bytes()
    cdef Lists headers
    headers.ends, headers.validity, headers.first = ends.ends, ends.validity, ends.first
    headers.key, headers.value = (<_Column>held[3]).bytes(), (<_Column>held[4]).bytes()
    with nogil:
        _hash_all(<uint64_t*>&to[0], count, partition, <const int64_t*>&offsets[0],
                  <const int64_t*>&timestamps[0], &keys, &values, &headers)
    return hashes

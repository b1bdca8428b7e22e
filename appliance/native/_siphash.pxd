"""SipHash-2-4: its state, words of 8 bytes into it, and what comes out."""

from libc.stdint cimport uint64_t

cdef struct SipHash:
    uint64_t v0, v1, v2, v3

cdef inline void sip_begin(SipHash* sip, uint64_t low, uint64_t high) noexcept nogil:
    """`low` and `high` are the key."""
    sip.v0 = low ^ 0x736F6D6570736575ULL
    sip.v1 = high ^ 0x646F72616E646F6DULL
    sip.v2 = low ^ 0x6C7967656E657261ULL
    sip.v3 = high ^ 0x7465646279746573ULL

cdef inline uint64_t sip_rotated(uint64_t word, int bits) noexcept nogil:
    return word << bits | word >> (64 - bits)

cdef inline void sip_round(SipHash* sip) noexcept nogil:
    sip.v0 += sip.v1
    sip.v1 = sip_rotated(sip.v1, 13) ^ sip.v0
    sip.v0 = sip_rotated(sip.v0, 32)
    sip.v2 += sip.v3
    sip.v3 = sip_rotated(sip.v3, 16) ^ sip.v2
    sip.v0 += sip.v3
    sip.v3 = sip_rotated(sip.v3, 21) ^ sip.v0
    sip.v2 += sip.v1
    sip.v1 = sip_rotated(sip.v1, 17) ^ sip.v2
    sip.v2 = sip_rotated(sip.v2, 32)

cdef inline void sip_take(SipHash* sip, uint64_t word) noexcept nogil:
    sip.v3 ^= word
    sip_round(sip)
    sip_round(sip)
    sip.v0 ^= word

cdef inline uint64_t sip_result(SipHash* sip) noexcept nogil:
    cdef int _i
    for _i in range(4):
        sip_round(sip)
    return sip.v0 ^ sip.v1 ^ sip.v2 ^ sip.v3

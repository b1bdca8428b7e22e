"""Keys as digests: an open hash table of 24 bytes a key, whatever the length of the keys.

The digest is SipHash-2-4 with 128 bits of output, under a secret drawn for each map. Two keys with
one digest would make compaction drop a record that nothing replaces, so the digest must not collide
by chance (128 bits: 10^-25 for a full map) nor on purpose (a client that does not know the secret
cannot aim). `docs/decisions/compaction-map.md` has the alternatives.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy
from libcpp.vector cimport vector

from appliance.native._codes cimport OK, STORAGE_IO
from appliance.native._siphash cimport SipHash, sip_begin, sip_result, sip_take

cdef extern from "sys/random.h" nogil:
    ssize_t getrandom(void* data, size_t size, unsigned int flags)

cdef enum:
    SLOTS_FIRST = 1024             # most logs have few keys


# ---- without the GIL ----

cdef void _digest(
    const uint64_t* secret, const uint8_t* key, int32_t key_size, Slot* slot
) noexcept nogil:
    cdef SipHash sip
    cdef uint64_t word
    cdef int32_t left = key_size
    sip_begin(&sip, secret[0], secret[1])
    sip.v1 ^= 0xEE                 # 128 bits are asked for
    while left >= 8:
        memcpy(&word, key, 8)
        sip_take(&sip, word)
        key += 8
        left -= 8
    word = 0
    memcpy(&word, key, left)
    sip_take(&sip, word | <uint64_t>(key_size & 0xFF) << 56)
    sip.v2 ^= 0xEE
    slot.low = sip_result(&sip)
    sip.v1 ^= 0xDD
    slot.high = sip_result(&sip)


cdef int offset_map_start(OffsetMap* map, int64_t keys_max) except? -1 nogil:
    map.slots.clear()
    map.slots.resize(SLOTS_FIRST)
    map.count = 0
    map.keys_max = keys_max
    return OK if getrandom(map.secret, sizeof(map.secret), 0) == sizeof(map.secret) else STORAGE_IO


cdef inline size_t _find(const vector[Slot]* slots, const Slot* wanted) noexcept nogil:
    """Where the key is, or the free slot where it would be."""
    cdef size_t mask = slots.size() - 1
    cdef size_t at = wanted.low & mask
    cdef const Slot* slot
    while True:
        slot = slots.data() + at
        if slot.end_offset == 0 or (slot.low == wanted.low and slot.high == wanted.high):
            return at
        at = (at + 1) & mask


cdef int _grow(OffsetMap* map) except -1 nogil:
    cdef vector[Slot] wider
    cdef size_t i
    wider.resize(map.slots.size() * 2)
    for i in range(map.slots.size()):
        if map.slots[i].end_offset != 0:
            wider[_find(&wider, &map.slots[i])] = map.slots[i]
    map.slots.swap(wider)
    return 0


cdef int offset_map_put(
    OffsetMap* map, const uint8_t* key, int32_t key_size, int64_t offset
) except? -1 nogil:
    cdef Slot wanted
    cdef size_t at
    _digest(map.secret, key, key_size, &wanted)
    wanted.end_offset = offset + 1
    at = _find(&map.slots, &wanted)
    if map.slots[at].end_offset == 0:
        if map.count >= map.keys_max:
            return 0
        if <size_t>(map.count + 1) > map.slots.size() // 4 * 3:
            _grow(map)
            at = _find(&map.slots, &wanted)
        map.count += 1
    map.slots[at] = wanted
    return 1


cdef int64_t offset_map_get(
    const OffsetMap* map, const uint8_t* key, int32_t key_size
) noexcept nogil:
    cdef Slot wanted
    _digest(map.secret, key, key_size, &wanted)
    return map.slots[_find(&map.slots, &wanted)].end_offset - 1

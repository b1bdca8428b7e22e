"""The last offset of each key for compaction, in bounded memory."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libcpp.vector cimport vector

cdef enum:
    # 3/4 of 4 Mi slots of 24 bytes: 96 MiB, within the 128 MiB that Kafka's cleaner takes as its
    # default. A log with more keys is compacted in several rounds.
    KEYS_MAX = 3145728

cdef struct Slot:
    uint64_t low                   # of the key's digest
    uint64_t high
    int64_t end_offset             # one past the key's last offset; 0: the slot is free

cdef cppclass OffsetMap:
    vector[Slot] slots             # a power of two of them
    int64_t count                  # keys in it
    int64_t keys_max
    uint64_t[2] secret             # of the digest, drawn anew for each map

# Empties the map and draws its secret: OK or STORAGE_IO, when the kernel has no randomness to give.
cdef int offset_map_start(OffsetMap* map, int64_t keys_max) except? -1 nogil

# Sets a key's offset, which must be above the one it had. 0: the map is full and has not got it.
cdef int offset_map_put(
    OffsetMap* map, const uint8_t* key, int32_t key_size, int64_t offset
) except? -1 nogil

# The key's offset; -1: not in the map.
cdef int64_t offset_map_get(
    const OffsetMap* map, const uint8_t* key, int32_t key_size
) noexcept nogil

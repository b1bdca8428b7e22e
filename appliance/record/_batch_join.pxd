"""Several uncompressed batches as one, for a broker that takes one a partition in a request."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from appliance.record._batch cimport BatchHeader

cdef enum:
    # What a record may grow by: offset delta from 1 byte to 5, timestamp delta to 10, length to 5.
    JOIN_GROWTH_MAX = 17

# A batch that grows in borrowed bytes.
cdef struct Join:
    uint8_t* start
    uint8_t* at                    # behind the last record
    const uint8_t* end
    int64_t base_timestamp
    int64_t max_timestamp
    int32_t records

# `size` bytes at `into` are its room.
cdef void join_begin(Join* join, uint8_t* into, int64_t size) noexcept nogil

# Whether this batch can be a part of one at all: not compressed, and as a producer made it.
cdef bint join_takes(const BatchHeader* header) noexcept nogil

# Adds the records of a whole, checked batch behind those that are there. False, and nothing is
# added, where they do not fit, or are not what the header says.
cdef bint join_add(Join* join, const uint8_t* data, const BatchHeader* header) noexcept nogil

# Writes the header, of no producer and from offset 0 on; the CRC is left to who numbers the batch.
# Returns the size of the whole.
cdef int64_t join_end(Join* join) noexcept nogil

"""Produce, from frame to log and back."""

from libc.stdint cimport int64_t

from appliance.native._bytes cimport Cursor
from appliance.network._connection cimport Connection, Slot

cdef enum:
    PRODUCE_KEY = 0
    PRODUCE_MIN = 3
    PRODUCE_MAX = 13

# A code of `Handled`. `cursor` stands behind the request header; the frame's bytes are stamped in
# place.
cdef int produce(Connection* connection, int64_t slot_number, int version, int correlation_id,
                 Cursor* cursor) noexcept nogil
# Looks again at a produce that waits; True when its slot became ready.
cdef bint produce_check(Connection* connection, Slot* slot, bint is_late) noexcept nogil
cdef void produce_forget(Connection* connection, Slot* slot) noexcept nogil

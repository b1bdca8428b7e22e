"""Produce, from frame to log and back."""

from libc.stdint cimport int64_t

from appliance.native._bytes cimport Cursor
from appliance.native._native cimport RawBytes
from appliance.network._connection cimport Connection, Slot
from appliance.network._processor cimport Processor

cdef enum:
    PRODUCE_KEY = 0
    PRODUCE_MIN = 3
    PRODUCE_MAX = 13

# A code of `Handled`. `cursor` stands behind the request header; the frame's bytes are stamped in
# place. What is too much for one turn becomes `connection.produce`, which takes `frame`; NULL: it
# copies the request.
cdef int produce(Connection* connection, int64_t slot_number, int version, int correlation_id,
                 Cursor* cursor, RawBytes* frame) noexcept nogil
# The next part of `connection.produce`; True when that was the last.
cdef bint produce_go_on(Processor* processor, Connection* connection) noexcept nogil
# All that is left of it, for a connection that ends.
cdef void produce_finish(Processor* processor, Connection* connection) noexcept nogil
# Looks again at a produce that waits; True when its slot became ready.
cdef bint produce_check(Connection* connection, Slot* slot, bint is_late) noexcept nogil
cdef void produce_forget(Connection* connection, Slot* slot) noexcept nogil

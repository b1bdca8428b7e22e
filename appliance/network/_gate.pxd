"""What a connection may send before it has logged in, and after its login ended."""

from libc.stdint cimport int64_t, uint8_t

from appliance.network._connection cimport Connection, Slot
from appliance.network._processor cimport Processor
from appliance.storage._partition_waits cimport Mail

cdef enum:
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    SASL_AUTHENTICATE = 36

# A whole frame of one whose `good_until_ns` is not 0; False: the connection was closed.
cdef bint gate_admits(Processor* processor, Connection* connection, const uint8_t* data,
                      int64_t size) noexcept nogil
# The control plane answers this request. Of a login, nothing is read before it did.
cdef void gate_bar(Connection* connection, int64_t slot_number, int key) noexcept nogil
cdef void gate_unbar(Connection* connection, Slot* slot) noexcept nogil
# Mails of the control plane; the connection may be gone afterwards.
cdef void gate_log_in(Processor* processor, Connection* connection, Mail* mail) noexcept nogil
cdef void gate_end_after(Connection* connection, Slot* slot) noexcept nogil
# What took too long; True: the connection has to be closed.
cdef bint gate_is_late(Connection* connection, int64_t now_ns) noexcept nogil

"""How large a request may be, and how much memory those that arrive may take."""

from libc.stdint cimport int64_t, uint8_t

from appliance.network._connection cimport Connection
from appliance.network._processor cimport Processor

cdef enum:
    HEADER_MIN = 8                 # of a request: key, version, correlation id
    UNRESERVED_MAX = 16384         # a frame of a normal request; ten thousand connections' fit

# A token of a login has no header, and may be empty.
cdef inline int64_t request_size_min(Connection* connection) noexcept nogil:
    return 0 if connection.is_raw else HEADER_MIN


# Believes the length field in `data`, within limits; False: the connection was closed.
cdef bint request_admit(Processor* processor, Connection* connection,
                        const uint8_t* data) noexcept nogil
# Memory is promised to a frame that is being read; one that is held back has no use for it.
cdef void request_want_memory(Processor* processor, Connection* connection) noexcept nogil
# The frame is whole: what was promised to it is free.
cdef void request_is_whole(Connection* connection) noexcept nogil
# The request was handed to the control plane, in whose memory it is now.
cdef void request_is_passed_on(Processor* processor, Connection* connection, int64_t slot,
                               int64_t size) noexcept nogil
# Whether one that stands back for memory may be read again.
cdef bint request_may_go_on(Connection* connection) noexcept nogil

"""Who answers a request: this thread, or the control plane."""

from libc.stdint cimport int64_t, uint8_t

from appliance.native._native cimport RawBytes
from appliance.network._connection cimport Connection
from appliance.network._processor cimport Processor

# What became of a request that this thread tried to answer.
cdef enum Handled:
    HANDLED = 0                    # the slot is ready, or waits
    PUNTED = 1                     # nothing was done: the control plane answers
    MALFORMED = 2                  # nothing was done: the frame is not such a request

# One request, a frame without its length; False: the connection is gone. `frame` is the memory that
# it stands in, which a request that takes several turns keeps; NULL: others need that memory.
cdef bint dispatch(Processor* processor, Connection* connection, uint8_t* data, int64_t size,
                   RawBytes* frame) noexcept nogil

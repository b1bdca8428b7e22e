"""From what a client sends to frames, one for each request."""

from appliance.network._connection cimport Connection
from appliance.network._processor cimport Processor

cdef enum:
    SCRATCH_BYTES = 262144         # room of a thread for what it reads

# One read of what came, and its whole frames.
cdef void frames_read(Processor* processor, Connection* connection) noexcept nogil
# Frames that stood back while too many requests were in flight; False: the connection is gone.
cdef bint frames_resume(Processor* processor, Connection* connection) noexcept nogil
cdef bint frames_are_held(Connection* connection) noexcept nogil
# Lets in those that wait for memory, oldest first, while there is some.
cdef void frames_feed(Processor* processor) noexcept nogil

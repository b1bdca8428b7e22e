"""queued.max.response.bytes: the memory of responses that wait because their clients do not read.

While all connections together are above it, each that is above its own share is closed, as soon as
its socket takes no more or the next look at timeouts comes.
"""

from libc.stdint cimport int64_t

from appliance.network._connection cimport Connection
from appliance.network._control_plane_inbox cimport CLOSURE_HELD, Plane, closure_put


# ---- without the GIL ----

cdef bint responses_take_too_much(Connection* connection) noexcept nogil:
    cdef Plane* plane = connection.plane
    cdef int64_t most = plane.limits.held_bytes
    if plane.held_bytes.load() <= most:
        return False
    if connection.held_bytes <= most // max(<int64_t>1, <int64_t>plane.connections.open.load()):
        return False
    plane.counters.closed_slow.fetch_add(1)
    closure_put(plane, connection.peer, CLOSURE_HELD, connection.held_bytes, most)
    return True

"""Whether a listener's connections wait, and until when."""

from appliance.network._acceptor cimport Acceptor
from appliance.network._control_plane_inbox cimport Plane

# Whether a listener's next connection has to wait. If so the listener is shut.
cdef bint throttle_shuts(Acceptor* acceptor, int listener) noexcept nogil
# Opens the listeners whose time has come. The result: milliseconds to the next, -1: nobody knows.
cdef int throttle_look_again(Acceptor* acceptor) noexcept nogil
# A listener has one connection more; its address's quota may have it wait before it is read.
cdef void throttle_note(Plane* plane, int listener, bint is_muted) noexcept nogil

"""Handshakes on a processor thread: how many may be under way, how much of a turn they get, and
what follows one."""

from libc.stdint cimport uint32_t
from libcpp.string cimport string

from appliance.network._connection cimport Connection
from appliance.network._control_plane_inbox cimport Plane
from appliance.network._processor cimport Processor

# For the acceptor: whether another handshake of this address may begin.
cdef bint handshake_admit(Plane* plane, const string& peer) noexcept nogil
# Before the events of a connection with TLS are dealt with. False: that is all there is to do now,
# or the connection is gone. Else `events` has what there is to do.
cdef bint handshake_go_on(Processor* processor, Connection* connection,
                          uint32_t* events) noexcept nogil
# Whether it has taken too long.
cdef bint handshake_is_late(Processor* processor, Connection* connection) noexcept nogil

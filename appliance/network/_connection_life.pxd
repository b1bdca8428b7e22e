"""How a connection begins on its thread, and how it ends."""

from libc.stdint cimport int64_t
from libcpp.string cimport string

from appliance.network._connection cimport Connection
from appliance.network._processor cimport Processor
from appliance.storage._partition_waits cimport Mail

# The acceptor hands one to a thread, which takes it over.
cdef void connection_give(Processor* processor, int fd, const string& peer, int listener,
                          int64_t mute_until_ns) noexcept nogil
cdef void connection_take(Processor* processor, Mail* mail) noexcept nogil
cdef void connection_close(Processor* processor, Connection* connection) noexcept nogil
# Closes one whose request cannot be accepted; a kind and its numbers as `_control_plane_inbox.pxd`
# has them.
cdef void connection_refuse(Processor* processor, Connection* connection, int kind, int64_t got,
                            int64_t wanted, int key=*, int version=*) noexcept nogil

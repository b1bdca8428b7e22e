from libcpp.string cimport string

cdef string peer_network(const string& peer) noexcept nogil

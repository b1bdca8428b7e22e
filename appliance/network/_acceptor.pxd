"""The thread that takes connections and deals them out to the processors."""

from libcpp.vector cimport vector

from appliance.native._native cimport atomic_bool, pthread_t
from appliance.network._control_plane_inbox cimport Plane
from appliance.network._processor cimport Processor

# `new Acceptor()` zeroes it.
cdef cppclass Acceptor:
    Plane* plane
    vector[Processor*]* processors
    int epoll_fd
    int stop_fd
    atomic_bool must_stop
    size_t turn
    pthread_t thread

# Takes connections of a socket that listens; `number` tells which listener it is of. The result: -1
# with an errno.
cdef int acceptor_listen(Acceptor* acceptor, int fd, int number) noexcept nogil
# The result: 0, or an errno.
cdef int acceptor_start(Acceptor* acceptor) noexcept nogil
cdef void acceptor_stop(Acceptor* acceptor) noexcept nogil

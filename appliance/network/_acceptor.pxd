"""The thread that takes connections and deals them out to the processors."""

from libcpp.vector cimport vector

from appliance.native._native cimport atomic_bool, pthread_t
from appliance.network._control_plane_inbox cimport LISTENERS_MAX, Plane
from appliance.network._processor cimport Processor

# `new Acceptor()` zeroes it.
cdef cppclass Acceptor:
    Plane* plane
    vector[Processor*]* processors
    int epoll_fd
    int[LISTENERS_MAX] fds         # of the listeners, by their numbers
    int listeners
    int shut                       # how many of them let their connections wait
    int latest                     # the one that took a connection last
    atomic_bool must_stop
    size_t turn
    pthread_t thread

# Takes connections of a socket that listens, which is the next listener. The result: -1 with an
# errno.
cdef int acceptor_listen(Acceptor* acceptor, int fd) noexcept nogil
# Has epoll tell of a listener's connections, or of none: `operation` is epoll_ctl's.
cdef int acceptor_watch(Acceptor* acceptor, int operation, int listener,
                        bint is_open) noexcept nogil
# The result: 0, or an errno.
cdef int acceptor_start(Acceptor* acceptor) noexcept nogil
cdef void acceptor_stop(Acceptor* acceptor) noexcept nogil

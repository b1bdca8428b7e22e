"""A connection to a leader. Owned by one thread."""

from libc.stdint cimport int64_t, uint8_t
from libcpp.string cimport string
from libcpp.vector cimport vector

from appliance.native._native cimport atomic_bool

cdef enum LinkResult:
    LINK_OK = 0
    LINK_WOKEN = -1                # somebody wrote to the event, or it is `wake_at_ns`
    LINK_LATE = -2                 # nothing came, or nothing was taken, in time
    LINK_CLOSED = -3               # the peer closed it
    LINK_BROKEN = -4               # `error` is the errno
    LINK_UNKNOWN_HOST = -5         # `error` is that of getaddrinfo
    # what the thread finds wrong with what came
    LINK_MALFORMED = -6            # it is no answer
    LINK_REFUSED = -7              # `error` is Kafka's, about the whole request

cdef cppclass LeaderLink:
    string host                    # constant, as are the next three
    string port
    int event_fd                   # whoever wants the thread writes to it
    int64_t patience_ns            # for a connection, and between two pieces of what comes or goes
    int64_t wake_at_ns             # a wait to receive ends then, as if woken
    int fd                         # -1: there is no connection
    int error

cdef int link_open(LeaderLink* link) noexcept nogil
cdef void link_close(LeaderLink* link) noexcept nogil
# All of it; a wake-up ends it where `must_stop` says so.
cdef int link_send(LeaderLink* link, const vector[uint8_t]* data,
                   atomic_bool* must_stop) noexcept nogil
# At least a byte and at most `size` bytes: their count, or a result.
cdef int64_t link_receive(LeaderLink* link, uint8_t* into, int64_t size) noexcept nogil
# Sleeps until somebody wakes it, or `until_ns`.
cdef void link_sleep(LeaderLink* link, int64_t until_ns) noexcept nogil
# The event is as if nobody had woken it.
cdef void link_calm(LeaderLink* link) noexcept nogil

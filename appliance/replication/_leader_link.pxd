"""A connection to a leader. Owned by one thread."""

from libc.stdint cimport int64_t, uint8_t
from libcpp.string cimport string
from libcpp.vector cimport vector

from appliance.native._native cimport atomic_bool, condition, mutex
from appliance.network._tls cimport Tls, TlsListenerRef

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
    # on the way to where a request can be sent; `words` says more
    LINK_UNTRUSTED = -8            # TLS came to nothing
    LINK_NO_LOGIN = -9             # the leader, or this broker, has refused the login

# Between the follower's thread and one of Python's: see `_leader_login`.
cdef cppclass LoginTalk:
    mutex guard
    condition asked
    condition replied
    int question                   # guard, as are the next four
    int reply
    vector[uint8_t] bytes          # of the question, and then of the reply
    int64_t lasts_ms               # the login; 0: for good
    bint is_over                   # nothing is asked any more

cdef cppclass LeaderLink:
    string host                    # constant, as are the next five
    string port
    TlsListenerRef security        # what TLS is made of; empty: there is none
    bint logs_in
    int event_fd                   # whoever wants the thread writes to it
    int64_t patience_ns            # for a connection, and between two pieces of what comes or goes
    int64_t wake_at_ns             # a wait to receive ends then, as if woken
    int fd                         # -1: there is no connection
    Tls* tls                       # owned; NULL: what goes over it is plain
    int error
    string words
    LoginTalk talk
    int64_t good_until_ns          # a login holds so long; 0: for good
    atomic_bool must_stop          # no wait goes on

# A connection over which requests can be sent: encrypted, and logged in, where that is wanted.
cdef int link_open(LeaderLink* link) noexcept nogil
cdef void link_close(LeaderLink* link) noexcept nogil
# All of it; a wake-up ends it where `must_stop` says so. The same of what is received.
cdef int link_send(LeaderLink* link, const vector[uint8_t]* data) noexcept nogil
cdef int link_receive_all(LeaderLink* link, uint8_t* into, int64_t size) noexcept nogil
# At least a byte and at most `size` bytes: their count, or a result.
cdef int64_t link_receive(LeaderLink* link, uint8_t* into, int64_t size) noexcept nogil
# Sleeps until somebody wakes it, or `until_ns`.
cdef void link_sleep(LeaderLink* link, int64_t until_ns) noexcept nogil
# The event is as if nobody had woken it.
cdef void link_calm(LeaderLink* link) noexcept nogil

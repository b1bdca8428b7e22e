"""What the threads of the data plane share: limits, topics, counters, requests to pass on."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.string cimport string
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from appliance.native._native cimport atomic_bool, atomic_i64, mutex
from appliance.network._connection_quota cimport ConnectionQuota
from appliance.network._quota cimport Quota, QuotaTable
from appliance.network._rights cimport RightsTable
from appliance.network._tls cimport TlsListenerRef
from appliance.network._topic_table cimport TopicTable
from appliance.storage._cold_reads cimport ColdReaders
from appliance.storage._commit_requests cimport CommitterRef

# Settings of the data plane; names and reasons in `config/`.
cdef struct Limits:
    int32_t processors
    int64_t request_bytes
    int64_t control_bytes          # of one that is passed on
    int64_t queued_bytes
    int64_t connections
    int64_t connections_per_ip
    int64_t requests_per_connection
    int64_t passed_per_connection  # requests that were passed on
    int64_t held_bytes             # answers of all connections
    int64_t idle_ns
    int64_t frame_ns
    int64_t frame_rate             # bytes a second, beyond frame_ns
    int64_t send_ns
    int64_t fetch_bytes
    int64_t fetch_partitions
    int64_t fetch_partitions_all   # of all connections
    int64_t sendfile_bytes
    int32_t cold_readers
    int64_t handshakes             # of TLS, under way
    int64_t handshakes_per_ip
    int64_t handshake_ns
    int64_t login_bytes            # of a frame before its connection has logged in
    int64_t login_ns               # for a whole login

cdef enum:
    LISTENERS_MAX = 64             # a broker has a handful

# A listener: what holds for all of its connections, and what is counted of them.
cdef cppclass ListenerState:
    bint asks_login                # constant once it listens
    ConnectionQuota connections
    atomic_i64 shut_by             # its connections wait to be accepted: 1 + `Throttle`; 0: none do
    atomic_i64 handshakes_done
    atomic_i64 handshakes_failed

# A request for the control plane.
cdef cppclass Punt:
    int64_t connection
    int64_t slot
    string peer
    int listener
    bint is_raw                    # a token of a login, without a header
    vector[uint8_t] frame

# A connection whose client showed a certificate, or was asked to. It is not read until the control
# plane has said who it is.
cdef cppclass Arrival:
    int64_t connection
    int listener
    string peer
    string subject                 # in DER; empty: there is no certificate
    int64_t not_before_s           # from when that is good, since 1970; 0: it does not tell

# Rights of which a fetch knows nothing yet.
cdef cppclass Question:
    int64_t connection
    int64_t slot
    string principal
    string host
    vector[string] topics

# Connections by address: the acceptor and all processors count them.
cdef cppclass Peers:
    mutex guard                    # of `Limits.connections_per_ip`, too
    unordered_map[string, int64_t] count       # guard; none of those without a connection
    unordered_map[string, int64_t] handshakes  # guard; of those, under way

# Why a connection ended that its client wanted to keep. `got` and `wanted` are the numbers of it.
cdef enum ClosureKind:
    CLOSURE_FRAME_SIZE = 0         # got: the claim; wanted: the limit
    CLOSURE_CONTROL_SIZE = 1       # the same, of a request for the control plane
    CLOSURE_FRAME_TIMEOUT = 2      # got: bytes that came; wanted: bytes claimed
    CLOSURE_MALFORMED = 3          # got: the request's size; key and version tell which
    CLOSURE_SEND_TIMEOUT = 4       # got: bytes of answers in memory; wanted: milliseconds
    CLOSURE_HELD = 5               # got: bytes of answers in memory; wanted: those of all
    CLOSURE_CONNECTIONS = 6        # got: connections of all; wanted: the limit
    CLOSURE_CONNECTIONS_PER_IP = 7
    CLOSURE_CONNECTION_RATE = 8    # got: milliseconds to wait; wanted: the most
    CLOSURE_HANDSHAKE = 9          # got: OpenSSL's reason; wanted: what it says of the certificate
    CLOSURE_HANDSHAKE_TIMEOUT = 10  # wanted: milliseconds
    CLOSURE_HANDSHAKES = 11        # got: handshakes under way; wanted: the limit
    CLOSURE_HANDSHAKES_PER_IP = 12
    CLOSURE_NOT_TLS = 13           # got: the first four bytes
    CLOSURE_LOGIN_KEY = 14          # a request before the login; key and version tell which
    CLOSURE_LOGIN_SIZE = 15        # of a frame before it; got: the claim; wanted: the limit
    CLOSURE_LOGIN_TIMEOUT = 16     # got: requests that came; wanted: milliseconds
    CLOSURE_LOGIN_OVER = 17        # got: milliseconds since then; key and version tell what came
    CLOSURE_LOGIN_OTHER = 18       # it became another principal's

cdef cppclass Closure:
    string peer
    int kind
    int64_t got
    int64_t wanted
    int32_t key                    # -1: not known
    int32_t version

cdef cppclass Counters:
    atomic_i64 refused             # above a limit of connections
    atomic_i64 closed_idle
    atomic_i64 closed_frame        # a frame that did not arrive, or is not one
    atomic_i64 closed_slow         # did not take its answers
    atomic_i64 closed_malformed
    atomic_i64 handshakes          # under way
    atomic_i64 handshakes_resumed  # of those done
    atomic_i64 closed_login        # before it logged in, or when that was over
    atomic_i64 produce_requests
    atomic_i64 fetch_requests
    atomic_i64 punted_requests
    atomic_i64 throttled_requests  # after which a quota held the connection back
    atomic_i64 bytes_in
    atomic_i64 bytes_out
    atomic_i64 produced_bytes
    atomic_i64 fetched_bytes

# Where brokers are, for consumers that want to fetch from one beside them.
cdef cppclass Racks:
    atomic_bool are_used           # replica.selector.class wants it
    mutex guard
    string own                     # guard; as is the next
    unordered_map[string, vector[int32_t]] nodes  # by rack; the other brokers that live

# `new Plane()` zeroes it.
cdef cppclass Plane:
    Limits limits                  # constant
    ListenerState[LISTENERS_MAX] listeners
    ConnectionQuota connections    # of all listeners together
    vector[CommitterRef] committers  # of every log that it was ever told; the GIL guards it
    vector[TlsListenerRef] tls     # by the number of a listener; empty: plain. Constant after start
    Peers peers
    TopicTable topics
    QuotaTable quotas
    Quota to_followers             # of what they get that the leader is to give slowly
    Racks racks
    RightsTable rights
    Counters counters
    ColdReaders cold
    atomic_i64 queued_bytes        # frames that arrive or are partly appended, requests passed on
    atomic_i64 held_bytes          # answers in memory
    atomic_i64 fetch_partitions    # of sessions and of fetches that wait
    atomic_i64 serial              # of connections and of fetch sessions
    atomic_bool is_draining
    mutex guard
    vector[Punt] punts             # guard
    vector[int64_t] gone           # guard; connections that ended
    vector[Arrival] arrivals       # guard
    vector[Question] questions     # guard
    vector[Closure] closures       # guard
    int64_t closures_left_out      # guard
    bint is_signalled              # guard
    int punt_fd                    # readable while any of these has something
    int acceptor_fd                # readable: the acceptor is to look at its listeners again
    atomic_bool acceptor_waits     # for a connection to end

# True: whoever put it calls `punts_signal` soon. Until then others rely on it.
cdef bint punt_put(Plane* plane, int64_t connection, int64_t slot, const string& peer,
                   int listener, bint is_raw, const uint8_t* frame,
                   int64_t size) noexcept nogil
cdef void punts_signal(Plane* plane) noexcept nogil
cdef void gone_put(Plane* plane, int64_t connection) noexcept nogil
cdef void punts_take(Plane* plane, vector[Punt]* into, vector[int64_t]* gone) noexcept nogil
cdef void question_put(Plane* plane, Question* question) noexcept nogil
cdef void questions_take(Plane* plane, vector[Question]* into) noexcept nogil
# Tells the control plane, which keeps the log.
cdef void closure_put(Plane* plane, const string& peer, int kind, int64_t got, int64_t wanted,
                      int key=*, int version=*) noexcept nogil
# The result: how many more there were than are kept.
cdef int64_t closures_take(Plane* plane, vector[Closure]* into) noexcept nogil

cdef void arrival_put(Plane* plane, int64_t connection, int listener, const string& peer,
                      const string& subject, int64_t not_before_s) noexcept nogil
cdef void arrivals_take(Plane* plane, vector[Arrival]* into) noexcept nogil

# An address has a handshake less; an address and a listener have a connection less.
cdef void handshake_over(Plane* plane, string peer) noexcept nogil
cdef void connection_gone(Plane* plane, int listener, string peer) noexcept nogil

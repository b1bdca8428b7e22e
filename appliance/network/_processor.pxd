"""One thread with its own epoll and its share of the connections."""

from libc.stdint cimport int64_t, uint8_t
from libcpp.string cimport string
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from appliance.native._native cimport RawBytes, atomic_bool, condition, mutex, pthread_t
from appliance.native._traffic cimport Traffic
from appliance.network._connection cimport Connection
from appliance.network._plane cimport Plane
from appliance.storage._watch cimport InboxRef, Mail


# Connections of one address, shared by the acceptor and all processors.
cdef cppclass Peers:
    mutex guard
    unordered_map[string, int64_t] count       # guard

# When a fetch that waits must be looked at again.
cdef struct Timer:
    int64_t at_ns
    int64_t connection
    int64_t slot

# A request whose partitions moved.
cdef struct Woken:
    int64_t connection
    int64_t slot

# A connection as it is shown to people.
cdef cppclass ConnectionFacts:
    int64_t id
    string peer
    string client_id
    int64_t age_ns
    int64_t idle_ns
    int64_t requests
    int64_t in_flight
    int64_t bytes_in
    int64_t bytes_out
    int64_t held_bytes
    int64_t mute_ns                # for which a quota keeps it from being read

# What the thread shows when it is asked to.
cdef cppclass View:
    mutex guard
    condition shown
    int64_t asked                  # guard; counts who asked, as `answered` those who were answered
    int64_t answered               # guard
    vector[ConnectionFacts] rows   # guard

cdef cppclass Processor:
    Plane* plane                   # constant, as are the next five
    Peers* peers
    int index
    int epoll_fd
    InboxRef inbox
    View view
    Traffic* traffic               # owned
    pthread_t thread
    atomic_bool must_stop          # when all is answered, or at stop_at_ns
    int64_t stop_at_ns
    # Below: the inbox's turn, which the thread holds but while it sleeps.
    int64_t sleeps_until_ns
    unordered_map[int64_t, Connection*] connections
    vector[Timer] timers           # a heap, the next one first
    vector[int64_t] to_send        # connections with answers that are ready
    vector[int64_t] starved        # connections whose frame waits for memory, oldest first
    vector[Mail] mails
    vector[Woken] woken            # each once, however many of its partitions moved
    RawBytes scratch
    RawBytes spare                 # memory of the last large frame, for the next one
    bint must_signal               # it put punts of which the control plane does not know yet
    int64_t now_ns
    int64_t sweep_ns               # the next one

# The result: 0, or an errno.
cdef int processor_start(Processor* processor) noexcept nogil
# On another thread, while this one sleeps: its mail, and what becomes ready by it.
cdef void processor_visit(void* processor) noexcept nogil
cdef void processor_stop(Processor* processor, int64_t drain_ns) noexcept nogil
# All connections of the thread; False: it did not answer in time.
cdef bint processor_view(Processor* processor, int64_t deadline_ns,
                         vector[ConnectionFacts]* into) noexcept nogil
# Takes a connection over: for the acceptor.
cdef void processor_give(Processor* processor, int fd, const string& peer,
                         int64_t mute_until_ns) noexcept nogil

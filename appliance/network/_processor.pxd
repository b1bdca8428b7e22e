"""One thread with its own epoll and its share of the connections."""

from cython.operator cimport dereference
from libc.stdint cimport int64_t
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from appliance.native._histogram cimport Traffic
from appliance.native._native cimport RawBytes, atomic_bool, atomic_i64, pthread_t
from appliance.network._connection cimport Connection
from appliance.network._connection_list cimport View
from appliance.network._control_plane_inbox cimport Plane
from appliance.storage._partition_waits cimport InboxRef, Mail


# When a fetch that waits must be looked at again, or a muted connection be read again.
cdef struct Timer:
    int64_t at_ns
    int64_t connection
    int64_t slot

# A request whose partitions moved.
cdef struct Woken:
    int64_t connection
    int64_t slot

# `new Processor()` zeroes it.
cdef cppclass Processor:
    Plane* plane                   # constant, as are the next three
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
    size_t timers_most             # more of them, and those that were overtaken are dropped
    atomic_i64 timers_kept         # their number at the last sweep
    vector[int64_t] to_send        # connections with answers that are ready
    vector[int64_t] starved        # connections whose frame waits for memory, oldest first
    vector[int64_t] producing      # connections with a Produce that takes several turns
    vector[Mail] mails
    vector[Woken] woken            # each once, however many of its partitions moved
    RawBytes scratch
    RawBytes spare                 # memory of the last large frame, for the next one
    RawBytes stage                 # what goes to a connection with TLS next
    int64_t handshakes_at_ns       # the turn in which `handshakes_ns` were spent on handshakes
    int64_t handshakes_ns
    bint must_signal               # it put punts of which the control plane does not know yet
    int64_t now_ns
    int64_t sweep_ns               # the next one


cdef inline Connection* processor_find(Processor* processor, int64_t id) noexcept nogil:
    entry = processor.connections.find(id)
    if entry == processor.connections.end():
        return NULL
    return dereference(entry).second


cdef inline void processor_list(Processor* processor, Connection* connection) noexcept nogil:
    """Its answers are sent, and its next frames are read, at the end of this turn."""
    if not connection.is_listed:
        connection.is_listed = True
        processor.to_send.push_back(connection.id)


cdef enum:
    SPARE_MAX = 4194304            # larger memory is given back after its frame


cdef inline void processor_spare(Processor* processor, RawBytes* frame) noexcept nogil:
    """The memory of a frame that is done, for the next one."""
    if frame.capacity() <= SPARE_MAX and frame.capacity() > processor.spare.capacity():
        processor.spare.swap(frame[0])


# The result: 0, or an errno.
cdef int processor_start(Processor* processor) noexcept nogil
# On another thread, while this one sleeps: its mail, and what becomes ready by it.
cdef void processor_visit(void* processor) noexcept nogil
cdef void processor_stop(Processor* processor, int64_t drain_ns) noexcept nogil

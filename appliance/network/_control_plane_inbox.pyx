"""What the data plane hands to the control plane: requests, and connections that ended."""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libcpp.string cimport string
from libcpp.vector cimport vector

from appliance.native._native cimport ScopeLock
from appliance.native._peer_network cimport peer_network
from appliance.native._socket cimport eventfd_read, eventfd_write

cdef enum:
    CLOSURES_MAX = 1000            # kept for one turn of the control plane; it counts the others

# ---- without the GIL ----

cdef bint punt_put(Plane* plane, int64_t connection, int64_t slot, const string& peer,
                   int listener, bint is_raw, const uint8_t* frame,
                   int64_t size) noexcept nogil:
    cdef Punt punt
    cdef bint must_signal
    punt.connection = connection
    punt.slot = slot
    punt.peer = peer
    punt.listener = listener
    punt.is_raw = is_raw
    punt.frame.assign(frame, frame + size)
    plane.queued_bytes.fetch_add(size)
    plane.guard.lock()
    plane.punts.push_back(punt)
    must_signal = not plane.is_signalled
    plane.is_signalled = True
    plane.guard.unlock()
    plane.counters.punted_requests.fetch_add(1)
    return must_signal


cdef void punts_signal(Plane* plane) noexcept nogil:
    eventfd_write(plane.punt_fd, 1)


cdef void _signal_and_unlock(Plane* plane) noexcept nogil:
    cdef bint must_signal = not plane.is_signalled
    plane.is_signalled = True
    plane.guard.unlock()
    if must_signal:
        eventfd_write(plane.punt_fd, 1)


cdef void gone_put(Plane* plane, int64_t connection) noexcept nogil:
    plane.guard.lock()
    plane.gone.push_back(connection)
    _signal_and_unlock(plane)


cdef void punts_take(Plane* plane, vector[Punt]* into, vector[int64_t]* gone) noexcept nogil:
    cdef uint64_t count
    cdef ScopeLock lock
    lock.hold(plane.guard)
    into.swap(plane.punts)
    gone.swap(plane.gone)
    if plane.is_signalled:
        # Nothing to handle: it only says that there is nothing to reset.
        eventfd_read(plane.punt_fd, &count)
        plane.is_signalled = False


cdef void question_put(Plane* plane, Question* question) noexcept nogil:
    plane.guard.lock()
    plane.questions.resize(plane.questions.size() + 1)
    plane.questions.back().connection = question.connection
    plane.questions.back().slot = question.slot
    plane.questions.back().principal = question.principal
    plane.questions.back().host = question.host
    plane.questions.back().topics.swap(question.topics)
    _signal_and_unlock(plane)


cdef void questions_take(Plane* plane, vector[Question]* into) noexcept nogil:
    cdef ScopeLock lock
    lock.hold(plane.guard)
    into.swap(plane.questions)


cdef void closure_put(Plane* plane, const string& peer, int kind, int64_t got, int64_t wanted,
                      int key=-1, int version=-1) noexcept nogil:
    cdef Closure closure
    closure.peer = peer
    closure.kind = kind
    closure.got = got
    closure.wanted = wanted
    closure.key = key
    closure.version = version
    plane.guard.lock()
    if plane.closures.size() >= CLOSURES_MAX:
        plane.closures_left_out += 1
    else:
        plane.closures.push_back(closure)
    _signal_and_unlock(plane)


cdef int64_t closures_take(Plane* plane, vector[Closure]* into) noexcept nogil:
    cdef int64_t left_out
    cdef ScopeLock lock
    lock.hold(plane.guard)
    into.swap(plane.closures)
    left_out = plane.closures_left_out
    plane.closures_left_out = 0
    return left_out


cdef void arrival_put(Plane* plane, int64_t connection, int listener, const string& peer,
                      const string& subject, int64_t not_before_s) noexcept nogil:
    cdef Arrival arrival
    arrival.connection = connection
    arrival.listener = listener
    arrival.peer = peer
    arrival.subject = subject
    arrival.not_before_s = not_before_s
    plane.guard.lock()
    plane.arrivals.push_back(arrival)
    _signal_and_unlock(plane)


cdef void arrivals_take(Plane* plane, vector[Arrival]* into) noexcept nogil:
    cdef ScopeLock lock
    lock.hold(plane.guard)
    into.swap(plane.arrivals)


cdef void handshake_over(Plane* plane, string peer) noexcept nogil:
    cdef string network = peer_network(peer)
    cdef ScopeLock lock
    lock.hold(plane.peers.guard)
    plane.counters.handshakes.fetch_add(-1)
    plane.peers.handshakes[network] -= 1
    if plane.peers.handshakes[network] <= 0:
        plane.peers.handshakes.erase(network)


cdef void connection_gone(Plane* plane, int listener, string peer) noexcept nogil:
    cdef string network = peer_network(peer)
    cdef ScopeLock lock
    lock.hold(plane.peers.guard)
    plane.peers.count[network] -= 1
    if plane.peers.count[network] <= 0:
        plane.peers.count.erase(network)
    lock.release()
    plane.connections.open.fetch_add(-1)
    plane.listeners[listener].connections.open.fetch_add(-1)
    if plane.acceptor_waits.load() and plane.acceptor_waits.exchange(False):
        eventfd_write(plane.acceptor_fd, 1)

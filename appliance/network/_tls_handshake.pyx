"""Takes connections through the handshake, a few in each turn of a processor.

A full handshake costs a processor up to two milliseconds, and whoever connects can ask for one. So
those that are under way are counted, in total and by address, each has a deadline, and one turn of
a thread gives them HANDSHAKES_NS: who has a connection already is served in between. What is left
over, epoll tells again.

Where the certificate is the login, the connection is not read until the control plane has said who
it is (`log_in`).
"""

from cython.operator cimport dereference
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libcpp.string cimport string

from appliance.native._native cimport ScopeLock, monotonic_ns
from appliance.native._peer_network cimport peer_network
from appliance.native._socket cimport EPOLLIN, EPOLLOUT, MSG_PEEK, recv
from appliance.network._connection cimport Connection, connection_set_interest
from appliance.network._connection_life cimport connection_close
from appliance.network._control_plane_inbox cimport (
    CLOSURE_HANDSHAKE, CLOSURE_HANDSHAKE_TIMEOUT, CLOSURE_HANDSHAKES, CLOSURE_HANDSHAKES_PER_IP,
    CLOSURE_NOT_TLS, ListenerState, Plane, arrival_put, closure_put, handshake_over,
)
from appliance.network._processor cimport Processor, processor_list
from appliance.network._tls cimport (
    SHAKE_DONE, SHAKE_WAITS, Tls, tls_certificate, tls_shake, tls_verified,
)

cdef enum:
    HANDSHAKES_NS = 1000000        # of one turn; one handshake is always done
    TLS_HANDSHAKE = 22             # the first byte of a ClientHello, then 3 for the version
    HEAD_BYTES = 4                 # shown of what is no TLS


# ---- without the GIL ----

cdef bint handshake_admit(Plane* plane, const string& peer) noexcept nogil:
    cdef int64_t of_all, of_peer = 0
    cdef string network = peer_network(peer)
    cdef ScopeLock lock
    lock.hold(plane.peers.guard)
    of_all = plane.counters.handshakes.load()
    entry = plane.peers.handshakes.find(network)
    if entry != plane.peers.handshakes.end():
        of_peer = dereference(entry).second
    if of_all < plane.limits.handshakes and of_peer < plane.limits.handshakes_per_ip:
        plane.peers.handshakes[network] = of_peer + 1
        plane.counters.handshakes.fetch_add(1)
        return True
    lock.release()
    if of_all >= plane.limits.handshakes:
        closure_put(plane, peer, CLOSURE_HANDSHAKES, of_all, plane.limits.handshakes)
    else:
        closure_put(plane, network, CLOSURE_HANDSHAKES_PER_IP, of_peer,
                    plane.limits.handshakes_per_ip)
    return False


cdef bint handshake_go_on(Processor* processor, Connection* connection,
                          uint32_t* events) noexcept nogil:
    cdef Tls* tls = connection.tls
    cdef int result
    if tls.is_open:
        if events[0] & EPOLLIN and tls.write_wants_read:
            processor_list(processor, connection)
        if events[0] & EPOLLOUT and tls.read_wants_write:
            events[0] |= EPOLLIN
        return True
    if not _has_time(processor) or not tls.is_begun and not _begins(processor, connection):
        return False
    result = _shake(processor, tls)
    if result == SHAKE_DONE:
        _done(processor, connection)
        events[0] = EPOLLIN  # its first request may have come along, and be with OpenSSL
        return True
    if result == SHAKE_WAITS:
        connection_set_interest(connection, processor.epoll_fd, processor.now_ns)
        return False
    _state(processor, connection).handshakes_failed.fetch_add(1)
    if tls.reason != 0:
        closure_put(processor.plane, connection.peer, CLOSURE_HANDSHAKE, <int64_t>tls.reason,
                    tls_verified(tls))
    connection_close(processor, connection)
    return False


cdef ListenerState* _state(Processor* processor, Connection* connection) noexcept nogil:
    return &processor.plane.listeners[connection.listener]


cdef bint _has_time(Processor* processor) noexcept nogil:
    if processor.handshakes_at_ns != processor.now_ns:
        processor.handshakes_at_ns = processor.now_ns
        processor.handshakes_ns = 0
    return processor.handshakes_ns < HANDSHAKES_NS


cdef int _shake(Processor* processor, Tls* tls) noexcept nogil:
    cdef int64_t begun = monotonic_ns()
    cdef int result = tls_shake(tls)
    processor.handshakes_ns += monotonic_ns() - begun
    return result


cdef bint _begins(Processor* processor, Connection* connection) noexcept nogil:
    """Whether what the client sent first may be TLS. Otherwise OpenSSL would call it a wrong
    version, and nobody would know why."""
    cdef uint8_t[HEAD_BYTES] head
    cdef int64_t got = recv(connection.fd, head, HEAD_BYTES, MSG_PEEK)
    if got <= 0:
        if got == 0:
            connection_close(processor, connection)
        return False
    connection.tls.is_begun = True
    if head[0] == TLS_HANDSHAKE and (got == 1 or head[1] == 3):
        return True
    _state(processor, connection).handshakes_failed.fetch_add(1)
    closure_put(processor.plane, connection.peer, CLOSURE_NOT_TLS,
                <int64_t>head[0] << 24 | <int64_t>(head[1] if got > 1 else 0) << 16
                | <int64_t>(head[2] if got > 2 else 0) << 8 | (head[3] if got > 3 else 0), 0)
    connection_close(processor, connection)
    return False


cdef void _done(Processor* processor, Connection* connection) noexcept nogil:
    cdef Tls* tls = connection.tls
    cdef string subject
    cdef int64_t not_before_s
    handshake_over(processor.plane, connection.peer)
    _state(processor, connection).handshakes_done.fetch_add(1)
    processor.plane.counters.handshakes_resumed.fetch_add(tls.is_resumed)
    connection.active_ns = processor.now_ns
    if tls.is_login:
        connection.is_arriving = True
        tls.has_more = True  # what came along is read once it is known who sent it
        tls_certificate(tls, &subject, &not_before_s)
        arrival_put(processor.plane, connection.id, connection.listener, connection.peer, subject,
                    not_before_s)


cdef bint handshake_is_late(Processor* processor, Connection* connection) noexcept nogil:
    if connection.tls.is_open or processor.now_ns < connection.tls.deadline_ns:
        return False
    _state(processor, connection).handshakes_failed.fetch_add(1)
    closure_put(processor.plane, connection.peer, CLOSURE_HANDSHAKE_TIMEOUT, 0,
                processor.plane.limits.handshake_ns // 1000000)
    return True

"""Begins and ends connections. The acceptor sends one to its thread by mail. At its end it gives
back what it holds: waits, memory that counts against limits, its fetch session, its place among
those of its address.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libcpp.string cimport string

from appliance.native._native cimport close
from appliance.native._socket cimport EPOLL_CTL_ADD, EPOLLIN, epoll_ctl, epoll_event
from appliance.network._connection cimport NOT_LOGGED_IN, Connection, Slot
from appliance.network._control_plane_inbox cimport (
    CLOSURE_MALFORMED, Plane, closure_put, connection_gone, gone_put, handshake_over,
)
from appliance.network._fetch_park cimport fetch_forget
from appliance.network._fetch_session cimport session_end
from appliance.network._processor cimport Processor, processor_list
from appliance.network._produce cimport produce_finish, produce_forget
from appliance.network._tls cimport TlsListener, tls_free, tls_new
from appliance.storage._partition_waits cimport MAIL_CONNECTION, Mail, inbox_put

cdef const char* ANONYMOUS = b"User:ANONYMOUS"  # as in access/principal.py


# ---- without the GIL ----

cdef void connection_give(Processor* processor, int fd, const string& peer, int listener,
                          int64_t mute_until_ns) noexcept nogil:
    cdef Mail mail
    cdef int64_t serial = processor.plane.serial.fetch_add(1) + 1
    mail.kind = MAIL_CONNECTION
    mail.fd = fd
    mail.slot = listener
    mail.until_ns = mute_until_ns
    mail.connection = serial * processor.plane.limits.processors + processor.index
    mail.bytes.assign(<const uint8_t*>peer.data(), <const uint8_t*>peer.data() + peer.size())
    inbox_put(processor.inbox.get(), &mail)


cdef void connection_take(Processor* processor, Mail* mail) noexcept nogil:
    cdef Connection* connection = new Connection()
    cdef epoll_event event
    connection.id = mail.connection
    connection.fd = mail.fd
    connection.listener = <int>mail.slot
    connection.peer.assign(<const char*>mail.bytes.data(), mail.bytes.size())
    connection.plane = processor.plane
    connection.traffic = processor.traffic
    connection.thread = processor.index
    connection.inbox = processor.inbox
    connection.handed_produce = -1
    connection.interest = EPOLLIN
    connection.active_ns = connection.since_ns = processor.now_ns
    connection.mute_until_ns = mail.until_ns
    _set_gate(connection, processor.now_ns)
    processor.connections[connection.id] = connection
    if not _secure(processor, connection):
        connection_close(processor, connection)
        return
    event.events = EPOLLIN
    event.data.u64 = <uint64_t>connection.id
    if epoll_ctl(processor.epoll_fd, EPOLL_CTL_ADD, connection.fd, &event) != 0:
        connection_close(processor, connection)
    elif connection.mute_until_ns > 0:
        processor_list(processor, connection)  # where it is muted before it is read


cdef bint _secure(Processor* processor, Connection* connection) noexcept nogil:
    """With TLS, if its listener has it. The acceptor has counted the handshake."""
    cdef TlsListener* listener = processor.plane.tls[connection.listener].get()
    if listener == NULL:
        return True
    connection.tls = tls_new(listener, connection.fd)
    if connection.tls == NULL:
        handshake_over(processor.plane, connection.peer)
        return False
    connection.tls.deadline_ns = (max(processor.now_ns, connection.mute_until_ns)
                                  + processor.plane.limits.handshake_ns)
    return True


cdef void _set_gate(Connection* connection, int64_t now_ns) noexcept nogil:
    cdef Plane* plane = connection.plane
    if not plane.listeners[connection.listener].asks_login:
        connection.rights.principal.assign(ANONYMOUS)
        return
    connection.good_until_ns = NOT_LOGGED_IN
    connection.login_by_ns = max(now_ns, connection.mute_until_ns) + plane.limits.login_ns


cdef void connection_refuse(Processor* processor, Connection* connection, int kind, int64_t got,
                            int64_t wanted, int key=-1, int version=-1) noexcept nogil:
    if kind == CLOSURE_MALFORMED:
        processor.plane.counters.closed_malformed.fetch_add(1)
    else:
        processor.plane.counters.closed_frame.fetch_add(1)
    closure_put(processor.plane, connection.peer, kind, got, wanted, key, version)
    connection_close(processor, connection)


cdef void connection_close(Processor* processor, Connection* connection) noexcept nogil:
    cdef Slot* slot
    cdef size_t i
    if connection.produce.get() != NULL:
        produce_finish(processor, connection)
    for i in range(connection.slots.size()):
        slot = &connection.slots[i]
        if slot.durable.get() != NULL:
            produce_forget(connection, slot)
        if slot.fetch.get() != NULL:
            fetch_forget(connection, slot)
    processor.plane.queued_bytes.fetch_add(-connection.reserved)
    processor.plane.held_bytes.fetch_add(-connection.held_bytes)
    session_end(connection)
    # Also one that waits for nothing: it may hold records of a share group.
    gone_put(processor.plane, connection.id)
    if connection.tls != NULL:
        if not connection.tls.is_open:
            handshake_over(processor.plane, connection.peer)
        tls_free(connection.tls)
    connection_gone(processor.plane, connection.listener, connection.peer)
    processor.connections.erase(connection.id)
    close(connection.fd)
    del connection

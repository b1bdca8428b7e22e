"""Closes connections that are idle, send half a frame or do not take their answers. It also answers
a produce that has waited too long for the disk. Timeouts of seconds, checked five times a second.
"""

from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from appliance.network._connection cimport Connection, Slot, connection_has_room
from appliance.network._connection_life cimport connection_close
from appliance.network._control_plane_inbox cimport (
    CLOSURE_FRAME_TIMEOUT, CLOSURE_SEND_TIMEOUT, Plane, closure_put,
)
from appliance.network._fetch_park cimport fetch_check
from appliance.network._gate cimport gate_is_late
from appliance.network._processor cimport Processor, processor_list
from appliance.network._produce cimport produce_check
from appliance.network._response_memory cimport responses_take_too_much
from appliance.network._tls_handshake cimport handshake_is_late


cdef enum:
    SWEEP_NS = 200000000           # how late a timeout of seconds may come


# ---- without the GIL ----

cdef void timeouts_sweep(Processor* processor) noexcept nogil:
    cdef vector[Connection*] late
    cdef Connection* connection
    cdef size_t i
    processor.sweep_ns = processor.now_ns + SWEEP_NS
    for entry in processor.connections:
        connection = entry.second
        if connection.waiting > 0:
            _end_late(processor, connection)
        if _is_hopeless(processor, connection):
            late.push_back(connection)
    for i in range(late.size()):
        connection_close(processor, late[i])


cdef void _end_late(Processor* processor, Connection* connection) noexcept nogil:
    cdef bint drains = processor.plane.is_draining.load()
    cdef Slot* slot
    cdef size_t i
    for i in range(connection.slots.size()):
        slot = &connection.slots[i]
        if slot.is_ready:
            continue
        if slot.durable.get() != NULL and slot.deadline_ns <= processor.now_ns:
            produce_check(connection, slot, True)
        elif slot.fetch.get() != NULL and drains:
            fetch_check(connection, slot, True)
        if slot.is_ready:
            processor_list(processor, connection)


cdef bint _is_hopeless(Processor* processor, Connection* connection) noexcept nogil:
    cdef Plane* plane = processor.plane
    cdef int64_t now = processor.now_ns
    if connection.stalled_ns > 0 and now - connection.stalled_ns > plane.limits.send_ns:
        plane.counters.closed_slow.fetch_add(1)
        closure_put(plane, connection.peer, CLOSURE_SEND_TIMEOUT, connection.held_bytes,
                    plane.limits.send_ns // 1000000)
        return True
    if connection.stalled_ns > 0 and responses_take_too_much(connection):
        return True
    if connection.tls != NULL and handshake_is_late(processor, connection):
        return True
    if _is_late_frame(connection, now):
        plane.counters.closed_frame.fetch_add(1)
        closure_put(plane, connection.peer, CLOSURE_FRAME_TIMEOUT,
                    <int64_t>connection.partial.size() - 4, connection.frame_size - 4)
        return True
    if gate_is_late(connection, now):
        return True
    if (connection.slots.empty() and connection.mute_until_ns == 0
            and now - connection.active_ns > plane.limits.idle_ns):
        plane.counters.closed_idle.fetch_add(1)
        return True
    return False


cdef bint _is_late_frame(Connection* connection, int64_t now) noexcept nogil:
    """Bytes that trickle in do not begin the wait anew: they only buy what they take at the least
    rate. A connection that is not being read is not late."""
    cdef double bytes = connection.partial.size()
    if connection.frame_ns == 0 or connection.is_starved or not connection_has_room(connection):
        return False
    return now - connection.frame_ns > connection.plane.limits.frame_ns + <int64_t>(
        bytes * 1e9 / connection.plane.limits.frame_rate)

"""Lets connections wait that are beyond max.connections or max.connection.creation.rate, of their
listener or of all listeners together, as Kafka does.

They wait in the kernel's queue, before they are accepted, where they cost nothing. The listener is
shut: epoll tells nothing of it, and the acceptor goes on with the others. A rate says when it opens
again, which is how long epoll waits at most. Beyond a number it opens when a connection ends. Who
ends one wakes the acceptor if `acceptor_waits` (`connection_gone`); it is set before the numbers
are looked at, so that no end is missed.
"""

from libc.stdint cimport INT64_MAX, int64_t

from appliance.native._socket cimport EPOLL_CTL_MOD
from appliance.network._acceptor cimport Acceptor, acceptor_watch
from appliance.network._connection_quota cimport (
    THROTTLED_BY_ADDRESS, THROTTLED_BY_CONNECTIONS, THROTTLED_BY_RATE, ConnectionQuota,
    connection_quota_is_full, connection_quotas_charge, connection_quotas_delay,
)
from appliance.network._control_plane_inbox cimport Plane

cdef enum:
    UNTIL_ONE_ENDS = -1            # in the place of a delay
    WAIT_MS_MAX = 60000            # epoll's timeout is an `int`


# ---- without the GIL ----

cdef int64_t _delay_ns(Plane* plane, int listener) noexcept nogil:
    """Of a listener's next connection."""
    cdef ConnectionQuota* own = &plane.listeners[listener].connections
    if (connection_quota_is_full(own, own.open.load())
            or connection_quota_is_full(&plane.connections, plane.connections.open.load())):
        return UNTIL_ONE_ENDS
    return connection_quotas_delay(own, &plane.connections, plane.quotas.window_ns)


cdef bint throttle_shuts(Acceptor* acceptor, int listener) noexcept nogil:
    cdef int64_t delay = _delay_ns(acceptor.plane, listener)
    cdef int why = THROTTLED_BY_CONNECTIONS if delay == UNTIL_ONE_ENDS else THROTTLED_BY_RATE
    if delay == 0:
        return False
    acceptor_watch(acceptor, EPOLL_CTL_MOD, listener, False)
    acceptor.shut += 1
    acceptor.plane.listeners[listener].connections.throttled[why].fetch_add(1)
    acceptor.plane.listeners[listener].shut_by.store(1 + why)
    return True


cdef int throttle_look_again(Acceptor* acceptor) noexcept nogil:
    cdef Plane* plane = acceptor.plane
    cdef int64_t delay, first = INT64_MAX
    cdef bint waits = False
    cdef int i, listener
    plane.acceptor_waits.store(True)
    for i in range(acceptor.listeners):
        # Epoll tells of them in the order in which they open: where they share a limit, the one
        # that had the last connection is the last.
        listener = (acceptor.latest + 1 + i) % acceptor.listeners
        if plane.listeners[listener].shut_by.load() == 0:
            continue
        delay = _delay_ns(plane, listener)
        if delay == 0:
            _open(acceptor, listener)
        elif delay == UNTIL_ONE_ENDS:
            waits = True
            plane.listeners[listener].shut_by.store(1 + THROTTLED_BY_CONNECTIONS)
        else:
            plane.listeners[listener].shut_by.store(1 + THROTTLED_BY_RATE)
            first = min(first, delay)
    if not waits:
        plane.acceptor_waits.store(False)
    return -1 if first == INT64_MAX else <int>min((first + 999999) // 1000000, <int64_t>WAIT_MS_MAX)


cdef void _open(Acceptor* acceptor, int listener) noexcept nogil:
    acceptor.plane.listeners[listener].shut_by.store(0)
    acceptor.shut -= 1
    acceptor_watch(acceptor, EPOLL_CTL_MOD, listener, True)


cdef void throttle_note(Plane* plane, int listener, bint is_muted) noexcept nogil:
    cdef ConnectionQuota* own = &plane.listeners[listener].connections
    own.accepted.fetch_add(1)
    plane.connections.accepted.fetch_add(1)
    if is_muted:
        own.throttled[<int>THROTTLED_BY_ADDRESS].fetch_add(1)
    connection_quotas_charge(own, &plane.connections, plane.quotas.window_ns)

"""Takes connections, and deals them out to the processors in turn. Before, it holds them to their
limits. Those that come beyond max.connections or max.connection.creation.rate wait in the kernel
(`_accept_throttle.pyx`). Those beyond max.connections.total or max.connections.per.ip are closed,
and those beyond the quota of their address are first read later, or closed.
"""

from cython.operator cimport dereference
from libc.stdint cimport int64_t, uint64_t
from libcpp.string cimport string

from appliance.native._descriptors cimport descriptors_relieve
from appliance.native._native cimport (
    EMFILE, ENFILE, ScopeLock, close, errno, monotonic_ns, pthread_create, pthread_join,
    pthread_setname_np,
)
from appliance.native._peer_network cimport peer_network
from appliance.native._socket cimport (
    AF_INET, AF_INET6, EPOLLIN, EPOLL_CTL_ADD, INET6_ADDRSTRLEN, IPPROTO_TCP, SOCK_CLOEXEC,
    SOCK_NONBLOCK, TCP_CONGESTION, TCP_NODELAY, TCP_NOTSENT_LOWAT, accept4, epoll_ctl, epoll_event,
    epoll_wait, eventfd_read, eventfd_write, getsockname, inet_ntop, setsockopt, sockaddr,
    sockaddr_in, sockaddr_in6, sockaddr_storage, socklen_t,
)
from appliance.network._accept_throttle cimport (
    throttle_look_again, throttle_note, throttle_shuts,
)
from appliance.network._connection_life cimport connection_give
from appliance.network._control_plane_inbox cimport (
    CLOSURE_CONNECTION_RATE, CLOSURE_CONNECTIONS, CLOSURE_CONNECTIONS_PER_IP, LISTENERS_MAX, Plane,
    closure_put, connection_gone,
)
from appliance.network._quota cimport (
    QUOTA_CONNECT, QuotaRef, quota_charge, quota_delay, quota_find,
)
from appliance.network._tls_handshake cimport handshake_admit


cdef extern from "unistd.h" nogil:
    int usleep(unsigned int microseconds)

cdef enum:
    ACCEPT_PAUSE_US = 50000        # when no descriptor is free
    UNSENT_MAX = 262144            # handed to the kernel for one client; less costs more calls


# ---- without the GIL ----

cdef int acceptor_listen(Acceptor* acceptor, int fd) noexcept nogil:
    acceptor.fds[acceptor.listeners] = fd
    acceptor.listeners += 1
    return acceptor_watch(acceptor, EPOLL_CTL_ADD, acceptor.listeners - 1, True)


cdef int acceptor_watch(Acceptor* acceptor, int operation, int listener,
                        bint is_open) noexcept nogil:
    cdef epoll_event event
    event.events = EPOLLIN if is_open else 0
    event.data.u64 = listener
    return epoll_ctl(acceptor.epoll_fd, operation, acceptor.fds[listener], &event)


cdef int acceptor_start(Acceptor* acceptor) noexcept nogil:
    cdef epoll_event event
    cdef int error
    event.events = EPOLLIN
    event.data.u64 = LISTENERS_MAX
    if epoll_ctl(acceptor.epoll_fd, EPOLL_CTL_ADD, acceptor.plane.acceptor_fd, &event) != 0:
        return errno
    error = pthread_create(&acceptor.thread, NULL, _accept_all, acceptor)
    if error == 0:
        pthread_setname_np(acceptor.thread, b"acceptor")
    return error


cdef void acceptor_stop(Acceptor* acceptor) noexcept nogil:
    acceptor.must_stop.store(True)
    eventfd_write(acceptor.plane.acceptor_fd, 1)
    pthread_join(acceptor.thread, NULL)


cdef void* _accept_all(void* argument) noexcept nogil:
    cdef Acceptor* acceptor = <Acceptor*>argument
    cdef epoll_event event
    cdef uint64_t count
    cdef int timeout_ms
    while not acceptor.must_stop.load():
        timeout_ms = throttle_look_again(acceptor) if acceptor.shut > 0 else -1
        if epoll_wait(acceptor.epoll_fd, &event, 1, timeout_ms) != 1 or acceptor.must_stop.load():
            continue
        if event.data.u64 == LISTENERS_MAX:
            # Nothing to handle: it only says that there is nothing to reset.
            eventfd_read(acceptor.plane.acceptor_fd, &count)
        elif not throttle_shuts(acceptor, <int>event.data.u64):
            _accept(acceptor, <int>event.data.u64)
    return NULL


cdef void _accept(Acceptor* acceptor, int listener) noexcept nogil:
    cdef sockaddr_storage address
    cdef socklen_t size = sizeof(sockaddr_storage)
    cdef string peer
    cdef int on = 1, unsent_max = UNSENT_MAX
    cdef int64_t mute_until_ns
    cdef int fd = accept4(acceptor.fds[listener], <sockaddr*>&address, &size,
                          SOCK_NONBLOCK | SOCK_CLOEXEC)
    if fd < 0:
        if errno == EMFILE or errno == ENFILE:
            # Whatever took the clients' share: a log that is idle gives up its files for them. The
            # connection waits in the backlog, where it is found again.
            if not descriptors_relieve():
                usleep(ACCEPT_PAUSE_US)
        return
    _name(&address, &peer)
    mute_until_ns = _pace(acceptor.plane, peer)
    if mute_until_ns < 0 or not _admit(acceptor.plane, listener, peer):
        acceptor.plane.counters.refused.fetch_add(1)
        close(fd)
        return
    # Answers are whole when they are sent; what must wait for more says so with MSG_MORE.
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(int))
    # A socket takes megabytes for a client that reads nothing, and a thousand of them all that the
    # kernel has for TCP: then it drops everybody's packets. What is under way is not in this count.
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent_max, sizeof(int))
    _choose_congestion(fd, peer)
    throttle_note(acceptor.plane, listener, mute_until_ns > 0)
    acceptor.latest = listener
    acceptor.turn = (acceptor.turn + 1) % acceptor.processors.size()
    connection_give(acceptor.processors.at(acceptor.turn), fd, peer, listener,
                    mute_until_ns)


cdef void _choose_congestion(int fd, const string& peer) noexcept nogil:
    """Within the machine nothing is lost and nothing is worth pacing, and where Linux is set to BBR
    its pacing is half of what sending costs (wake-ups.md). Reno is in every kernel, and allowed."""
    cdef sockaddr_storage address
    cdef socklen_t size = sizeof(sockaddr_storage)
    cdef string own
    if getsockname(fd, <sockaddr*>&address, &size) == 0:
        _name(&address, &own)
        if own == peer:
            setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, b"reno", 4)


cdef void _name(const sockaddr_storage* address, string* peer) noexcept nogil:
    cdef char[INET6_ADDRSTRLEN] text
    cdef const char* got = NULL
    if address.ss_family == AF_INET:
        got = inet_ntop(AF_INET, &(<const sockaddr_in*>address).sin_addr, text, INET6_ADDRSTRLEN)
    elif address.ss_family == AF_INET6:
        got = inet_ntop(AF_INET6, &(<const sockaddr_in6*>address).sin6_addr, text,
                        INET6_ADDRSTRLEN)
    if got != NULL:
        peer.assign(got)


cdef int64_t _pace(Plane* plane, const string& peer) noexcept nogil:
    """When a connection may be read for the first time: 0: at once; -1: there are so many before it
    that it is refused."""
    cdef int64_t now = monotonic_ns(), window_ns = plane.quotas.window_ns, delay_ns
    cdef QuotaRef quota
    cdef string nobody
    if plane.quotas.generation.load() == 0:
        return 0
    quota = quota_find(&plane.quotas, QUOTA_CONNECT, nobody, peer, now)
    if quota.get() == NULL:
        return 0
    delay_ns = quota_delay(quota.get(), now, window_ns)
    if delay_ns <= window_ns:
        delay_ns = quota_charge(quota.get(), 1, now, window_ns)
        return now + delay_ns if delay_ns > 0 else 0
    closure_put(plane, peer, CLOSURE_CONNECTION_RATE, delay_ns // 1000000, window_ns // 1000000)
    return -1


cdef bint _admit(Plane* plane, int listener, const string& peer) noexcept nogil:
    if not _admit_connection(plane, listener, peer):
        return False
    if plane.tls[listener].get() == NULL or handshake_admit(plane, peer):
        return True
    connection_gone(plane, listener, peer)
    return False


cdef bint _admit_connection(Plane* plane, int listener, const string& peer) noexcept nogil:
    cdef int64_t open, of_peer = 0, of_peer_max
    cdef string network = peer_network(peer)
    cdef ScopeLock lock
    lock.hold(plane.peers.guard)
    open = plane.connections.open.load()
    entry = plane.peers.count.find(network)
    if entry != plane.peers.count.end():
        of_peer = dereference(entry).second
    of_peer_max = plane.limits.connections_per_ip
    if open < plane.limits.connections and of_peer < of_peer_max:
        plane.peers.count[network] = of_peer + 1
        plane.connections.open.fetch_add(1)
        plane.listeners[listener].connections.open.fetch_add(1)
        return True
    lock.release()
    if open >= plane.limits.connections:
        closure_put(plane, peer, CLOSURE_CONNECTIONS, open, plane.limits.connections)
    else:
        closure_put(plane, network, CLOSURE_CONNECTIONS_PER_IP, of_peer, of_peer_max)
    return False

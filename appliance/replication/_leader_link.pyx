"""The socket between a follower and a leader: every wait ends when the follower is woken.

This is the one place for what stands between a socket and its bytes. With TLS the handshake is the
end of `link_open`, and OpenSSL is asked where the kernel would be; `_leader_login.pyx` logs in.
"""

from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memset

from appliance.native._native cimport EAGAIN, EINTR, close, errno, monotonic_ns
from appliance.native._socket cimport (
    IPPROTO_TCP, MSG_NOSIGNAL, SOCK_CLOEXEC, SOCK_NONBLOCK, TCP_NODELAY, eventfd_read, iovec, recv,
    setsockopt, sockaddr, socklen_t,
)
from appliance.network._tls cimport (
    SHAKE_DONE, SHAKE_WAITS, tls_client_new, tls_free, tls_read, tls_shake, tls_words, tls_write,
)
from appliance.replication._leader_login cimport leader_log_in

cdef extern from "sys/socket.h" nogil:
    int socket(int family, int kind, int protocol)
    int connect(int fd, const sockaddr* address, socklen_t size)
    int getsockopt(int fd, int level, int name, void* value, socklen_t* size)
    ssize_t send(int fd, const void* data, size_t size, int flags)
    enum:
        SOL_SOCKET, SO_ERROR, SO_KEEPALIVE, SOCK_STREAM

cdef extern from "netdb.h" nogil:
    struct addrinfo:
        int ai_flags
        int ai_family
        int ai_socktype
        int ai_protocol
        socklen_t ai_addrlen
        sockaddr* ai_addr
        addrinfo* ai_next
    int getaddrinfo(const char* host, const char* port, const addrinfo* hints, addrinfo** found)
    void freeaddrinfo(addrinfo* found)

cdef extern from "poll.h" nogil:
    struct pollfd:
        int fd
        short events
        short revents
    int poll(pollfd* fds, unsigned long count, int timeout_ms)
    enum:
        POLLIN, POLLOUT

cdef extern from "errno.h" nogil:
    enum:
        EINPROGRESS

cdef enum:
    SLEEP_MS_MAX = 3600000         # poll counts in an int
    REASON_MASK = 0xFFF            # of OpenSSL's number of an error
    REASON_OF_ALERTS = 1000        # and the alert's own number


# ---- without the GIL ----

cdef int link_open(LeaderLink* link) noexcept nogil:
    """To the first of its addresses that takes it."""
    cdef addrinfo hints
    cdef addrinfo* found = NULL
    cdef addrinfo* each
    cdef int result = LINK_BROKEN
    memset(&hints, 0, sizeof(hints))
    hints.ai_socktype = SOCK_STREAM
    link.error = getaddrinfo(link.host.c_str(), link.port.c_str(), &hints, &found)
    if link.error != 0:
        return LINK_UNKNOWN_HOST
    each = found
    while each != NULL:
        result = _connect(link, each)
        if result == LINK_OK or result == LINK_WOKEN:
            break
        each = each.ai_next
    freeaddrinfo(found)
    link.good_until_ns = 0
    if result == LINK_OK and link.security.get() != NULL:
        result = _shake(link)
    if result == LINK_OK and link.logs_in:
        result = leader_log_in(link)
    if result != LINK_OK:
        link_close(link)
    return result


cdef int _shake(LeaderLink* link) noexcept nogil:
    cdef int64_t until_ns = monotonic_ns() + link.patience_ns
    cdef int result = LINK_OK, shaken
    link.tls = tls_client_new(link.security.get(), link.fd, link.host)
    if link.tls == NULL:
        link.words.assign(b"OpenSSL makes no connection")
        return LINK_UNTRUSTED
    while True:
        shaken = tls_shake(link.tls)
        if shaken == SHAKE_DONE:
            return LINK_OK
        if shaken != SHAKE_WAITS:
            return _broken(link)
        result = _wait_or_stop(link, POLLOUT if link.tls.read_wants_write else POLLIN, until_ns)
        if result != LINK_OK:
            return result


cdef int _wait_or_stop(LeaderLink* link, short events, int64_t until_ns) noexcept nogil:
    cdef int result
    while True:
        result = _wait(link, events, until_ns)
        if result != LINK_WOKEN or link.must_stop.load():
            return result
        link_calm(link)  # what there is to do is looked for after this


cdef int _connect(LeaderLink* link, const addrinfo* address) noexcept nogil:
    cdef int yes = 1, result = LINK_OK
    cdef socklen_t size = sizeof(link.error)
    link.fd = socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                     address.ai_protocol)
    if link.fd < 0:
        return _broken(link)
    setsockopt(link.fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes))
    setsockopt(link.fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes))
    if connect(link.fd, address.ai_addr, address.ai_addrlen) < 0:
        if errno != EINPROGRESS:
            return _broken(link)
        result = _wait(link, POLLOUT, monotonic_ns() + link.patience_ns)
        if result == LINK_OK:
            getsockopt(link.fd, SOL_SOCKET, SO_ERROR, &link.error, &size)
            result = LINK_OK if link.error == 0 else LINK_BROKEN
    if result != LINK_OK:
        link_close(link)
    return result


cdef int _broken(LeaderLink* link) noexcept nogil:
    cdef int result = LINK_BROKEN
    link.error = errno
    if link.tls != NULL and link.tls.is_broken and link.tls.reason != 0:
        # A certificate that the leader refuses is told when the handshake is over here. Else it
        # has only gone, as a leader does that is killed.
        result = LINK_CLOSED
        if not link.tls.is_open or link.tls.reason & REASON_MASK >= REASON_OF_ALERTS:
            result = LINK_UNTRUSTED
            link.words = tls_words(link.tls)
    link_close(link)
    return result


cdef void link_close(LeaderLink* link) noexcept nogil:
    if link.tls != NULL:
        tls_free(link.tls)
    link.tls = NULL
    if link.fd >= 0:
        close(link.fd)
    link.fd = -1


cdef int _wait(LeaderLink* link, short events, int64_t until_ns) noexcept nogil:
    """Until the socket is ready, which counts before a wake-up."""
    cdef pollfd[2] fds
    cdef int64_t left_ns
    cdef int count
    fds[0].fd, fds[0].events = link.fd, events
    fds[1].fd, fds[1].events = link.event_fd, POLLIN
    while True:
        left_ns = until_ns - monotonic_ns()
        fds[0].revents = fds[1].revents = 0
        count = poll(fds, 2, <int>max((left_ns + 999999) // 1000000, <int64_t>0))
        if count < 0 and errno != EINTR:
            return _broken(link)
        if count > 0:
            return LINK_OK if fds[0].revents != 0 else LINK_WOKEN
        if left_ns <= 0:
            return LINK_LATE


cdef int link_send(LeaderLink* link, const vector[uint8_t]* data) noexcept nogil:
    cdef size_t at = 0
    cdef int64_t sent
    cdef int result
    while at < data.size():
        sent = _send(link, data.data() + at, data.size() - at)
        if sent >= 0:
            at += sent
        elif errno == EAGAIN:
            result = _wait_or_stop(
                link, POLLIN if link.tls != NULL and link.tls.write_wants_read else POLLOUT,
                monotonic_ns() + link.patience_ns)
            if result != LINK_OK:
                return result
        elif errno != EINTR:
            return _broken(link)
    return LINK_OK


cdef int64_t _send(LeaderLink* link, const uint8_t* data, int64_t size) noexcept nogil:
    if link.tls != NULL:
        return tls_write(link.tls, data, size)
    return send(link.fd, data, size, MSG_NOSIGNAL)


cdef int64_t _receive(LeaderLink* link, uint8_t* into, int64_t size) noexcept nogil:
    cdef iovec part
    if link.tls == NULL:
        return recv(link.fd, into, size, 0)
    part.iov_base, part.iov_len = into, size
    return tls_read(link.tls, &part, 1)


cdef int link_receive_all(LeaderLink* link, uint8_t* into, int64_t size) noexcept nogil:
    cdef int64_t at = 0, got
    while at < size:
        got = link_receive(link, into + at, size - at)
        if got > 0:
            at += got
        elif got != LINK_WOKEN or link.must_stop.load():
            return <int>got
        else:
            link_calm(link)
    return LINK_OK


cdef int64_t link_receive(LeaderLink* link, uint8_t* into, int64_t size) noexcept nogil:
    cdef int64_t until_ns = monotonic_ns() + link.patience_ns, got
    cdef short events
    cdef int result
    while True:
        got = _receive(link, into, size)
        if got > 0:
            return got
        if got == 0:
            return LINK_CLOSED
        if errno == EAGAIN:
            events = POLLOUT if link.tls != NULL and link.tls.read_wants_write else POLLIN
            result = _wait(link, events, min(until_ns, link.wake_at_ns))
            if result == LINK_LATE and link.wake_at_ns < until_ns:
                result = LINK_WOKEN
            if result != LINK_OK:
                return result
        elif errno != EINTR:
            return _broken(link)


cdef void link_sleep(LeaderLink* link, int64_t until_ns) noexcept nogil:
    cdef pollfd event
    cdef int64_t left_ns = until_ns - monotonic_ns()
    event.fd, event.events = link.event_fd, POLLIN
    if left_ns > 0:
        poll(&event, 1, <int>min((left_ns + 999999) // 1000000, <int64_t>SLEEP_MS_MAX))


cdef void link_calm(LeaderLink* link) noexcept nogil:
    cdef uint64_t count
    eventfd_read(link.event_fd, &count)

"""Sockets, epoll and eventfd, all usable without the GIL."""

from libc.stdint cimport uint32_t, uint64_t
from posix.types cimport off_t

cdef extern from "sys/uio.h" nogil:
    struct iovec:
        void* iov_base
        size_t iov_len
    ssize_t readv(int fd, const iovec* parts, int count)
    ssize_t preadv2(int fd, const iovec* parts, int count, off_t position, int flags)
    enum:
        RWF_NOWAIT

cdef extern from "sys/socket.h" nogil:
    struct msghdr:
        void* msg_name
        size_t msg_namelen
        iovec* msg_iov
        size_t msg_iovlen
        void* msg_control
        size_t msg_controllen
        int msg_flags
    ctypedef unsigned int socklen_t
    struct sockaddr:
        unsigned short sa_family
    struct sockaddr_storage:
        unsigned short ss_family
    int accept4(int fd, sockaddr* address, socklen_t* size, int flags)
    int getsockname(int fd, sockaddr* address, socklen_t* size)
    int setsockopt(int fd, int level, int name, const void* value, socklen_t size)
    ssize_t sendmsg(int fd, const msghdr* message, int flags)
    ssize_t recv(int fd, void* data, size_t size, int flags)
    int shutdown(int fd, int how)
    enum:
        AF_INET, AF_INET6, SOCK_NONBLOCK, SOCK_CLOEXEC, MSG_NOSIGNAL, MSG_MORE, MSG_PEEK, SHUT_WR

cdef extern from "netinet/in.h" nogil:
    enum:
        IPPROTO_TCP, INET6_ADDRSTRLEN
    struct in_addr:
        pass
    struct in6_addr:
        pass
    struct sockaddr_in:
        in_addr sin_addr
    struct sockaddr_in6:
        in6_addr sin6_addr

cdef extern from "arpa/inet.h" nogil:
    const char* inet_ntop(int family, const void* address, char* text, socklen_t size)

cdef extern from "netinet/tcp.h" nogil:
    enum:
        TCP_NODELAY, TCP_CONGESTION, TCP_NOTSENT_LOWAT

cdef extern from "sys/sendfile.h" nogil:
    ssize_t sendfile(int out_fd, int in_fd, off_t* position, size_t size)

cdef extern from "sys/epoll.h" nogil:
    ctypedef union epoll_data_t:
        uint64_t u64
    struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_create1(int flags)
    int epoll_ctl(int epoll_fd, int operation, int fd, epoll_event* event)
    int epoll_wait(int epoll_fd, epoll_event* events, int most, int timeout_ms)
    enum:
        EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL, EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP
        EPOLLRDHUP, EPOLL_CLOEXEC

cdef extern from "sys/eventfd.h" nogil:
    int eventfd(unsigned int value, int flags)
    int eventfd_write(int fd, uint64_t value)
    int eventfd_read(int fd, uint64_t* value)
    enum:
        EFD_NONBLOCK, EFD_CLOEXEC

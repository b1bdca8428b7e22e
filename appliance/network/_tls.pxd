"""TLS of one connection, by OpenSSL on its descriptor. Nothing here waits."""

from libc.stdint cimport int64_t, uint32_t
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string

from appliance.native._native cimport mutex
from appliance.native._openssl cimport CCertificate, CContext, CSsl, OpenSSL
from appliance.native._socket cimport iovec

# What the connections of one listener are made of. Files that changed make another context; a
# connection keeps the one that it began with.
cdef cppclass TlsListener:
    OpenSSL* openssl               # constant, as is `is_login`
    bint is_login                  # the client's certificate says who it is
    mutex guard
    CContext* context              # guard; owned

ctypedef shared_ptr[TlsListener] TlsListenerRef

# Owned by its connection, and guarded as that is. `new Tls()` zeroes it.
cdef cppclass Tls:
    OpenSSL* openssl
    CSsl* ssl                      # owned
    bint is_login
    bint is_begun                  # bytes of the client came
    bint is_open                   # the handshake is over
    bint is_broken                 # OpenSSL gave up, and must not be asked again
    bint is_kernel                 # the kernel encrypts what is sent
    bint is_resumed
    bint has_more                  # the last read filled its room: epoll may not tell of the rest
    bint read_wants_write          # the read, or the handshake, goes on when the socket takes more
    bint write_wants_read
    int64_t deadline_ns            # of the handshake
    int64_t pending                # bytes of an unfinished write, which it must get again
    unsigned long reason           # OpenSSL's, of the fault; 0: none is known

# NULL: no memory. The descriptor stays the connection's.
cdef Tls* tls_new(TlsListener* listener, int fd) noexcept nogil
# The same at the other end, for a connection to a server: its certificate must be for `host`.
cdef Tls* tls_client_new(TlsListener* listener, int fd, const string& host) noexcept nogil
# Says goodbye, if there is somebody to hear it, and frees it.
cdef void tls_free(Tls* tls) noexcept nogil

cdef enum ShakeResult:
    SHAKE_DONE = 0
    SHAKE_WAITS = 1                # for the client
    SHAKE_FAILED = 2

cdef int tls_shake(Tls* tls) noexcept nogil
# As readv: a count, 0 at the end, -1 with an errno. It reads on until the room is full or nothing
# more is there.
cdef int64_t tls_read(Tls* tls, const iovec* parts, int count) noexcept nogil
# As write: a count, or -1 with an errno. After EAGAIN the same bytes come again, or more.
cdef int64_t tls_write(Tls* tls, const void* data, int64_t size) noexcept nogil
# What epoll is asked for, where a plain connection would ask for `wanted`.
cdef uint32_t tls_interest(Tls* tls, uint32_t wanted) noexcept nogil
# The subject of the client's certificate in DER, and the second since 1970 from which it is good;
# empty: it has none, 0: it does not tell.
cdef void tls_certificate(Tls* tls, string* subject, int64_t* not_before_s) noexcept nogil
cdef void certificate_subject(OpenSSL* openssl, const CCertificate* certificate,
                              string* into) noexcept nogil
# X509_V_OK, or why the client's certificate was refused.
cdef long tls_verified(Tls* tls) noexcept nogil
# In words why it is broken; empty: OpenSSL does not tell.
cdef string tls_words(Tls* tls) noexcept nogil

# Takes over a context, for connections that begin from now on.
cdef void tls_listener_put(TlsListener* listener, CContext* context) noexcept nogil
cdef void tls_listener_release(TlsListener* listener) noexcept nogil

"""OpenSSL on a connection's descriptor: handshake, read, write, end. All bytes of one connection
pass here, but those that the kernel encrypts.

Any thread may do a connection's turn (a visit), so OpenSSL's queue of errors, which is the
thread's, may hold somebody else's. It is emptied before each call whose result is asked for.
The process must ignore SIGPIPE: OpenSSL writes without MSG_NOSIGNAL (`_tls_context.pyx` checks it).
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libcpp.string cimport string

from appliance.native._native cimport EAGAIN, EINTR, ScopeLock, errno, set_errno
from appliance.native._openssl cimport (
    BIO_CTRL_GET_KTLS_SEND, SSL_ERROR_SYSCALL, SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE,
    SSL_CTRL_SET_TLSEXT_HOSTNAME, SSL_ERROR_ZERO_RETURN, TLSEXT_NAMETYPE_host_name,
    X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, CCertificate, CContext, CMoment, CName, CWanted, OpenSSL,
)
from appliance.native._socket cimport EPOLLIN, EPOLLOUT, iovec


cdef extern from "errno.h" nogil:
    int ECONNRESET, EPROTO

cdef extern from "time.h" nogil:
    int64_t timegm(CMoment*)

cdef enum:
    CALL_MAX = 1073741824          # bytes in one call of OpenSSL, which counts in `int`
    RECORD_BYTES = 16384           # the largest record: of an unfinished write OpenSSL holds one


# ---- without the GIL ----

cdef Tls* tls_new(TlsListener* listener, int fd) noexcept nogil:
    cdef Tls* tls = _new(listener, fd)
    if tls != NULL:
        tls.openssl.SSL_set_accept_state(tls.ssl)
    return tls


cdef Tls* tls_client_new(TlsListener* listener, int fd, const string& host) noexcept nogil:
    cdef Tls* tls = _new(listener, fd)
    cdef OpenSSL* openssl
    cdef CWanted* wanted
    if tls == NULL:
        return NULL
    openssl = tls.openssl
    openssl.SSL_set_connect_state(tls.ssl)
    wanted = openssl.SSL_get0_param(tls.ssl)
    openssl.X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS)
    if openssl.X509_VERIFY_PARAM_set1_ip_asc(wanted, host.c_str()) == 1:
        return tls
    if openssl.X509_VERIFY_PARAM_set1_host(wanted, host.c_str(), 0) != 1 or openssl.SSL_ctrl(
            tls.ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
            <void*>host.c_str()) != 1:
        tls_free(tls)  # an empty name, which would be checked for nothing
        return NULL
    return tls


cdef Tls* _new(TlsListener* listener, int fd) noexcept nogil:
    cdef Tls* tls = new Tls()
    cdef ScopeLock lock
    tls.openssl = listener.openssl
    tls.is_login = listener.is_login
    lock.hold(listener.guard)
    tls.ssl = tls.openssl.SSL_new(listener.context)
    if tls.ssl == NULL or tls.openssl.SSL_set_fd(tls.ssl, fd) != 1:
        tls.is_broken = True
        tls_free(tls)
        return NULL
    return tls


cdef void tls_free(Tls* tls) noexcept nogil:
    if tls.is_open and not tls.is_broken:
        tls.openssl.ERR_clear_error()
        tls.openssl.SSL_shutdown(tls.ssl)  # sends close_notify, if the socket takes it
    tls.openssl.SSL_free(tls.ssl)
    tls.openssl.ERR_clear_error()
    del tls


cdef int tls_shake(Tls* tls) noexcept nogil:
    cdef int got
    tls.read_wants_write = False
    tls.openssl.ERR_clear_error()
    set_errno(0)
    got = tls.openssl.SSL_do_handshake(tls.ssl)
    if got == 1:
        tls.is_open = True
        tls.is_resumed = tls.openssl.SSL_session_reused(tls.ssl) == 1
        tls.is_kernel = tls.openssl.BIO_ctrl(tls.openssl.SSL_get_wbio(tls.ssl),
                                             BIO_CTRL_GET_KTLS_SEND, 0, NULL) == 1
        return SHAKE_DONE
    if _failed(tls, got, &tls.read_wants_write, SSL_ERROR_WANT_WRITE) < 0 and errno == EAGAIN:
        return SHAKE_WAITS
    tls.is_broken = True
    return SHAKE_FAILED


cdef int64_t tls_read(Tls* tls, const iovec* parts, int count) noexcept nogil:
    cdef int64_t total = 0, got
    cdef size_t at
    cdef int i
    tls.has_more = False
    for i in range(count):
        at = 0
        while at < parts[i].iov_len:
            got = _read(tls, <uint8_t*>parts[i].iov_base + at, parts[i].iov_len - at)
            if got <= 0:
                if total == 0:
                    return got
                # What came before is given first. An end or a fault is met again by the next read,
                # for which epoll need not have a reason.
                tls.has_more = got == 0 or errno != EAGAIN
                return total
            at += got
            total += got
    tls.has_more = True
    return total


cdef int64_t _read(Tls* tls, uint8_t* into, size_t room) noexcept nogil:
    cdef int got
    tls.read_wants_write = False
    if tls.is_broken:
        set_errno(EPROTO)
        return -1
    tls.openssl.ERR_clear_error()
    set_errno(0)
    got = tls.openssl.SSL_read(tls.ssl, into, <int>min(room, <size_t>CALL_MAX))
    if got > 0:
        return got
    return _failed(tls, got, &tls.read_wants_write, SSL_ERROR_WANT_WRITE)


cdef int64_t tls_write(Tls* tls, const void* data, int64_t size) noexcept nogil:
    cdef int got
    tls.write_wants_read = False
    if tls.is_broken or size < tls.pending:
        set_errno(EPROTO)
        return -1
    tls.openssl.ERR_clear_error()
    set_errno(0)
    got = tls.openssl.SSL_write(tls.ssl, data, <int>min(size, <int64_t>CALL_MAX))
    if got > 0:
        tls.pending = 0
        return got
    if _failed(tls, got, &tls.write_wants_read, SSL_ERROR_WANT_READ) == 0:
        set_errno(ECONNRESET)
    if errno == EAGAIN:
        tls.pending = min(size, <int64_t>RECORD_BYTES)
    return -1


cdef int64_t _failed(Tls* tls, int result, bint* wish, int wished) noexcept nogil:
    """0: the client ended it; else -1 with an errno. `wish` is set where it is for the other way
    round that the call waits."""
    cdef int error = tls.openssl.SSL_get_error(tls.ssl, result)
    cdef int of_system = errno
    if error == SSL_ERROR_WANT_READ or error == SSL_ERROR_WANT_WRITE:
        wish[0] = error == wished
        set_errno(EAGAIN)
        return -1
    tls.is_broken = error != SSL_ERROR_ZERO_RETURN
    if error == SSL_ERROR_ZERO_RETURN:
        return 0
    tls.reason = tls.openssl.ERR_peek_error()
    if error == SSL_ERROR_SYSCALL and of_system == 0:
        return 0  # it hung up, as many clients do
    if error != SSL_ERROR_SYSCALL or of_system in (EAGAIN, EINTR):
        of_system = EPROTO
    set_errno(of_system)
    return -1


cdef uint32_t tls_interest(Tls* tls, uint32_t wanted) noexcept nogil:
    if not tls.is_open:
        return EPOLLOUT if tls.read_wants_write else wanted & EPOLLIN
    # The bytes that are there already would wake the thread again and again, for what cannot go on.
    if tls.read_wants_write:
        return wanted & ~EPOLLIN | EPOLLOUT
    if tls.write_wants_read:
        return wanted & ~EPOLLOUT | EPOLLIN
    return wanted


cdef void tls_certificate(Tls* tls, string* subject, int64_t* not_before_s) noexcept nogil:
    cdef CCertificate* certificate = tls.openssl.SSL_get_peer_certificate(tls.ssl)
    cdef CMoment begin
    not_before_s[0] = 0
    if certificate == NULL:
        return
    certificate_subject(tls.openssl, certificate, subject)
    if tls.openssl.ASN1_TIME_to_tm(tls.openssl.X509_get0_notBefore(certificate), &begin) == 1:
        not_before_s[0] = max(0, timegm(&begin))
    tls.openssl.X509_free(certificate)


cdef void certificate_subject(OpenSSL* openssl, const CCertificate* certificate,
                              string* into) noexcept nogil:
    cdef CName* name = openssl.X509_get_subject_name(certificate)
    cdef int size = openssl.i2d_X509_NAME(name, NULL)
    cdef unsigned char* at
    if size > 0:
        into.resize(size)
        at = <unsigned char*>into.data()
        openssl.i2d_X509_NAME(name, &at)


cdef long tls_verified(Tls* tls) noexcept nogil:
    return tls.openssl.SSL_get_verify_result(tls.ssl)


cdef string tls_words(Tls* tls) noexcept nogil:
    cdef const char* reason = NULL
    cdef long verified = tls_verified(tls)
    cdef string words
    if tls.reason != 0:
        reason = tls.openssl.ERR_reason_error_string(tls.reason)
    if reason != NULL:
        words.append(reason)
    if verified != 0:
        if not words.empty():
            words.append(b": ")
        words.append(tls.openssl.X509_verify_cert_error_string(verified))
    return words


cdef void tls_listener_put(TlsListener* listener, CContext* context) noexcept nogil:
    cdef CContext* before
    listener.guard.lock()
    before = listener.context
    listener.context = context
    listener.guard.unlock()
    if before != NULL:
        listener.openssl.SSL_CTX_free(before)  # its connections have it still


cdef void tls_listener_release(TlsListener* listener) noexcept nogil:
    if listener.context != NULL:
        listener.openssl.SSL_CTX_free(listener.context)
    del listener

"""What a listener's TLS is made of, from the bytes of files: certificates, key, trust, protocols.

Each `use` makes a context of OpenSSL anew, with keys of its own for session tickets: a ticket from
before finds no key, and its client does a full handshake, in which its certificate is checked
against the trust of now.
"""

cimport cython
import signal
from calendar import timegm
from collections import namedtuple

from libcpp.string cimport string
from libcpp.vector cimport vector

from appliance.native._native cimport own as shared
from appliance.native._openssl cimport (
    SSL_CTRL_CHAIN_CERT, SSL_CTRL_MODE, SSL_CTRL_SET_MAX_CERT_LIST, SSL_CTRL_SET_MAX_PROTO_VERSION,
    SSL_CTRL_SET_MIN_PROTO_VERSION, SSL_CTRL_SET_READ_AHEAD, SSL_CTRL_SET_SESS_CACHE_MODE,
    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER, SSL_MODE_ENABLE_PARTIAL_WRITE, SSL_MODE_RELEASE_BUFFERS,
    SSL_OP_CIPHER_SERVER_PREFERENCE, SSL_OP_ENABLE_KTLS, SSL_OP_NO_COMPRESSION,
    SSL_OP_NO_RENEGOTIATION, SSL_SESS_CACHE_OFF, SSL_VERIFY_FAIL_IF_NO_PEER_CERT, SSL_VERIFY_NONE,
    SSL_VERIFY_PEER, TLS1_2_VERSION, TLS1_3_VERSION, CBio, CCertificate, CContext, CKey, CMethod,
    CMoment, CPkcs12, CStack, OpenSSL, openssl_loaded,
)
from appliance.network._tls cimport (
    TlsListener, certificate_subject, tls_listener_put, tls_listener_release,
)

from appliance.errors import TlsInvalid, TlsUnavailable

# A certificate of a file: its subject in DER, and the second since 1970 up to which it is good.
Certificate = namedtuple("Certificate", "subject not_after_s")

# A file of certificates; `key` is that of another file, if the key is not in the same one.
Store = namedtuple("Store", "content is_pkcs12 password key place")

# What is asked of clients; `least` and `most` are names of protocols.
Rules = namedtuple("Rules", "name client_auth least most ciphers suites")

cdef dict versions = {"TLSv1.2": TLS1_2_VERSION, "TLSv1.3": TLS1_3_VERSION}
cdef dict modes = {
    "none": SSL_VERIFY_NONE,
    "requested": SSL_VERIFY_PEER,
    "required": SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
}

cdef enum:
    NO_START_LINE = 108            # PEM's reason at the end of a file
    REASON_MASK = 0xFFF
    CLIENT_CHAIN_BYTES_MAX = 32768  # a client's certificates; chains of companies have some 10 KiB
    CHAIN_DEPTH_MAX = 8
    READ_BYTES = 65536             # OpenSSL takes from the socket at once; freed when it is empty
    SESSION_S = 7200               # for which a session may be resumed
    TICKETS = 1                    # after a full handshake: Kafka's clients resume none, or one
    NAME_MAX = 32                  # bytes of a session's context


# ---- with the GIL ----

cdef class TlsContext:
    """Of one listener. `is_login`: the client's certificate says who it is, or that it is nobody.
    There is nothing to serve before the first `use`."""

    def __cinit__(self, bint is_login):
        cdef TlsListener* listener
        at_sigpipe = signal.getsignal(signal.SIGPIPE)
        if at_sigpipe is None or at_sigpipe is signal.SIG_DFL:
            raise TlsUnavailable("TLS: the process must ignore SIGPIPE, as Python does from its "
                                 "start: a client that hangs up would end it")
        listener = new TlsListener()
        self.listener = shared(listener, tls_listener_release)
        listener.openssl = openssl_loaded()
        listener.is_login = is_login

    def use(self, rules not None, own not None, trust not None):
        """From now on connections begin with this: their own certificate first, then its chain,
        and whose certificates of clients are good. The result: both as they are in the files."""
        return self._use(rules, own, trust, self.listener.get().openssl.TLS_server_method())

    def use_as_client(self, rules not None, own not None, trust not None):
        """The same for connections to servers, whose certificates `trust` has to have signed."""
        return self._use(rules, own, trust, self.listener.get().openssl.TLS_client_method())

    cdef _use(self, rules, own, trust, const CMethod* method):
        cdef OpenSSL* openssl = self.listener.get().openssl
        cdef CContext* context
        openssl.ERR_clear_error()
        context = openssl.SSL_CTX_new(method)
        if context == NULL:
            raise TlsInvalid(f"TLS: OpenSSL makes no context: {_reason(openssl)}")
        try:
            _set_rules(openssl, context, rules)
            chain = _set_own(openssl, context, own)
            trusted = [each for store in trust for each in _set_trust(openssl, context, store)]
        except BaseException:
            openssl.SSL_CTX_free(context)
            raise
        tls_listener_put(self.listener.get(), context)
        return chain, trusted


def openssl_version():
    """As OpenSSL has it: 0x30000130 is 3.0.19."""
    return openssl_loaded().version


def reason_of(unsigned long code, long verified):
    """What OpenSSL says of a fault of the handshake, and of the client's certificate."""
    cdef OpenSSL* openssl = openssl_loaded()
    cdef const char* text = openssl.ERR_reason_error_string(code)
    words = "unknown" if text == NULL else text.decode()
    if verified != 0:
        words += ": " + openssl.X509_verify_cert_error_string(verified).decode()
    return words


cdef str _reason(OpenSSL* openssl):
    cdef const char* text = openssl.ERR_reason_error_string(openssl.ERR_peek_error())
    return "unknown" if text == NULL else text.decode()


cdef int _set_rules(OpenSSL* openssl, CContext* context, rules) except -1:
    cdef bytes name = rules.name[:NAME_MAX], ciphers = rules.ciphers, suites = rules.suites
    openssl.SSL_CTX_set_options(context, SSL_OP_ENABLE_KTLS | SSL_OP_NO_COMPRESSION
                                | SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_NO_RENEGOTIATION)
    openssl.SSL_CTX_ctrl(context, SSL_CTRL_MODE, SSL_MODE_ENABLE_PARTIAL_WRITE
                         | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS, NULL)
    openssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, versions[rules.least], NULL)
    openssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_MAX_PROTO_VERSION, versions[rules.most], NULL)
    # Tickets need no memory here, and any processor can take one.
    openssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, NULL)
    openssl.SSL_CTX_set_num_tickets(context, TICKETS)
    openssl.SSL_CTX_set_timeout(context, SESSION_S)
    openssl.SSL_CTX_set_session_id_context(context, name, len(name))
    openssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_READ_AHEAD, 1, NULL)
    openssl.SSL_CTX_set_default_read_buffer_len(context, READ_BYTES)
    openssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_MAX_CERT_LIST, CLIENT_CHAIN_BYTES_MAX, NULL)
    openssl.SSL_CTX_set_verify_depth(context, CHAIN_DEPTH_MAX)
    openssl.SSL_CTX_set_verify(context, modes[rules.client_auth], NULL)
    if ciphers and openssl.SSL_CTX_set_cipher_list(context, ciphers) != 1:
        raise TlsInvalid(f"ssl.cipher.suites: OpenSSL has none of {ciphers.decode()}")
    if suites and openssl.SSL_CTX_set_ciphersuites(context, suites) != 1:
        raise TlsInvalid(f"ssl.cipher.suites: OpenSSL has none of {suites.decode()}")
    return 0


cdef list _set_own(OpenSSL* openssl, CContext* context, store):
    """The certificate that clients see, its chain, and its key."""
    cdef Content content = _content(openssl, store, True)
    cdef size_t i
    if content.certificates.empty():
        raise TlsInvalid(f"{store.place}: there is no certificate in it")
    if content.key == NULL:
        raise TlsInvalid(f"{store.place}: there is no private key in it")
    if openssl.SSL_CTX_use_certificate(context, content.certificates[0]) != 1:
        raise TlsInvalid(f"{store.place}: the certificate cannot be used: {_reason(openssl)}")
    for i in range(1, content.certificates.size()):
        # A reference is taken: the last argument but one.
        if openssl.SSL_CTX_ctrl(context, SSL_CTRL_CHAIN_CERT, 1, content.certificates[i]) != 1:
            raise TlsInvalid(f"{store.place}: certificate {i + 1} of its chain cannot be used: "
                             f"{_reason(openssl)}")
    if (openssl.SSL_CTX_use_PrivateKey(context, content.key) != 1
            or openssl.SSL_CTX_check_private_key(context) != 1):
        raise TlsInvalid(f"{store.place}: the private key is not that of the first certificate: "
                         f"{_reason(openssl)}")
    return _facts(content)


cdef list _set_trust(OpenSSL* openssl, CContext* context, store):
    cdef Content content = _content(openssl, store, False)
    cdef size_t i
    if content.certificates.empty():
        raise TlsInvalid(f"{store.place}: there is no certificate in it")
    for i in range(content.certificates.size()):
        if (openssl.X509_STORE_add_cert(openssl.SSL_CTX_get_cert_store(context),
                                        content.certificates[i]) != 1
                or openssl.SSL_CTX_add_client_CA(context, content.certificates[i]) != 1):
            raise TlsInvalid(f"{store.place}: certificate {i + 1} cannot be used: "
                             f"{_reason(openssl)}")
    return _facts(content)


@cython.final
cdef class Content:
    """The certificates of a file in their order, and the key if it has one; freed with it."""

    cdef OpenSSL* openssl
    cdef vector[CCertificate*] certificates
    cdef CKey* key

    def __dealloc__(self):
        cdef size_t i
        for i in range(self.certificates.size()):
            self.openssl.X509_free(self.certificates[i])
        if self.key != NULL:
            self.openssl.EVP_PKEY_free(self.key)


cdef Content _content(OpenSSL* openssl, store, bint wants_key):
    cdef Content content = Content.__new__(Content)
    content.openssl = openssl
    openssl.ERR_clear_error()
    if store.is_pkcs12:
        _open_pkcs12(content, store)
    else:
        _open_pem(content, store, wants_key)
    return content


cdef int _open_pem(Content content, store, bint wants_key) except -1:
    cdef OpenSSL* openssl = content.openssl
    cdef bytes password = store.password, data = store.content, key = store.key or data
    cdef CBio* bio = _bio(openssl, data)
    cdef CCertificate* certificate
    cdef unsigned long reason
    while True:
        certificate = openssl.PEM_read_bio_X509(bio, NULL, NULL, <char*>password)
        if certificate == NULL:
            break
        content.certificates.push_back(certificate)
    reason = openssl.ERR_peek_error() & REASON_MASK
    openssl.BIO_free(bio)
    if reason != NO_START_LINE:  # which is how the file ends
        raise TlsInvalid(f"{store.place}: certificate {content.certificates.size() + 1} cannot be "
                         f"read: {_reason(openssl)}")
    openssl.ERR_clear_error()
    if wants_key and b"PRIVATE KEY-----" in key:  # OpenSSL tells it from a broken one by no error
        bio = _bio(openssl, key)
        # With a password, even an empty one, OpenSSL does not ask on the terminal for it.
        content.key = openssl.PEM_read_bio_PrivateKey(bio, NULL, NULL, <char*>password)
        openssl.BIO_free(bio)
        if content.key == NULL:
            raise TlsInvalid(f"{store.place}: the private key cannot be read, or its password is "
                             f"another: {_reason(openssl)}")
    return 0


cdef int _open_pkcs12(Content content, store) except -1:
    cdef OpenSSL* openssl = content.openssl
    cdef bytes password = store.password, data = store.content
    cdef CBio* bio = _bio(openssl, data)
    cdef CPkcs12* file = openssl.d2i_PKCS12_bio(bio, NULL)
    cdef CCertificate* certificate = NULL
    cdef CStack* others = NULL
    cdef int done, i
    openssl.BIO_free(bio)
    if file == NULL:
        raise TlsInvalid(f"{store.place}: it is no PKCS#12 file: {_reason(openssl)}")
    done = openssl.PKCS12_parse(file, password, &content.key, &certificate, &others)
    openssl.PKCS12_free(file)
    if certificate != NULL:
        content.certificates.push_back(certificate)
    if others != NULL:
        for i in range(openssl.OPENSSL_sk_num(others)):
            content.certificates.push_back(<CCertificate*>openssl.OPENSSL_sk_value(others, i))
        openssl.OPENSSL_sk_free(others)
    if done != 1:
        raise TlsInvalid(f"{store.place}: it cannot be opened, or its password is another: "
                         f"{_reason(openssl)}")
    return 0


cdef CBio* _bio(OpenSSL* openssl, bytes data) except NULL:
    cdef CBio* bio = openssl.BIO_new_mem_buf(<const char*>data, len(data))
    if bio == NULL:
        raise MemoryError
    return bio


cdef list _facts(Content content):
    cdef list found = []
    cdef size_t i
    for i in range(content.certificates.size()):
        found.append(_certificate(content.openssl, content.certificates[i]))
    return found


cdef _certificate(OpenSSL* openssl, CCertificate* certificate):
    cdef string subject
    cdef CMoment end
    certificate_subject(openssl, certificate, &subject)
    if openssl.ASN1_TIME_to_tm(openssl.X509_get0_notAfter(certificate), &end) != 1:
        raise TlsInvalid("TLS: a certificate has no time up to which it is good")
    moment = (end.tm_year + 1900, end.tm_mon + 1, end.tm_mday, end.tm_hour, end.tm_min, end.tm_sec)
    return Certificate(<bytes>subject, timegm(moment))

"""OpenSSL's functions by name, found at run time in the library that Python's `ssl` uses.

The types are OpenSSL's own, of 1.1.1 and 3.x, which promise them to programs: nothing here depends
on how a structure looks inside. So a build needs no headers, and a process has one OpenSSL.
"""

from libc.stdint cimport uint64_t

cdef extern from * nogil:
    """
    struct ssl_st; struct ssl_ctx_st; struct ssl_method_st; struct x509_st; struct X509_name_st;
    struct evp_pkey_st; struct bio_st; struct X509_store_st; struct PKCS12_st; struct stack_st;
    struct asn1_string_st; struct X509_VERIFY_PARAM_st;
    """
    struct CSsl "ssl_st":
        pass
    struct CContext "ssl_ctx_st":
        pass
    struct CMethod "ssl_method_st":
        pass
    struct CCertificate "x509_st":
        pass
    struct CName "X509_name_st":
        pass
    struct CKey "evp_pkey_st":
        pass
    struct CBio "bio_st":
        pass
    struct CStore "X509_store_st":
        pass
    struct CPkcs12 "PKCS12_st":
        pass
    struct CStack "stack_st":
        pass
    struct CTime "asn1_string_st":
        pass
    struct CWanted "X509_VERIFY_PARAM_st":
        pass

cdef extern from "time.h" nogil:
    struct CMoment "tm":           # in UTC; months from 0, years from 1900
        int tm_sec, tm_min, tm_hour, tm_mday, tm_mon, tm_year

ctypedef int (*PasswordCallback)(char* into, int size, int is_writing, void* given) noexcept nogil

# Constants of its headers. They are part of the interface, as the functions are: macros are
# compiled into every program.
cdef enum:
    SSL_ERROR_NONE = 0
    SSL_ERROR_SSL = 1
    SSL_ERROR_WANT_READ = 2
    SSL_ERROR_WANT_WRITE = 3
    SSL_ERROR_SYSCALL = 5
    SSL_ERROR_ZERO_RETURN = 6

    SSL_VERIFY_NONE = 0
    SSL_VERIFY_PEER = 1
    SSL_VERIFY_FAIL_IF_NO_PEER_CERT = 2

    SSL_MODE_ENABLE_PARTIAL_WRITE = 0x1
    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER = 0x2
    SSL_MODE_RELEASE_BUFFERS = 0x10

    SSL_OP_ENABLE_KTLS = 0x8       # 3.0; 1.1.1 knows no such bit, and ignores it
    SSL_OP_NO_COMPRESSION = 0x20000
    SSL_OP_NO_SESSION_RESUMPTION_ON_RENEGOTIATION = 0x10000
    SSL_OP_CIPHER_SERVER_PREFERENCE = 0x400000
    SSL_OP_NO_RENEGOTIATION = 0x40000000

    SSL_CTRL_MODE = 33
    SSL_CTRL_SET_READ_AHEAD = 41
    SSL_CTRL_SET_SESS_CACHE_MODE = 44
    SSL_CTRL_SET_MAX_CERT_LIST = 51
    SSL_CTRL_CHAIN_CERT = 89       # its larg says whether a reference is taken
    SSL_CTRL_SET_MIN_PROTO_VERSION = 123
    SSL_CTRL_SET_MAX_PROTO_VERSION = 124
    SSL_SESS_CACHE_OFF = 0

    TLS1_2_VERSION = 0x0303
    TLS1_3_VERSION = 0x0304

    BIO_CTRL_GET_KTLS_SEND = 73    # 3.0

    SSL_CTRL_SET_TLSEXT_HOSTNAME = 55
    TLSEXT_NAMETYPE_host_name = 0
    X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS = 0x4

# One table, filled before any thread has it, and constant from then on.
cdef cppclass OpenSSL:
    unsigned long version          # 0x30000130: 3.0.19

    # a connection
    CSsl* (*SSL_new)(CContext*) noexcept nogil
    void (*SSL_free)(CSsl*) noexcept nogil
    int (*SSL_set_fd)(CSsl*, int) noexcept nogil
    void (*SSL_set_accept_state)(CSsl*) noexcept nogil
    void (*SSL_set_connect_state)(CSsl*) noexcept nogil
    long (*SSL_ctrl)(CSsl*, int, long, void*) noexcept nogil
    CWanted* (*SSL_get0_param)(CSsl*) noexcept nogil
    int (*X509_VERIFY_PARAM_set1_host)(CWanted*, const char*, size_t) noexcept nogil
    int (*X509_VERIFY_PARAM_set1_ip_asc)(CWanted*, const char*) noexcept nogil
    void (*X509_VERIFY_PARAM_set_hostflags)(CWanted*, unsigned int) noexcept nogil
    int (*SSL_do_handshake)(CSsl*) noexcept nogil
    int (*SSL_read)(CSsl*, void*, int) noexcept nogil
    int (*SSL_write)(CSsl*, const void*, int) noexcept nogil
    int (*SSL_shutdown)(CSsl*) noexcept nogil
    int (*SSL_get_error)(const CSsl*, int) noexcept nogil
    long (*SSL_get_verify_result)(const CSsl*) noexcept nogil
    CCertificate* (*SSL_get_peer_certificate)(const CSsl*) noexcept nogil  # with a reference
    int (*SSL_version)(const CSsl*) noexcept nogil
    int (*SSL_session_reused)(const CSsl*) noexcept nogil
    CBio* (*SSL_get_wbio)(const CSsl*) noexcept nogil
    long (*BIO_ctrl)(CBio*, int, long, void*) noexcept nogil
    CName* (*X509_get_subject_name)(const CCertificate*) noexcept nogil
    int (*i2d_X509_NAME)(const CName*, unsigned char**) noexcept nogil
    void (*X509_free)(CCertificate*) noexcept nogil

    # errors, of the calling thread
    void (*ERR_clear_error)() noexcept nogil
    unsigned long (*ERR_peek_error)() noexcept nogil
    const char* (*ERR_reason_error_string)(unsigned long) noexcept nogil
    const char* (*X509_verify_cert_error_string)(long) noexcept nogil

    # what connections are made of
    const CMethod* (*TLS_server_method)() noexcept nogil
    const CMethod* (*TLS_client_method)() noexcept nogil
    CContext* (*SSL_CTX_new)(const CMethod*) noexcept nogil
    void (*SSL_CTX_free)(CContext*) noexcept nogil
    long (*SSL_CTX_ctrl)(CContext*, int, long, void*) noexcept nogil
    uint64_t (*SSL_CTX_set_options)(CContext*, uint64_t) noexcept nogil
    int (*SSL_CTX_set_cipher_list)(CContext*, const char*) noexcept nogil
    int (*SSL_CTX_set_ciphersuites)(CContext*, const char*) noexcept nogil
    int (*SSL_CTX_use_certificate)(CContext*, CCertificate*) noexcept nogil
    int (*SSL_CTX_use_PrivateKey)(CContext*, CKey*) noexcept nogil
    int (*SSL_CTX_check_private_key)(const CContext*) noexcept nogil
    CStore* (*SSL_CTX_get_cert_store)(const CContext*) noexcept nogil
    int (*X509_STORE_add_cert)(CStore*, CCertificate*) noexcept nogil
    int (*SSL_CTX_add_client_CA)(CContext*, CCertificate*) noexcept nogil
    void (*SSL_CTX_set_verify)(CContext*, int, void*) noexcept nogil
    void (*SSL_CTX_set_verify_depth)(CContext*, int) noexcept nogil
    int (*SSL_CTX_set_session_id_context)(CContext*, const unsigned char*,
                                          unsigned int) noexcept nogil
    long (*SSL_CTX_set_timeout)(CContext*, long) noexcept nogil
    int (*SSL_CTX_set_num_tickets)(CContext*, size_t) noexcept nogil
    void (*SSL_CTX_set_default_read_buffer_len)(CContext*, size_t) noexcept nogil

    # from the bytes of files
    CBio* (*BIO_new_mem_buf)(const void*, int) noexcept nogil
    int (*BIO_free)(CBio*) noexcept nogil
    CCertificate* (*PEM_read_bio_X509)(CBio*, CCertificate**, PasswordCallback,
                                       void*) noexcept nogil
    CKey* (*PEM_read_bio_PrivateKey)(CBio*, CKey**, PasswordCallback, void*) noexcept nogil
    void (*EVP_PKEY_free)(CKey*) noexcept nogil
    CPkcs12* (*d2i_PKCS12_bio)(CBio*, CPkcs12**) noexcept nogil
    void (*PKCS12_free)(CPkcs12*) noexcept nogil
    int (*PKCS12_parse)(CPkcs12*, const char*, CKey**, CCertificate**, CStack**) noexcept nogil
    int (*OPENSSL_sk_num)(const CStack*) noexcept nogil
    void* (*OPENSSL_sk_value)(const CStack*, int) noexcept nogil
    void (*OPENSSL_sk_free)(CStack*) noexcept nogil
    const CTime* (*X509_get0_notBefore)(const CCertificate*) noexcept nogil
    const CTime* (*X509_get0_notAfter)(const CCertificate*) noexcept nogil
    int (*ASN1_TIME_to_tm)(const CTime*, CMoment*) noexcept nogil

# The table; loaded at the first call. Raises TlsUnavailable.
cdef OpenSSL* openssl_loaded() except NULL

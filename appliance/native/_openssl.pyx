"""Finds OpenSSL in the process: Python's `_ssl` has loaded it, and its functions are asked for by
name from there.

`_ssl` is a shared object that is linked with libssl, or has it inside; asked for a name, the
dynamic linker looks in it and in what it is linked with, and nowhere else. So it cannot be another
copy. A Python with `_ssl` built in is asked as a whole. Where OpenSSL's names are hidden, as in
some Pythons that bring their own, there is no TLS for Kafka's port, and the error says so.
"""

from appliance.errors import TlsUnavailable


cdef extern from "dlfcn.h" nogil:
    void* dlopen(const char* name, int flags)
    void* dlsym(void* library, const char* name)
    enum:
        RTLD_NOW, RTLD_NOLOAD

cdef enum:
    OLDEST = 0x10101000            # 1.1.1: TLS 1.3

cdef unsigned long LIBRESSL = 0x20000000  # what LibreSSL says, whatever its version

cdef OpenSSL* found = NULL


# ---- with the GIL ----

cdef OpenSSL* openssl_loaded() except NULL:
    global found
    cdef OpenSSL* table
    if found == NULL:
        table = new OpenSSL()
        try:
            _fill(table)
        except TlsUnavailable:
            del table
            raise
        found = table
    return found


cdef int _fill(OpenSSL* table) except -1:
    cdef void* library = _library()
    cdef unsigned long (*version)() noexcept nogil
    _find(library, <void**>&version, b"OpenSSL_version_num")
    table.version = version()
    if table.version < OLDEST or table.version == LIBRESSL:
        raise TlsUnavailable(f"TLS needs OpenSSL 1.1.1 or newer; Python has {_version_text()}")
    _find_connection(library, table)
    _find_context(library, table)
    _find_files(library, table)
    return 0


cdef void* _library() except NULL:
    cdef void* library
    cdef bytes path
    try:
        import _ssl
    except ImportError as error:
        raise TlsUnavailable(f"TLS needs a Python with the module ssl: {error}") from error
    place = getattr(_ssl, "__file__", None)
    if place is None:  # built into Python
        library = dlopen(NULL, RTLD_NOW)
    else:
        path = place.encode()
        library = dlopen(path, RTLD_NOW | RTLD_NOLOAD)
    if library == NULL:
        raise TlsUnavailable(f"TLS: the loaded {place or 'Python'} cannot be opened")
    return library


cdef str _version_text():
    import ssl
    return ssl.OPENSSL_VERSION


cdef int _find(void* library, void** place, bytes name) except -1:
    place[0] = dlsym(library, name)
    if place[0] == NULL:
        raise TlsUnavailable(
            f"TLS: Python's ssl has no function {name.decode()} to call ({_version_text()}); "
            "wanted a Python that is linked with OpenSSL's shared library, as those of Linux "
            "distributions"
        )
    return 0


cdef int _find_connection(void* library, OpenSSL* table) except -1:
    _find(library, <void**>&table.SSL_new, b"SSL_new")
    _find(library, <void**>&table.SSL_free, b"SSL_free")
    _find(library, <void**>&table.SSL_set_fd, b"SSL_set_fd")
    _find(library, <void**>&table.SSL_set_accept_state, b"SSL_set_accept_state")
    _find(library, <void**>&table.SSL_set_connect_state, b"SSL_set_connect_state")
    _find(library, <void**>&table.SSL_ctrl, b"SSL_ctrl")
    _find(library, <void**>&table.SSL_get0_param, b"SSL_get0_param")
    _find(library, <void**>&table.X509_VERIFY_PARAM_set1_host, b"X509_VERIFY_PARAM_set1_host")
    _find(library, <void**>&table.X509_VERIFY_PARAM_set1_ip_asc,
          b"X509_VERIFY_PARAM_set1_ip_asc")
    _find(library, <void**>&table.X509_VERIFY_PARAM_set_hostflags,
          b"X509_VERIFY_PARAM_set_hostflags")
    _find(library, <void**>&table.SSL_do_handshake, b"SSL_do_handshake")
    _find(library, <void**>&table.SSL_read, b"SSL_read")
    _find(library, <void**>&table.SSL_write, b"SSL_write")
    _find(library, <void**>&table.SSL_shutdown, b"SSL_shutdown")
    _find(library, <void**>&table.SSL_get_error, b"SSL_get_error")
    _find(library, <void**>&table.SSL_get_verify_result, b"SSL_get_verify_result")
    _find(library, <void**>&table.SSL_get_peer_certificate,
          b"SSL_get1_peer_certificate" if table.version >= 0x30000000
          else b"SSL_get_peer_certificate")
    _find(library, <void**>&table.SSL_version, b"SSL_version")
    _find(library, <void**>&table.SSL_session_reused, b"SSL_session_reused")
    _find(library, <void**>&table.SSL_get_wbio, b"SSL_get_wbio")
    _find(library, <void**>&table.BIO_ctrl, b"BIO_ctrl")
    _find(library, <void**>&table.X509_get_subject_name, b"X509_get_subject_name")
    _find(library, <void**>&table.i2d_X509_NAME, b"i2d_X509_NAME")
    _find(library, <void**>&table.X509_free, b"X509_free")
    _find(library, <void**>&table.ERR_clear_error, b"ERR_clear_error")
    _find(library, <void**>&table.ERR_peek_error, b"ERR_peek_error")
    _find(library, <void**>&table.ERR_reason_error_string, b"ERR_reason_error_string")
    _find(library, <void**>&table.X509_verify_cert_error_string, b"X509_verify_cert_error_string")
    return 0


cdef int _find_context(void* library, OpenSSL* table) except -1:
    _find(library, <void**>&table.TLS_server_method, b"TLS_server_method")
    _find(library, <void**>&table.TLS_client_method, b"TLS_client_method")
    _find(library, <void**>&table.SSL_CTX_new, b"SSL_CTX_new")
    _find(library, <void**>&table.SSL_CTX_free, b"SSL_CTX_free")
    _find(library, <void**>&table.SSL_CTX_ctrl, b"SSL_CTX_ctrl")
    _find(library, <void**>&table.SSL_CTX_set_options, b"SSL_CTX_set_options")
    _find(library, <void**>&table.SSL_CTX_set_cipher_list, b"SSL_CTX_set_cipher_list")
    _find(library, <void**>&table.SSL_CTX_set_ciphersuites, b"SSL_CTX_set_ciphersuites")
    _find(library, <void**>&table.SSL_CTX_use_certificate, b"SSL_CTX_use_certificate")
    _find(library, <void**>&table.SSL_CTX_use_PrivateKey, b"SSL_CTX_use_PrivateKey")
    _find(library, <void**>&table.SSL_CTX_check_private_key, b"SSL_CTX_check_private_key")
    _find(library, <void**>&table.SSL_CTX_get_cert_store, b"SSL_CTX_get_cert_store")
    _find(library, <void**>&table.X509_STORE_add_cert, b"X509_STORE_add_cert")
    _find(library, <void**>&table.SSL_CTX_add_client_CA, b"SSL_CTX_add_client_CA")
    _find(library, <void**>&table.SSL_CTX_set_verify, b"SSL_CTX_set_verify")
    _find(library, <void**>&table.SSL_CTX_set_verify_depth, b"SSL_CTX_set_verify_depth")
    _find(library, <void**>&table.SSL_CTX_set_session_id_context,
          b"SSL_CTX_set_session_id_context")
    _find(library, <void**>&table.SSL_CTX_set_timeout, b"SSL_CTX_set_timeout")
    _find(library, <void**>&table.SSL_CTX_set_num_tickets, b"SSL_CTX_set_num_tickets")
    _find(library, <void**>&table.SSL_CTX_set_default_read_buffer_len,
          b"SSL_CTX_set_default_read_buffer_len")
    return 0


cdef int _find_files(void* library, OpenSSL* table) except -1:
    _find(library, <void**>&table.BIO_new_mem_buf, b"BIO_new_mem_buf")
    _find(library, <void**>&table.BIO_free, b"BIO_free")
    _find(library, <void**>&table.PEM_read_bio_X509, b"PEM_read_bio_X509")
    _find(library, <void**>&table.PEM_read_bio_PrivateKey, b"PEM_read_bio_PrivateKey")
    _find(library, <void**>&table.EVP_PKEY_free, b"EVP_PKEY_free")
    _find(library, <void**>&table.d2i_PKCS12_bio, b"d2i_PKCS12_bio")
    _find(library, <void**>&table.PKCS12_free, b"PKCS12_free")
    _find(library, <void**>&table.PKCS12_parse, b"PKCS12_parse")
    _find(library, <void**>&table.OPENSSL_sk_num, b"OPENSSL_sk_num")
    _find(library, <void**>&table.OPENSSL_sk_value, b"OPENSSL_sk_value")
    _find(library, <void**>&table.OPENSSL_sk_free, b"OPENSSL_sk_free")
    _find(library, <void**>&table.X509_get0_notBefore, b"X509_get0_notBefore")
    _find(library, <void**>&table.X509_get0_notAfter, b"X509_get0_notAfter")
    _find(library, <void**>&table.ASN1_TIME_to_tm, b"ASN1_TIME_to_tm")
    return 0

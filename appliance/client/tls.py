"""TLS of a connection, by Python's ssl: what a client trusts, and its errors in words."""

from __future__ import annotations

import functools
import os
import socket
import ssl
from collections.abc import Iterable
from typing import Any

from appliance.client.errors import ConfigInvalid, TlsFailed
from appliance.client.security_config import SecurityConfig, secret_in

# OpenSSL's numbers of what is wrong with a certificate: X509_V_ERR_...
NOT_YET_VALID, EXPIRED = 9, 10
NOT_SIGNED_BY_THEM = {2, 18, 19, 20, 21}  # by an authority that is not in the file
OTHER_NAME = {62, 64}  # of a host, of an address

# What the broker sends if it does not like this client's certificate.
WANTS_CERTIFICATE = {
    "SSLV3_ALERT_HANDSHAKE_FAILURE",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED",
    "SSLV3_ALERT_BAD_CERTIFICATE",  # of Java, if there is none
}
REFUSES_CERTIFICATE = {
    "SSLV3_ALERT_CERTIFICATE_EXPIRED",
    "SSLV3_ALERT_CERTIFICATE_REVOKED",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE",
    "TLSV1_ALERT_ACCESS_DENIED",
    "TLSV1_ALERT_DECRYPT_ERROR",
    "TLSV1_ALERT_UNKNOWN_CA",
}
NO_TLS = {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"}
OTHER_VERSION = {
    "NO_PROTOCOLS_AVAILABLE",
    "TLSV1_ALERT_PROTOCOL_VERSION",
    "UNSUPPORTED_PROTOCOL",
}
RECORD_SIZE = 16 << 10  # of the largest record of TLS; smaller parts are joined to fill one
CONTEXTS_MAX = 16  # a mirror has two

Part = bytes | bytearray | memoryview


class TlsSocket(ssl.SSLSocket):
    """A socket whose `sendmsg` fills records, and that another thread can cut."""

    def sendmsg(self, buffers: Iterable[Part], *_: Any) -> int:  # type: ignore[override]
        """Sends the first large part, or the small ones in front of it joined into one."""
        parts = iter(buffers)
        first = next(parts)
        if len(first) >= RECORD_SIZE:
            return self.send(first)
        joined = bytearray(first)
        for part in parts:
            joined += part[: RECORD_SIZE - len(joined)]
            if len(joined) == RECORD_SIZE:
                break
        return self.send(joined)


def secured(plain: socket.socket, config: SecurityConfig, host: str) -> TlsSocket:
    """After the handshake, within the socket's timeout."""
    made = context_of(config).wrap_socket(plain, server_hostname=host)
    assert isinstance(made, TlsSocket)
    return made


def context_of(config: SecurityConfig) -> ssl.SSLContext:
    """Made again when one of its files changed."""
    named = (
        config.ssl_ca_location,
        config.ssl_certificate_location,
        config.ssl_key_location,
        config.ssl_key_password_file,
    )
    states = tuple(state_of(path) for path in named)
    return _context(*named, config.ssl_endpoint_identification_algorithm, states)


def state_of(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:  # who opens it says why
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


@functools.lru_cache(CONTEXTS_MAX)
def _context(
    ca: str, certificate: str, key: str, password_file: str, identification: str, _: Any
) -> ssl.SSLContext:
    made = trusting(ca)
    made.sslsocket_class = TlsSocket
    made.check_hostname = identification == "https"
    if certificate:
        load_own(made, certificate, key, password_file)
    return made


def trusting(ca: str) -> ssl.SSLContext:
    is_folder = os.path.isdir(ca)
    try:
        return ssl.create_default_context(
            cafile=ca if ca and not is_folder else None, capath=ca if is_folder else None
        )
    except ssl.SSLError as error:
        raise ConfigInvalid(f"ssl_ca_location: {ca} has no certificate in PEM") from error
    except OSError as error:
        raise ConfigInvalid(f"ssl_ca_location: cannot read {ca}: {error.strerror}") from error


def load_own(context: ssl.SSLContext, certificate: str, key: str, password_file: str) -> None:
    for name, path in (("ssl_certificate_location", certificate), ("ssl_key_location", key)):
        if path and not os.access(path, os.R_OK):
            raise ConfigInvalid(f"{name}: cannot read {path}")
    named_key = f"ssl_key_location: {key}" if key else f"ssl_certificate_location: {certificate}"

    def password() -> str:
        if password_file:
            return secret_in("ssl_key_password_file", password_file)
        raise ConfigInvalid(f"{named_key}: the key is encrypted, ssl_key_password_file is not set")

    try:
        context.load_cert_chain(certificate, key or None, password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ConfigInvalid(f"{named_key}: the key is not that of {certificate}") from None
        hint = ", or ssl_key_password_file has another password" if password_file else ""
        raise ConfigInvalid(
            f"{certificate} or {named_key}: no certificate and key in PEM{hint}"
        ) from error
    except ValueError as error:  # of the password's length
        raise ConfigInvalid(f"ssl_key_password_file: {password_file}: {error}") from None


# errors


def explained(error: ssl.SSLError, config: SecurityConfig, where: str, host: str) -> TlsFailed:
    """`where` names the broker, `host` is what its certificate has to be for."""
    if isinstance(error, ssl.SSLCertVerificationError):
        why = of_their_certificate(error, config, host)
    else:
        why = of_an_alert(error.reason or "", config)
    return TlsFailed(f"{where}: {why or error.reason or error}")


def of_their_certificate(
    error: ssl.SSLCertVerificationError, config: SecurityConfig, host: str
) -> str:
    code, said = error.verify_code, error.verify_message
    if code in OTHER_NAME:
        return (
            f"its certificate is not for {host!r}: {said}. Use a name that is in it, or let the "
            "broker have one for this name (ssl_endpoint_identification_algorithm)"
        )
    if code in NOT_SIGNED_BY_THEM:
        trusted = config.ssl_ca_location or "the authorities of the system (it is empty)"
        return (
            f"nobody in ssl_ca_location, {trusted}, has signed its certificate: {said}. Name the "
            "file with the authority of the broker"
        )
    if code == EXPIRED:
        return f"the broker wants a new certificate: {said}"
    if code == NOT_YET_VALID:
        return f"its certificate is not valid yet, or this clock is late: {said}"
    return f"its certificate is not accepted: {said}"


def of_an_alert(reason: str, config: SecurityConfig) -> str:
    if reason in WANTS_CERTIFICATE:
        return f"it wants a certificate that it trusts: {own_certificate(config)} ({reason})"
    if reason in REFUSES_CERTIFICATE:
        return f"it does not accept a certificate: {own_certificate(config)} ({reason})"
    if reason in NO_TLS:
        return f"security_protocol is {config.security_protocol}, and this listener has no TLS"
    if reason in OTHER_VERSION:
        return f"it has no version of TLS that this client has, 1.2 or newer ({reason})"
    return ""


def own_certificate(config: SecurityConfig) -> str:
    return f"ssl_certificate_location is {config.ssl_certificate_location or 'empty'}"

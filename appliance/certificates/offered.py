"""What a server offers that speaks TLS: versions, ciphers, its certificate, resumption.

It is looked at and not trusted: what is asked is what it shows to everybody.
"""

from __future__ import annotations

import socket
import ssl
import warnings
from contextlib import suppress
from dataclasses import dataclass, field

TIMEOUT_S = 10.0
VERSIONS = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
CIPHERS_MAX = 40  # of one version; a server offers a dozen


@dataclass
class Offered:
    versions: list[str] = field(default_factory=list)
    ciphers: list[str] = field(default_factory=list)  # in the order in which it chooses them
    certificate: bytes = b""  # DER
    is_resumed: bool = False


@dataclass(frozen=True)
class Shown:
    cipher: str
    certificate: bytes
    session: ssl.SSLSession | None
    is_resumed: bool


def look(host: str, port: int) -> Offered:
    """OSError: nobody is there, or it speaks no TLS."""
    found, refused = Offered(), OSError()
    for name, version in VERSIONS.items():
        try:
            shown = shake_hands(host, port, context_of(version))
        except (ssl.SSLError, ConnectionResetError) as error:
            refused = error
            continue
        found.versions.append(name)
        found.certificate = shown.certificate
        found.is_resumed = found.is_resumed or resumes(host, port, version)
        found.ciphers += [each for each in ciphers(host, port, version, shown.cipher)
                          if each not in found.ciphers]  # fmt: skip
    if not found.versions:
        raise refused
    return found


def context_of(version: ssl.TLSVersion, ciphers: str = "ALL:@SECLEVEL=0") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # old versions are what is looked for
        context.set_ciphers(ciphers)
        context.minimum_version = version
        context.maximum_version = version
    return context


def shake_hands(
    host: str, port: int, context: ssl.SSLContext, session: ssl.SSLSession | None = None
) -> Shown:
    with (
        socket.create_connection((host, port), TIMEOUT_S) as plain,
        context.wrap_socket(plain, server_hostname=host, session=session) as line,
    ):
        if line.version() == "TLSv1.3" and session is None:
            # the ticket comes behind the handshake: whoever is there answers this, or hangs up
            line.settimeout(0.2)
            with suppress(OSError):
                line.recv(1)
        cipher = line.cipher()
        assert cipher is not None, "the handshake is over"
        shown = line.getpeercert(binary_form=True) or b""
        return Shown(cipher[0], shown, line.session, bool(line.session_reused))


def resumes(host: str, port: int, version: ssl.TLSVersion) -> bool:
    context = context_of(version)
    session = shake_hands(host, port, context).session
    return session is not None and shake_hands(host, port, context, session).is_resumed


def ciphers(host: str, port: int, version: ssl.TLSVersion, first: str) -> list[str]:
    """Each that it chooses while those before are not offered. OpenSSL does not let us choose among
    those of TLS 1.3: it is the one that was chosen."""
    found = [first]
    while version is not ssl.TLSVersion.TLSv1_3 and len(found) < CIPHERS_MAX:
        less = ":".join(["ALL", *(f"!{each}" for each in found), "@SECLEVEL=0"])
        try:
            found.append(shake_hands(host, port, context_of(version, less)).cipher)
        except OSError:
            break
    return found

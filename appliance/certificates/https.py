"""What the ports of HTTP speak TLS with.

A new certificate gets a context of its own, for connections that come from then on: whatever is
wrong with it, the former one stays whole. Resumption starts anew with it, which costs each client
one handshake.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from appliance.certificates.keystore import load_into
from appliance.config import NO_FILE, TlsConfig
from appliance.config.tls import TLS_1_2, TLS_1_3

ENABLE_KTLS = 1 << 3  # of OpenSSL 3: the kernel encrypts where it can. Python 3.12 names it

Seen = tuple[tuple[int, int, int] | None, ...]


class Https:
    """`context` is the present one. Any thread may ask for it."""

    def __init__(self, config: TlsConfig) -> None:
        self.config = config
        self._seen = self._look()
        self.context = context_of(config)

    def reload(self) -> int:
        """1 if there was something new. SettingInvalid: it cannot be used, and the former stays."""
        seen = self._look()
        if seen == self._seen:
            return 0
        self.context = context_of(self.config)
        self._seen = seen  # only now: what cannot be used is told of until it can
        return 1

    def _look(self) -> Seen:
        config = self.config
        files = (config.keystore, config.key, config.keystore_password_file)
        return tuple(mark_of(each) for each in files if each != NO_FILE)


def versions_of(config: TlsConfig) -> tuple[ssl.TLSVersion, ssl.TLSVersion]:
    """The least and the greatest: there are two."""
    both = {TLS_1_2: ssl.TLSVersion.TLSv1_2, TLS_1_3: ssl.TLSVersion.TLSv1_3}
    found = [both[each] for each in both if each in config.protocols.all]
    return found[0], found[-1]


def mark_of(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def context_of(config: TlsConfig) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Python has no way to choose among the ciphers of TLS 1.3
    context.minimum_version, context.maximum_version = versions_of(config)
    context.set_ciphers(config.ciphers)
    # a renegotiation is work that a client can ask for again and again
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE | ENABLE_KTLS
    context.options |= ssl.OP_NO_COMPRESSION
    context.set_alpn_protocols(["http/1.1"])
    load_into(context, config)
    return context

"""A client over TLS that says exactly what it is told to."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

from tests.support.certificates import Authority, Certificate
from tests.support.wire_client import WireClient

VERSIONS = {"TLS 1.2": ssl.TLSVersion.TLSv1_2, "TLS 1.3": ssl.TLSVersion.TLSv1_3}


def trusting(trust: Path, version: str = "", client: Certificate | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(trust))
    if version:
        context.minimum_version = context.maximum_version = VERSIONS[version]
    if client is not None:
        context.load_cert_chain(client.certificate, client.key)
    return context


class TlsClient(WireClient):
    def __init__(
        self, address: str, context: ssl.SSLContext, session: ssl.SSLSession | None = None
    ) -> None:
        host, _, port = address.rpartition(":")
        super().__init__((host, int(port)))
        try:
            self.tls = context.wrap_socket(self.socket, server_hostname="localhost",
                                           session=session)
        except BaseException:
            self.socket.close()
            raise
        self.socket: socket.socket = self.tls


def ssl_settings(authority: Authority, **more: str) -> dict[str, str]:
    """Of a broker with one listener, which has TLS."""
    own = {"listeners": "SSL://127.0.0.1:0",
           "ssl.keystore.location": str(authority.issue("server").both)}
    return {**own, **{name.replace("_", "."): value for name, value in more.items()}}

"""A service that signs tokens (JWT) and publishes its keys over HTTPS: an identity provider.

    service = TokenService(Authority(tmp_path))
    service.token("ann", aud="kafka")             # a good one
    service.token("ann", iat=None)                # without a claim
    service.rotate("second")                      # from now on signed by a new key
"""

from __future__ import annotations

import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.certificates import Authority

AUDIENCE = "kafka"


class TokenService:
    def __init__(self, authority: Authority, key_id: str = "first") -> None:
        self.reads = 0  # of the keys
        self._keys: dict[str, Any] = {}
        self.rotate(key_id)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(authority.keystore())
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.issuer = f"https://localhost:{self._server.server_port}"
        self.keys_url = f"{self.issuer}/keys"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def rotate(self, key_id: str) -> None:
        """Signs with a new key. Those of before stay published."""
        self._key_id = key_id
        self._keys[key_id] = rsa.generate_private_key(65537, 2048)

    def published(self) -> bytes:
        to_jwk = jwt.algorithms.RSAAlgorithm.to_jwk
        rows = [{**json.loads(to_jwk(key.public_key())), "kid": name, "use": "sig"}
                for name, key in self._keys.items()]  # fmt: skip
        return json.dumps({"keys": rows}).encode()

    def token(self, name: str, *, key_id: str = "", **claims: Any) -> str:
        now = int(time.time())
        facts = {"sub": name, "iss": self.issuer, "aud": AUDIENCE, "iat": now, "exp": now + 300}
        headers = {"kid": key_id or self._key_id}
        found = {name: value for name, value in {**facts, **claims}.items() if value is not None}
        return jwt.encode(found, self._keys[self._key_id], "RS256", headers)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                service.reads += 1
                body = service.published()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Not into the output of tests."""

        return Handler

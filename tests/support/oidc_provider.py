"""A provider of OpenID Connect for tests: who is sent there has logged in, and is sent back.

    provider.claims = {"sub": "ann", "groups": ["ops"]}     what it says of who comes
    provider.changes = {"aud": "other"}                     claims of the token that are wrong
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from appliance.config.oidc import BACK
from tests.support.certificates import Authority
from tests.support.token_service import TokenService

CLIENT_ID, CLIENT_SECRET = "console", "s3cret of the console"


class OidcProvider(TokenService):
    def __init__(self, authority: Authority) -> None:
        self.claims: dict[str, Any] = {"sub": "ann", "groups": ["ops"]}
        self.changes: dict[str, Any] = {}
        self.codes: dict[str, dict[str, str]] = {}  # what was asked for with each
        super().__init__(authority)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider, keys = self, super()._handler()

        class Handler(keys):  # type: ignore[misc, valid-type]
            def do_GET(self) -> None:
                there = urlsplit(self.path)
                if there.path == "/.well-known/openid-configuration":
                    self.tell(provider.facts())
                elif there.path == "/authorize":
                    self.send_response(302)
                    self.send_header("Location", provider.authorized(dict(parse_qsl(there.query))))
                    self.end_headers()
                else:
                    super().do_GET()

            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                form = {name: values[0] for name, values in
                        parse_qs(self.rfile.read(size).decode()).items()}  # fmt: skip
                self.tell(provider.redeemed(form, self.headers.get("Authorization", "")))

            def tell(self, facts: dict[str, Any]) -> None:
                body = json.dumps(facts).encode()
                self.send_response(400 if "error" in facts else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        return Handler

    def settings(self, secret: Path, console: str) -> dict[str, str]:
        """Of a broker whose people log in here. The secret goes into this file; `console` is the
        address to which the browser is sent back."""
        secret.write_text(f"{CLIENT_SECRET}\n")
        return {
            "admin.oidc.issuer": self.issuer,
            "admin.oidc.client.id": CLIENT_ID,
            "admin.oidc.client.secret.file": str(secret),
            "admin.oidc.redirect.url": f"{console}{BACK}",
            "admin.oidc.viewer.groups": "staff",
            "admin.oidc.operator.groups": "ops",
            "admin.oidc.admin.groups": "root",
        }

    def facts(self) -> dict[str, str]:
        return {"issuer": self.issuer, "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token", "jwks_uri": self.keys_url}  # fmt: skip

    def authorized(self, asked: dict[str, str]) -> str:
        assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
        assert asked["client_id"] == CLIENT_ID
        code = secrets.token_urlsafe(8)
        self.codes[code] = asked
        back = {"code": code, "state": asked["state"], "iss": self.issuer, "session_state": "x"}
        return f"{asked['redirect_uri']}?{urlencode(back)}"

    def redeemed(self, form: dict[str, str], authorization: str) -> dict[str, Any]:
        asked = self.codes.pop(form["code"], None)
        verifier = hashlib.sha256(form["code_verifier"].encode()).digest()
        own = base64.b64encode(b"console:s3cret%20of%20the%20console").decode()
        if (
            asked is None
            or base64.urlsafe_b64encode(verifier).decode().rstrip("=") != asked["code_challenge"]
            or form["redirect_uri"] != asked["redirect_uri"]
            or authorization != f"Basic {own}"
        ):
            return {"error": "invalid_grant"}
        claims = {"aud": CLIENT_ID, "nonce": asked["nonce"], **self.claims, **self.changes}
        return {"id_token": self.token(**{"name": "ann", **claims}), "token_type": "Bearer"}

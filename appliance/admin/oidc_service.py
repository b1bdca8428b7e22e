"""A service of OpenID Connect: what it says of itself, and who logged in. For threads.

Its word is verified as a token of OAUTHBEARER is (`access/tokens.py`).
"""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

from appliance.access import tokens
from appliance.access.sasl import LoginFailed
from appliance.access.tokens import PublishedKeys, Rules, claims_of
from appliance.config import NO_FILE, OidcConfig, SettingInvalid
from appliance.config.oidc import check_encrypted

REFRESH_MS = 3_600_000  # of what the service says of itself, and of its keys
SIGNATURES = ("RS256", "PS256", "ES256", "EdDSA")
SKEW_SECONDS = 30


class Service:
    """What it says of itself, and its keys. For threads."""

    def __init__(self, config: OidcConfig, read: Callable[..., bytes] = tokens.read) -> None:
        self._config, self._read = config, read
        self._facts: dict[str, Any] = {}
        self._keys: PublishedKeys | None = None
        self._known_until = 0.0

    def facts(self) -> dict[str, Any]:
        if time.monotonic() < self._known_until:
            return self._facts
        url = f"{self._config.issuer.rstrip('/')}/.well-known/openid-configuration"
        found = table_of(self._read(url), url)
        if found.get("issuer") != self._config.issuer:
            raise LoginFailed(f"{url} is of {found.get('issuer')!r}, wanted {self._config.issuer}")
        for each in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            check_encrypted(f"{each} of {url}", str(found.get(each)))
        if self._keys is None or found["jwks_uri"] != self._facts.get("jwks_uri"):
            self._keys = PublishedKeys(found["jwks_uri"], REFRESH_MS, self._read)
        self._facts, self._known_until = found, time.monotonic() + REFRESH_MS / 1000
        return found

    def claims(self, code: str, verifier: str, nonce: str) -> dict[str, Any]:
        """Of who logged in, for a code that is good once."""
        config, url = self._config, str(self.facts()["token_endpoint"])
        form = {"grant_type": "authorization_code", "code": code, "code_verifier": verifier,
                "redirect_uri": config.redirect_url, "client_id": config.client_id}  # fmt: skip
        answer = table_of(self._read(url, urlencode(form).encode(), self._headers()), url)
        assert self._keys is not None, "facts() has made them"
        rules = Rules(config.issuer, (config.client_id,), SIGNATURES, SKEW_SECONDS)
        found = claims_of(str(answer.get("id_token")), self._keys, rules)
        if not hmac.compare_digest(str(found.get("nonce")).encode(), nonce.encode()):
            raise LoginFailed("the token has the nonce of another login")
        if found.get("azp", config.client_id) != config.client_id:
            raise LoginFailed(f"the token was made for {found['azp']!r}")
        return found

    def _headers(self) -> dict[str, str]:
        path = self._config.client_secret_file
        if path == NO_FILE:
            return {}
        try:
            secret = path.read_text().strip()
        except (OSError, ValueError) as error:
            text = f"admin.oidc.client.secret.file: {path} cannot be read: {error}"
            raise SettingInvalid(text) from error
        both = f"{quote(self._config.client_id, safe='')}:{quote(secret, safe='')}"
        return {"Authorization": f"Basic {base64.b64encode(both.encode()).decode()}"}


def table_of(data: bytes, url: str) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except ValueError as error:
        raise LoginFailed(f"{url}: no JSON: {str(error)[:200]}") from error
    if not isinstance(found, dict):
        raise LoginFailed(f"{url}: got no JSON object")
    return found

"""Signed tokens (JWT) of a service that publishes its keys: of OAUTHBEARER, and of the console.

What a token says of its own signature counts for nothing: the signatures are those of the setting,
and all of them are made with private keys. Issuer, audience and an end are wanted of each.

All of it runs on threads, as keys may have to be read first.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jwt

from appliance.access.sasl import LoginFailed, Proven, check_name
from appliance.config import AccessConfig
from appliance.errors import ApplianceError
from appliance.process import event_log

log = event_log.named("logins")

KEYS_BYTES_MAX = 1 << 20
KEYS_MAX = 100
READ_SECONDS = 5.0
AGAIN_SECONDS = 10.0  # between two reads, however many tokens have keys that are not known
NO_HEADERS: Mapping[str, str] = {}
KINDS = ("RSA", "EC", "OKP")  # public keys; `oct` is a secret


class KeysUnreadable(ApplianceError):
    """The text says why."""


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """The address is the operator's, and nobody else's choice."""

    def redirect_request(self, *_: Any) -> None:
        return None


def read(url: str, form: bytes | None = None, headers: Mapping[str, str] = NO_HEADERS) -> bytes:
    """Bounded in bytes and time; a form is posted. Who answers may be slow, or somebody else."""
    opener = urllib.request.build_opener(NoRedirect)
    request = urllib.request.Request(url, form, dict(headers))
    found, end = bytearray(), time.monotonic() + READ_SECONDS
    try:
        with opener.open(request, timeout=READ_SECONDS) as answer:
            while piece := answer.read1(KEYS_BYTES_MAX):
                found += piece
                if len(found) > KEYS_BYTES_MAX:
                    raise KeysUnreadable(f"{url}: more than {KEYS_BYTES_MAX} bytes")
                if time.monotonic() > end:
                    raise KeysUnreadable(f"{url}: it took more than {READ_SECONDS} s")
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise KeysUnreadable(f"{url}: {error}") from error
    return bytes(found)


def keys_of(data: bytes) -> dict[str, Any]:
    """By their ids. What cannot sign a token is left out."""
    try:
        rows = json.loads(data)["keys"]
        wanted = [row for row in rows if row.get("kty") in KINDS and row.get("use") != "enc"]
        made = [(str(row.get("kid", "")), jwt.PyJWK(row).key) for row in wanted[:KEYS_MAX]]
    except (ValueError, TypeError, KeyError, AttributeError, jwt.PyJWTError) as error:
        raise KeysUnreadable(f"not a set of keys: {error!r}") from error
    return dict(made)


class PublishedKeys:
    """Read when they are first needed, and again after a time."""

    def __init__(
        self, url: str, refresh_ms: int, read: Callable[[str], bytes] = read,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._url, self._refresh_s = url, refresh_ms / 1000
        self._read, self._clock = read, clock
        self._keys: dict[str, Any] = {}
        self._tried: float | None = None
        self._lock = threading.Lock()  # one thread reads, and others wait for what it finds

    def find(self, key_id: str) -> Any:
        with self._lock:
            if self._is_due(key_id):
                self._refresh()
            if key_id in self._keys:
                return self._keys[key_id]
            if not key_id and len(self._keys) == 1:
                return next(iter(self._keys.values()))
        raise LoginFailed(f"the token has key {key_id[:80]!r}, which is none of {self._url}")

    def _is_due(self, key_id: str) -> bool:
        if self._tried is None:
            return True
        age = self._clock() - self._tried
        return age > self._refresh_s or (key_id not in self._keys and age > AGAIN_SECONDS)

    def _refresh(self) -> None:
        """What is there stays when it cannot be read."""
        self._tried = self._clock()
        try:
            self._keys = keys_of(self._read(self._url))
        except KeysUnreadable as error:
            log.warning("the keys of tokens cannot be read", error=error, kept=len(self._keys))


class Rules(NamedTuple):
    """What is wanted of a token."""

    issuer: str
    audience: tuple[str, ...]  # one of them
    signatures: tuple[str, ...]
    skew_seconds: int


def claims_of(token: str, keys: PublishedKeys, rules: Rules) -> dict[str, Any]:
    """LoginFailed says what is wrong with it."""
    try:
        header = jwt.get_unverified_header(token)
        algorithm, key_id = header.get("alg"), header.get("kid", "")
        if algorithm not in rules.signatures:
            raise LoginFailed(f"the token has signature {str(algorithm)[:20]!r}, wanted one of "
                              f"{', '.join(rules.signatures)}")  # fmt: skip
        found: dict[str, Any] = jwt.decode(
            token, keys.find(str(key_id)), algorithms=[algorithm], audience=rules.audience,
            issuer=rules.issuer, leeway=rules.skew_seconds,
            options={"require": ["exp", "iss", "aud"]},
        )  # fmt: skip
    except (jwt.PyJWTError, TypeError, ValueError) as error:  # TypeError: another kind of key
        raise LoginFailed(f"the token: {error}") from error
    return found


def name_of(claims: Mapping[str, Any], claim: str) -> str:
    name = claims.get(claim)
    if not isinstance(name, str):
        raise LoginFailed(f"the token has no {claim} that is a name")
    check_name(name)
    return name


class Tokens:
    """Of OAUTHBEARER."""

    def __init__(
        self, access: AccessConfig, keys: PublishedKeys | None = None,
        is_withdrawn: Callable[[str, int], bool] = lambda name, issued_ms: False,
    ) -> None:  # fmt: skip
        """`is_withdrawn`: whether what was issued to this name at this time counts no more."""
        self._is_withdrawn = is_withdrawn
        self._claim = access.subject_claim
        self._keys = keys or PublishedKeys(access.jwks_url, access.jwks_refresh_ms)
        self._rules = Rules(
            access.issuer, access.audience.all, access.signatures.all, access.clock_skew_seconds
        )

    def verify(self, token: str) -> Proven:
        claims = claims_of(token, self._keys, self._rules)
        name, issued_ms = name_of(claims, self._claim), int(claims.get("iat", 0)) * 1000
        return Proven(name, int(claims["exp"]) * 1000,
                      holds=lambda: not self._is_withdrawn(name, issued_ms))  # fmt: skip

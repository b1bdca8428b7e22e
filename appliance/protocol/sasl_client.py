"""The client's side of a login by SASL, without I/O: bytes from the broker in, bytes for it out. A
broker is a client, too, of those that it follows.

    exchange.first()          the first message
    exchange.answer(bytes)    the next message, or None when the exchange is over

SCRAM (RFC 5802, RFC 7677), with the function that makes each transition:

    begun ── first ──> first sent ── _proof ──> proof sent ── _end ──> proved

Invariants
1. The password leaves this module only as a proof; it is in no error and in no `repr`.
2. The exchange of SCRAM is over only after the broker has proved that it knows the credential. A
   broker that skips its proof is not the one that has the user.
3. What the broker sends is from a stranger until then: the nonce must begin with ours and be
   longer, and the count of iterations has limits on both sides. A low one would help whoever
   guesses the password from a recorded proof, a high one would keep this process busy.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from typing import Protocol

from appliance.errors import ApplianceError

SCRAM_256, SCRAM_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
HASHES = {SCRAM_256: "sha256", SCRAM_512: "sha512"}
ITERATIONS_MIN = 4096  # RFC 7677
ITERATIONS_MAX = 1_000_000  # about a second of one processor; Kafka makes 4096 to 16384
NONCE_BYTES = 24
CHALLENGE_SIZE_MAX = 4096  # a challenge has some hundred bytes
NO_BINDING = "n,,"  # no channel binding, and no other name to act for
ITERATIONS = re.compile(r"[1-9][0-9]{0,9}")
TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")  # RFC 6750


class ExchangeFailed(ApplianceError):
    """The text never has the secret."""


class Exchange(Protocol):
    def first(self) -> bytes: ...
    def answer(self, challenge: bytes) -> bytes | None: ...


class Scram:
    """Names and passwords are not normalized, because Apache Kafka does not either."""

    def __init__(self, mechanism: str, user: str, password: str, nonce: str = "") -> None:
        self._hash = HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce or base64.b64encode(secrets.token_bytes(NONCE_BYTES)).decode()
        name = user.replace("=", "=3D").replace(",", "=2C")
        self._first = f"n={name},r={self._nonce}"
        self._server_signature = b""
        self._is_over = False

    def first(self) -> bytes:
        return (NO_BINDING + self._first).encode()

    def answer(self, challenge: bytes) -> bytes | None:
        if self._is_over:
            raise ExchangeFailed("the broker went on after the end of the exchange")
        text = text_of(challenge)
        if not self._server_signature:
            return self._proof(text)
        self._end(text)
        return None

    def _proof(self, server_first: str) -> bytes:
        """From `r=nonce,s=salt,i=iterations`."""
        parts = attributes(server_first, "rsi")
        nonce = parts["r"]
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise ExchangeFailed("the broker's nonce does not continue ours: it is an old answer")
        salted = hashlib.pbkdf2_hmac(
            self._hash, self._password, octets_of(parts["s"]), iterations_of(parts["i"])
        )
        client_key = hmac.digest(salted, b"Client Key", self._hash)
        stored_key = hashlib.new(self._hash, client_key).digest()
        binding = base64.b64encode(NO_BINDING.encode()).decode()
        end = f"c={binding},r={nonce}"
        signed = f"{self._first},{server_first},{end}".encode()
        signature = hmac.digest(stored_key, signed, self._hash)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        server_key = hmac.digest(salted, b"Server Key", self._hash)
        self._server_signature = hmac.digest(server_key, signed, self._hash)
        return f"{end},p={base64.b64encode(proof).decode()}".encode()

    def _end(self, server_final: str) -> None:
        """From `v=signature`, or `e=error`."""
        if server_final.startswith("e="):
            raise ExchangeFailed(f"the broker says {server_final[2:].partition(',')[0]!r}")
        signature = octets_of(attributes(server_final, "v")["v"])
        if not hmac.compare_digest(signature, self._server_signature):
            raise ExchangeFailed("the broker did not prove that it knows the user's credential")
        self._is_over = True


class Plain:
    def __init__(self, user: str, password: str) -> None:
        if "\0" in user or "\0" in password:
            raise ExchangeFailed("PLAIN allows no zero byte in user or password")
        self._first = f"\0{user}\0{password}".encode()

    def first(self) -> bytes:
        return self._first

    def answer(self, challenge: bytes) -> None:
        if challenge:
            raise ExchangeFailed("the broker asked for more than PLAIN has")


class OAuthBearer:
    """RFC 7628. A refusal comes as a challenge, and wants one more message before it is final."""

    def __init__(self, token: str) -> None:
        if not TOKEN.fullmatch(token):
            raise ExchangeFailed("the token has characters that tokens may not have")
        self._first = f"{NO_BINDING}\x01auth=Bearer {token}\x01\x01".encode()

    def first(self) -> bytes:
        return self._first

    def answer(self, challenge: bytes) -> bytes | None:
        return b"\x01" if challenge else None


def exchange_of(mechanism: str, user: str, secret: str) -> Exchange:
    """`secret` is the password, or the token."""
    if mechanism == OAUTHBEARER:
        return OAuthBearer(secret)
    if mechanism == PLAIN:
        return Plain(user, secret)
    return Scram(mechanism, user, secret)


def text_of(challenge: bytes) -> str:
    if len(challenge) > CHALLENGE_SIZE_MAX:
        size = len(challenge)
        raise ExchangeFailed(f"the broker sent {size} bytes, wanted at most {CHALLENGE_SIZE_MAX}")
    try:
        return challenge.decode()
    except UnicodeDecodeError as error:
        raise ExchangeFailed("the broker's message is not in UTF-8") from error


def attributes(message: str, wanted: str) -> dict[str, str]:
    """The attributes at the start, in this order; those behind them are extensions. One that must
    be understood, `m=`, stands first."""
    parts = message.split(",")
    found = {part[0]: part[2:] for part in parts[: len(wanted)] if part[1:2] == "="}
    if "".join(found) != wanted:
        names = ", ".join(wanted)
        raise ExchangeFailed(f"the broker's message does not begin with the attributes {names}")
    return found


def octets_of(text: str) -> bytes:
    try:
        octets = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ExchangeFailed("the broker's message is not in base 64") from error
    if not octets:
        raise ExchangeFailed("the broker's salt or signature is empty")
    return octets


def iterations_of(text: str) -> int:
    count = int(text) if ITERATIONS.fullmatch(text) else 0
    if not ITERATIONS_MIN <= count <= ITERATIONS_MAX:
        raise ExchangeFailed(
            f"the broker wants {text[:20]!r} iterations, this client {ITERATIONS_MIN} to "
            f"{ITERATIONS_MAX}"
        )
    return count

"""A client's part of SCRAM, from the standard and not from our code."""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import secrets


@functools.cache
def salted(algorithm: str, password: str, salt: bytes, count: int) -> bytes:
    """Milliseconds of work, which a client that logs in again and again does once."""
    return hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, count)


class ScramClient:
    def __init__(
        self, mechanism: str, user: str, password: str, *, is_token: bool = False
    ) -> None:
        """With a delegation token its id is the user, and its HMAC in base64 the password."""
        self._hash = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[mechanism]
        self._password = password
        name = user.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={name},r={secrets.token_hex(16)}{',tokenauth=true' * is_token}"

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def final(self, answer: bytes) -> bytes:
        said = dict(each.split("=", 1) for each in answer.decode().split(","))
        salt, count = base64.b64decode(said["s"]), int(said["i"])
        key = salted(self._hash, self._password, salt, count)
        client_key = hmac.digest(key, b"Client Key", self._hash)
        unproven = f"c=biws,r={said['r']}"
        message = f"{self._bare},{answer.decode()},{unproven}".encode()
        stored = hashlib.new(self._hash, client_key).digest()
        signature = hmac.digest(stored, message, self._hash)
        self._expected = hmac.digest(hmac.digest(key, b"Server Key", self._hash), message,
                                     self._hash)  # fmt: skip
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{unproven},p={base64.b64encode(proof).decode()}".encode()

    def check(self, answer: bytes) -> None:
        """The server knows the password's keys, too."""
        assert answer == b"v=" + base64.b64encode(self._expected)

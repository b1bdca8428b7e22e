"""Keys of SCRAM (RFC 5802, RFC 7677): made from a password, and compared with one.

Only the results of one-way functions are stored, so neither the catalog nor a copy of it allows a
login:

    salted password = PBKDF2(password, salt, iterations)
    stored key      = H(HMAC(salted password, "Client Key"))
    server key      = HMAC(salted password, "Server Key")

As in Kafka a password is its UTF-8, without the normalization that the RFC recommends: clients do
not do it either.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable

from appliance.access.user_rows import Credential

HASHES = {1: "sha256", 2: "sha512"}  # by Kafka's numbers of SCRAM-SHA-256 and -512
NUMBERS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}

# Twice Kafka's default. Each login costs the client some milliseconds, and so does each guess of
# whoever has a copy of the catalog.
ITERATIONS = 8192

# As Kafka's tools make salts: letters and digits, of 130 bits. Those of users that do not exist
# must look like these.
SALT_LETTERS = b"0123456789abcdefghijklmnopqrstuvwxyz"
SALT_LENGTH = 26


def salted(mechanism: int, password: str, salt: bytes, iterations: int) -> bytes:
    """Takes milliseconds: for a thread."""
    data = password.encode("utf-8", "surrogatepass")
    return hashlib.pbkdf2_hmac(HASHES[mechanism], data, salt, iterations)


def credential_of(
    user: str, mechanism: int, salt: bytes, salted_password: bytes, iterations: int
) -> Credential:
    name = HASHES[mechanism]
    client_key = hmac.digest(salted_password, b"Client Key", name)
    server_key = hmac.digest(salted_password, b"Server Key", name)
    stored_key = hashlib.new(name, client_key).digest()
    return Credential(user, mechanism, salt, stored_key, server_key, iterations)


def credentials_of(user: str, password: str, iterations: int = ITERATIONS) -> list[Credential]:
    """For every mechanism. Takes tens of milliseconds: for a thread."""
    found = []
    for mechanism in HASHES:
        salt = bytes(secrets.choice(SALT_LETTERS) for _ in range(SALT_LENGTH))
        key = salted(mechanism, password, salt, iterations)
        found.append(credential_of(user, mechanism, salt, key, iterations))
    return found


def fits(credential: Credential, password: str) -> bool:
    """Takes milliseconds: for a thread."""
    found = credential_of(
        credential.user, credential.mechanism, credential.salt,
        salted(credential.mechanism, password, credential.salt, credential.iterations),
        credential.iterations,
    )  # fmt: skip
    return hmac.compare_digest(found.stored_key, credential.stored_key)


def stand_in(secret: bytes, user: str, mechanism: int, iterations: Iterable[int]) -> Credential:
    """The credential of a user that does not exist: always the same one for the same name, with an
    iteration count that some user has. No password fits, as nobody knows what was hashed."""
    counts = sorted(set(iterations)) or [ITERATIONS]
    seed = hmac.digest(secret, f"{mechanism} {user}".encode("utf-8", "surrogatepass"), "sha512")
    salt = bytes(SALT_LETTERS[each % len(SALT_LETTERS)] for each in seed[:SALT_LENGTH])
    count = counts[int.from_bytes(seed[-8:], "big") % len(counts)]
    key = hmac.digest(secret, seed, HASHES[mechanism])
    return credential_of(user, mechanism, salt, key, count)


def kind_for(secret: bytes, user: str, kinds: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """Mechanism and iterations with which PLAIN checks a user that does not exist: those of some
    user, and for a name always the same, as the time of a check tells which they were."""
    known = sorted(set(kinds)) or [(next(iter(HASHES)), ITERATIONS)]
    seed = hmac.digest(secret, f"PLAIN {user}".encode("utf-8", "surrogatepass"), "sha256")
    return known[int.from_bytes(seed[:8], "big") % len(known)]

"""Who may use the admin pages: users with passwords, tokens for programs. Both are in the catalog.

Of a password its argon2id hash is kept, of a token its SHA-256: it is 32 random bytes, which need
no slow hash. Roles are in order: a viewer looks, an operator changes, an admin also destroys and
says who may do what.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import time
from dataclasses import dataclass

import argon2

from appliance.admin.route import ADMIN, ROLES
from appliance.catalog import AdminToken, AdminUser, Catalog
from appliance.errors import ApplianceError, RequestInvalid

NAME = re.compile(r"[a-zA-Z0-9._@-]{1,64}")
PASSWORD_MIN, PASSWORD_MAX = 10, 1000  # characters; a longer one would be work for nobody's good
TOKEN_PREFIX = "appliance_"  # so that a scanner for leaked secrets can know it
USERS_MAX, TOKENS_MAX = 1000, 1000
HASHES_MAX = 2  # at a time: each takes 64 MiB and tens of milliseconds of a core


class UserUnknown(ApplianceError):
    kafka_code = 91


class TokenUnknown(ApplianceError):
    kafka_code = 91


@dataclass(frozen=True)
class Identity:
    """Who asks, and what they may."""

    name: str
    role: str
    is_token: bool = False

    def may(self, role: str) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)


class Users:
    """All of them, in memory and in the catalog. Lives on the event loop."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._users = {each.name: each for each in catalog.admin_users()}
        self._tokens = {each.digest: each for each in catalog.admin_tokens()}
        self._hasher = argon2.PasswordHasher()
        self._hashing = asyncio.Semaphore(HASHES_MAX)
        self._nobody = ""  # a hash that fits no password

    @property
    def is_open(self) -> bool:
        """Nobody has a password yet: whoever reaches the pages may do everything."""
        return not self._users

    def users(self) -> list[AdminUser]:
        return sorted(self._users.values(), key=lambda each: each.name)

    def tokens(self) -> list[AdminToken]:
        return sorted(self._tokens.values(), key=lambda each: each.name)

    def find(self, name: str) -> Identity | None:
        user = self._users.get(name)
        return None if user is None else Identity(user.name, user.role)

    # Passwords

    async def verify(self, name: str, password: str) -> Identity | None:
        """None: wrong. Takes as long for a name that does not exist."""
        user = self._users.get(name)
        async with self._hashing:
            if not self._nobody:
                self._nobody = await asyncio.to_thread(self._hasher.hash, secrets.token_hex())
            stored = user.password_hash if user else self._nobody
            is_right = await asyncio.to_thread(self._fits, stored, password[:PASSWORD_MAX])
        return Identity(user.name, user.role) if user and is_right else None

    def _fits(self, stored: str, password: str) -> bool:
        try:
            return self._hasher.verify(stored, password)
        except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHash):
            return False

    async def put(self, name: str, role: str, password: str | None) -> None:
        """A new user, or another role or password of one; None: the same password."""
        if not NAME.fullmatch(name):
            raise RequestInvalid(
                f"name: got {name[:80]!r}, wanted 1 to 64 characters out of a-z A-Z 0-9 . _ @ -"
            )
        known = self._users.get(name)
        if known is None and len(self._users) >= USERS_MAX:
            raise RequestInvalid(f"there are {USERS_MAX} users already")
        if known is None and password is None:
            raise UserUnknown(f"there is no user {name}")
        if known is not None and role != ADMIN:
            self._check_admin_left(name)
        stored = known.password_hash if known else ""
        if password is not None:
            stored = await self._hash(password)
        created_ms = known.created_ms if known else time.time_ns() // 1_000_000
        user = AdminUser(name, role, stored, created_ms)
        await asyncio.to_thread(self._catalog.put_admin_user, user)
        self._users[name] = user

    async def _hash(self, password: str) -> str:
        if not PASSWORD_MIN <= len(password) <= PASSWORD_MAX:
            raise RequestInvalid(
                f"password: got {len(password)} characters, wanted {PASSWORD_MIN} to {PASSWORD_MAX}"
            )
        async with self._hashing:
            return await asyncio.to_thread(self._hasher.hash, password)

    async def remove(self, name: str) -> None:
        if name not in self._users:
            raise UserUnknown(f"there is no user {name[:80]!r}")
        self._check_admin_left(name)
        await asyncio.to_thread(self._catalog.delete_admin_user, name)
        del self._users[name]

    def _check_admin_left(self, name: str) -> None:
        if not any(each.role == ADMIN and each.name != name for each in self._users.values()):
            raise RequestInvalid(f"{name} is the last admin: nobody could make another")

    # Tokens

    async def make_token(self, name: str, role: str) -> tuple[AdminToken, str]:
        """With its secret, which nobody can be told again."""
        if not NAME.fullmatch(name):
            raise RequestInvalid(
                f"name: got {name[:80]!r}, wanted 1 to 64 characters out of a-z A-Z 0-9 . _ @ -"
            )
        if any(each.name == name for each in self._tokens.values()):
            raise RequestInvalid(f"there is a token {name} already")
        if len(self._tokens) >= TOKENS_MAX:
            raise RequestInvalid(f"there are {TOKENS_MAX} tokens already")
        secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
        token = AdminToken(name, role, digest_of(secret), time.time_ns() // 1_000_000)
        await asyncio.to_thread(self._catalog.put_admin_token, token)
        self._tokens[token.digest] = token
        return token, secret

    def of_token(self, secret: str) -> Identity | None:
        # Looked up by its digest: how long that takes tells nothing of the secret.
        token = self._tokens.get(digest_of(secret))
        return None if token is None else Identity(token.name, token.role, is_token=True)

    async def remove_token(self, name: str) -> None:
        found = [each for each in self._tokens.values() if each.name == name]
        if not found:
            raise TokenUnknown(f"there is no token {name[:80]!r}")
        await asyncio.to_thread(self._catalog.delete_admin_token, name)
        del self._tokens[found[0].digest]


def digest_of(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()

"""Users of the console with passwords, and tokens for programs.

The users are those of Kafka clients, too (`access/users.py`): setting a password here makes the
credentials of both. A password is stored as its argon2id hash, a token as its SHA-256: it is 32
random bytes, which need no slow hash. Each role includes the one before: a viewer reads, an
operator changes, an admin also destroys and manages rights. Reading messages is a separate right,
because an operator of the broker need not see its content.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace

import argon2

from appliance.access import scram_keys
from appliance.access.user_rows import NONE, Credential, User, UserRows
from appliance.access.users import UserTable
from appliance.admin.route import ADMIN, ANYONE, ROLES
from appliance.admin.token_rows import AdminToken, TokenRows
from appliance.errors import ApplianceError, Refused, RequestInvalid, ResourceUnknown
from appliance.machine.believed_time import wall_now_ms
from appliance.process import event_log
from appliance.protocol import ErrorCode

log = event_log.named("users")

NAME = re.compile(r"[a-zA-Z0-9._@-]{1,64}")
PASSWORD_MIN, PASSWORD_MAX = 10, 1000  # characters; longer ones only cost time
TOKEN_PREFIX = "appliance_"  # lets scanners for leaked secrets recognise it
USERS_MAX, TOKENS_MAX = 1000, 1000
FIRST_USER = (
    "the console has no user yet, and the first is made by the link that the broker printed at its "
    "start (`journalctl -u appliance` has it), or while the broker is stopped by `appliance user "
    "create NAME --admin --data-dir DIR`"
)
# A hash takes 64 MiB and tens of milliseconds of a core. One at a time for strangers, and one for
# known users: by a session, or by a browser of an earlier login. They never wait for strangers.
HASHES_OF_KIND = 1
STRANGERS_MAX = 8  # waiting strangers, so that a login takes at most a second


class NameTaken(ApplianceError):
    kafka_code = 92


@dataclass(frozen=True)
class Identity:
    """The user of a request, and its rights."""

    name: str
    role: str
    is_token: bool = False
    may_read: bool = True  # messages
    is_elsewhere: bool = False  # a service says so; the name has a colon, as no user here has

    @property
    def who(self) -> str:
        """In the audit trail."""
        return f"token {self.name}" if self.is_token else self.name

    @property
    def shows_messages(self) -> bool:
        """Hidden messages of an admin stay hidden, whatever an administrator may do by rules. Of
        others the rules know: the role gives no READ then."""
        return self.may_read or self.role != ADMIN

    def may(self, role: str) -> bool:
        own = ANYONE if self.role == NONE else self.role
        return ROLES.index(own) >= ROLES.index(role)


class Users:
    """Lives on the event loop."""

    def __init__(
        self,
        table: UserTable,
        tokens: TokenRows,
        now_ms: Callable[[], int] = wall_now_ms,
        are_ruled: bool = False,
    ) -> None:
        """`are_ruled`: access rules are enforced, so that users without a role may have rights."""
        self.table = table
        self._are_ruled = are_ruled
        self._rows = tokens
        self._now_ms = now_ms  # in doubt the latest: expired tokens stay expired
        self._tokens = {each.digest: each for each in tokens.all()}
        self._hasher = argon2.PasswordHasher()
        self._hashing = {
            is_known: asyncio.Semaphore(HASHES_OF_KIND) for is_known in (True, False)
        }
        self._strangers = 0  # whose password is checked, or waits for it
        self._changing = asyncio.Lock()  # of tokens: keeps checks valid until the change is made
        self._used: dict[bytes, int] = {}  # last use of each token since the start
        self._nobody = ""  # a hash without a password

    def now_ms(self) -> int:
        return self._now_ms()

    @property
    def is_open(self) -> bool:
        """Nobody has a password and a role yet: the first user is made by the link."""
        return not self.table.of_console()

    @property
    def lets_everybody_in(self) -> bool:
        """Everybody who reaches the pages may do everything. With rules and users of Kafka, who
        have roles by rules alone, a port beside them that asks for nothing would undo both."""
        return self.is_open and (not self._are_ruled or self.table.is_empty)

    def users(self) -> list[User]:
        """And those of Kafka alone."""
        return self.table.all()

    def tokens(self) -> list[AdminToken]:
        return sorted(self._tokens.values(), key=lambda each: each.name)

    def find(self, name: str) -> Identity | None:
        user = self._of_console(name)
        return None if user is None else _identity(user)

    def _of_console(self, name: str) -> User | None:
        user = self.table.get(name)
        if user is None or not user.password_hash:
            return None
        return user if user.role != NONE or self._are_ruled else None

    # Passwords

    def check_room(self) -> None:
        """For one more stranger."""
        if self._strangers >= STRANGERS_MAX:
            text = f"{self._strangers} logins are being looked at: try again in a second"
            raise Refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED, text)

    async def verify(self, name: str, password: str, *, is_known: bool) -> Identity | None:
        """None: wrong. Takes equally long for a name that does not exist."""
        user = self._of_console(name)
        self._strangers += not is_known
        try:
            async with self._hashing[is_known]:
                if not self._nobody:
                    self._nobody = await asyncio.to_thread(self._hasher.hash, secrets.token_hex())
                stored = user.password_hash if user else self._nobody
                is_right = await asyncio.to_thread(self._fits, stored, password[:PASSWORD_MAX])
        finally:
            self._strangers -= not is_known
        if user is None or not is_right:
            return None
        if not self.table.may_log_in(name):
            await self._add_credentials(user, password)
        return _identity(user)

    async def _add_credentials(self, user: User, password: str) -> None:
        """Of somebody whose password is older than logins of Kafka clients are."""
        made = await self._credentials(user.name, password)

        async def put() -> None:
            if self.table.get(user.name) == user:  # still with this password
                await self.table.put(user, made)

        try:
            await self.table.change(put)
        except ApplianceError as error:  # the password is right: he has them the next time
            log.warning("logins to Kafka are put off", user=user.name, error=error)

    # Browsers of earlier logins. Their cookie is signed with a secret of this broker and user, and
    # valid until the password changes.

    def device_of(self, name: str) -> str:
        nonce = secrets.token_hex(8)
        return f"{name}.{nonce}.{self._signed(name, nonce)}"

    def known_device(self, name: str, shown: str) -> str | None:
        """The own part of a browser's cookie, if it is for this user."""
        rest, _, signature = shown.rpartition(".")
        own, _, nonce = rest.rpartition(".")
        if own != name or self._of_console(name) is None:
            return None
        is_ours = hmac.compare_digest(
            self._signed(name, nonce).encode(), signature.encode("utf-8", "surrogateescape")
        )
        return nonce if is_ours else None

    def _signed(self, name: str, nonce: str) -> str:
        key = f"device {self.table.known(name).password_hash}".encode()
        text = f"{name}.{nonce}".encode("utf-8", "surrogateescape")
        return hmac.new(key, text, "sha256").hexdigest()

    def _fits(self, stored: str, password: str) -> bool:
        try:
            return self._hasher.verify(stored, password)
        except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHash):
            return False

    async def make(self, name: str, role: str, password: str, may_read: bool = True) -> None:
        check_name(name)
        stored, credentials = await self._hash(name, password)

        async def put() -> None:
            if self.table.get(name) is not None:
                raise NameTaken(f"there is a user {name} already")
            if len(self.table.all()) >= USERS_MAX:
                raise RequestInvalid(f"there are {USERS_MAX} users already")
            await self.table.put(User(name, role, stored, self.now_ms(), may_read), credentials)

        await self.table.change(put)

    async def change(
        self,
        name: str,
        role: str | None = None,
        password: str | None = None,
        may_read: bool | None = None,
    ) -> None:
        """None: unchanged."""
        self.table.known(name)  # before the expensive hash
        hashed = None if password is None else await self._hash(name, password)
        stored, credentials = hashed or (None, [])

        async def put() -> None:
            known = self.table.known(name)
            if role not in (None, ADMIN):
                self._check_admin_left(name)
            changed = replace(
                known,
                role=role or known.role,
                password_hash=stored or known.password_hash,
                may_read=known.may_read if may_read is None else may_read,
            )
            await self.table.put(changed, credentials)

        await self.table.change(put)

    async def confirm(self, name: str) -> None:
        """Credentials of a Kafka client that were written when everybody could."""
        await self.table.change(lambda: self.table.confirm(name))

    async def _hash(self, name: str, password: str) -> tuple[str, list[Credential]]:
        check_password(password)
        async with self._hashing[True]:
            return await asyncio.to_thread(hashed, self._hasher, name, password)

    async def _credentials(self, name: str, password: str) -> list[Credential]:
        async with self._hashing[True]:
            return await asyncio.to_thread(scram_keys.credentials_of, name, password)

    async def remove(self, name: str) -> None:
        async def remove() -> None:
            self.table.known(name)
            self._check_admin_left(name)
            await self.table.remove(name, self.now_ms())

        await self.table.change(remove)

    def _check_admin_left(self, name: str) -> None:
        """If there is one: of Kafka's users alone none need be left."""
        admins = [each.name for each in self.table.of_console() if each.role == ADMIN]
        if admins == [name]:
            raise RequestInvalid(f"{name} is the last admin: nobody could make another")

    # Tokens

    async def make_token(
        self, name: str, role: str, may_read: bool = True, expires_ms: int | None = None
    ) -> tuple[AdminToken, str]:
        """Returns its secret, which is not stored."""
        check_name(name)
        secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
        async with self._changing:
            if any(each.name == name for each in self._tokens.values()):
                raise NameTaken(f"there is a token {name} already")
            if len(self._tokens) >= TOKENS_MAX:
                raise RequestInvalid(f"there are {TOKENS_MAX} tokens already")
            token = AdminToken(name, role, digest_of(secret), self.now_ms(), may_read, expires_ms)
            await asyncio.to_thread(self._rows.add, token)
            self._tokens[token.digest] = token
        return token, secret

    def of_token(self, secret: str) -> Identity | None:
        # Looked up by its digest: how long that takes tells nothing of the secret.
        return self._identity_of(self._tokens.get(digest_of(secret)))

    def token_named(self, name: str) -> Identity | None:
        return self._identity_of(next((each for each in self.tokens() if each.name == name), None))

    def _identity_of(self, token: AdminToken | None) -> Identity | None:
        now = self.now_ms()
        if token is None or (token.expires_ms is not None and now >= token.expires_ms):
            return None
        self._used[token.digest] = now
        return Identity(token.name, token.role, is_token=True, may_read=bool(token.may_read))

    def used_ms(self, token: AdminToken) -> int | None:
        """None: not since the start."""
        return self._used.get(token.digest)

    async def remove_token(self, name: str) -> None:
        async with self._changing:
            found = [each for each in self._tokens.values() if each.name == name]
            if not found:
                raise ResourceUnknown(f"there is no token {name[:80]!r}")
            await asyncio.to_thread(self._rows.delete, name)
            del self._tokens[found[0].digest]
            self._used.pop(found[0].digest, None)


def hashed(
    hasher: argon2.PasswordHasher, name: str, password: str
) -> tuple[str, list[Credential]]:
    """What is stored of a password. Takes a tenth of a second: for a thread."""
    return hasher.hash(password), scram_keys.credentials_of(name, password)


# For a stopped broker, whose directory the caller can read.


def set_password(rows: UserRows, name: str, password: str) -> None:
    known = {each.name: each for each in rows.users()}
    if name not in known:
        there = ", ".join(sorted(known)) or "none: make one with `appliance user create`"
        raise ResourceUnknown(f"there is no user {name[:80]!r}; there are: {there}")
    check_password(password)
    stored, credentials = hashed(argon2.PasswordHasher(), name, password)
    rows.change([replace(known[name], password_hash=stored)], credentials=credentials)


def make_user(rows: UserRows, name: str, role: str, password: str, may_read: bool = True) -> None:
    check_name(name)
    check_password(password)
    if any(each.name == name for each in rows.users()):
        raise NameTaken(f"there is a user {name} already")
    stored, credentials = hashed(argon2.PasswordHasher(), name, password)
    rows.change([User(name, role, stored, wall_now_ms(), may_read)], credentials=credentials)


def check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise RequestInvalid(
            f"name: got {name[:80]!r}, wanted 1 to 64 characters out of a-z A-Z 0-9 . _ @ -"
        )


def check_password(password: str) -> None:
    if not PASSWORD_MIN <= len(password) <= PASSWORD_MAX:
        raise RequestInvalid(
            f"password: got {len(password)} characters, wanted {PASSWORD_MIN} to {PASSWORD_MAX}"
        )


def _identity(user: User) -> Identity:
    return Identity(user.name, user.role, may_read=bool(user.may_read))


def digest_of(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()

"""Delegation tokens (KIP-48): logins that a user hands on, with an end, instead of a password.

As in Kafka, a token is an id and a secret:

    HMAC = HMAC-SHA-512(key of the broker, id of the token)

A client logs in by SCRAM as the id, with `tokenauth=true`, and the HMAC in base64 is its password.
Then it is the owner of the token. The HMAC is not kept: it is made again for who describes the
token, and a login is checked with credentials of SCRAM, as a user's is.

A token whose owner is in the table of users goes with him, and does not come back with his name.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from appliance.access import delegation_token_facts, scram_keys
from appliance.access.delegation_token_rows import DelegationToken, DelegationTokenRows
from appliance.access.kept_per_address import Kept, check_name
from appliance.access.principal import USER, Principal
from appliance.access.sasl import Proven
from appliance.access.user_rows import Credential
from appliance.access.users import UserTable
from appliance.catalog import kafka_uuid
from appliance.catalog.facts import FactUnusable, Troubles, Value, Values, readable
from appliance.config import DelegationTokensConfig
from appliance.config.setting import SettingInvalid
from appliance.config.tls import NO_FILE
from appliance.errors import Refused, RequestInvalid
from appliance.process import event_log
from appliance.process.detached_tasks import LoggedTasks
from appliance.protocol import ErrorCode

log = event_log.named("delegation tokens")

# Kafka's least. More would keep nobody out: an HMAC of 512 bits is not guessed.
ITERATIONS = 4096

RENEWERS_MAX = 100
KEY_CHARACTERS_MIN, KEY_BYTES_MAX = 16, 64 * 1024


class Login(NamedTuple):
    """What a login is checked with, and who the client is then."""

    credential: Credential
    proven: Proven


class DelegationTokens:
    """On the event loop. What takes milliseconds is done on threads."""

    kind, is_secret = "tokens", True

    def __init__(
        self,
        rows: DelegationTokenRows,
        users: UserTable,
        kept: Kept,
        config: DelegationTokensConfig,
        now_ms: Callable[[], int],
    ) -> None:
        self._rows, self._users, self._kept = rows, users, kept
        self._config, self._now_ms = config, now_ms
        self._change = users.change
        self._sweeps = LoggedTasks(log, "removing delegation tokens")
        self._key = key_of(config.secret_key_file)  # b"": the one in the catalog
        self.is_key_of_file = bool(self._key)
        self._tokens: dict[str, DelegationToken] = {}
        self._ids: dict[bytes, str] = {}  # by digest
        self._credentials: dict[tuple[str, int], Credential] = {}
        self._void: list[str] = []
        self._load()
        users.on_change(self.sweep)

    def _load(self) -> None:
        found = self._rows.tokens()
        if found and not self._key:
            self._key = self._rows.key()
        for each in found:
            if hmac.compare_digest(_digest(self.hmac_of(each.id)), each.digest):
                self._keep(each)
            else:
                self._void.append(each.id)  # of another key: nobody could renew it
        for credential in self._rows.credentials():
            if credential.user in self._tokens:
                self._credentials[credential.user, credential.mechanism] = credential

    # Logins

    def to_log_in(self, token_id: str, mechanism: int) -> Login:
        """It never tells whether there is such a token, as with users."""
        stranger = self._users.stranger(f"token {token_id}", mechanism, [ITERATIONS])
        token, credential = self._tokens.get(token_id), self._credentials.get((token_id, mechanism))
        if token is None or credential is None or self._is_over(token):
            return Login(stranger, Proven(token_id, 0, is_by_token=True))
        holds = partial(self._is_good, token_id)
        proven = Proven(token.owner.name, token.expires_ms, is_by_token=True, holds=holds)
        return Login(credential, proven)

    # What clients ask for

    def all(self) -> list[DelegationToken]:
        return sorted(self._tokens.values(), key=lambda each: each.issued_ms)

    def hmac_of(self, token_id: str) -> bytes:
        return hmac.digest(self._key, token_id.encode("utf-8", "surrogatepass"), "sha512")

    async def create(
        self, owner: Principal, requester: Principal, renewers: Sequence[Principal],
        lifetime_ms: int,
    ) -> DelegationToken:  # fmt: skip
        """With the default lifetime if what is wanted is not above 0."""
        check(owner, renewers)
        once = tuple(dict.fromkeys(renewers))
        return await self._change(lambda: self._create(owner, requester, once, lifetime_ms))

    async def _create(
        self, owner: Principal, requester: Principal, renewers: tuple[Principal, ...],
        lifetime_ms: int,
    ) -> DelegationToken:  # fmt: skip
        token_id = kafka_uuid.text_of(kafka_uuid.new())
        size = sum(len(str(each)) for each in (owner, requester, *renewers))
        self._kept.check(("token", token_id), size)
        await self.make_key()
        now, most = self._now_ms(), self._config.max_lifetime_ms
        end = now + (min(lifetime_ms, most) if lifetime_ms > 0 else most)
        found = self.hmac_of(token_id)
        token = DelegationToken(
            token_id, owner, requester, renewers, now, min(end, now + self._config.expiry_time_ms),
            end, _digest(found), self._users.get(owner.name) is not None,
        )  # fmt: skip
        made = await asyncio.to_thread(_credentials_of, token_id, found)
        await self._change.publish(
            self.kind, {token_id: delegation_token_facts.value_of(token, made)}
        )
        await asyncio.to_thread(self._rows.put, token, made)
        self._keep(token)
        self._credentials |= {(token_id, each.mechanism): each for each in made}
        log.info("made", token=token_id, owner=owner, requester=requester, expires_ms=end)
        return token

    async def renew(self, who: Principal, secret: bytes, period_ms: int) -> int:
        """When it expires now."""
        most = self._config.expiry_time_ms
        wanted_ms = min(period_ms, most) if period_ms > 0 else most
        return await self._change(lambda: self._expire(who, secret, wanted_ms))

    async def expire(self, who: Principal, secret: bytes, period_ms: int) -> int:
        """Below 0: at once, and the answer is the same number, as Kafka's."""
        return await self._change(lambda: self._expire(who, secret, period_ms))

    async def _expire(self, who: Principal, secret: bytes, period_ms: int) -> int:
        token = self._known(who, secret)
        if period_ms < 0:
            await self._remove([token.id])
            log.info("removed", token=token.id, owner=token.owner, by=who)
            return period_ms
        expires_ms = min(token.max_ms, self._now_ms() + period_ms)
        after = replace(token, expires_ms=expires_ms)
        await self._change.publish(self.kind, {token.id: self._value(after)})
        await asyncio.to_thread(self._rows.expire, token.id, expires_ms)
        self._tokens[token.id] = after
        return expires_ms

    def _known(self, who: Principal, secret: bytes) -> DelegationToken:
        token = self._tokens.get(self._ids.get(_digest(secret), ""))
        if token is None:
            raise Refused(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, "there is no such token")
        if self._is_over(token):
            raise Refused(ErrorCode.DELEGATION_TOKEN_EXPIRED, f"token {token.id} is over")
        if who != token.owner and who not in token.renewers:
            text = f"{who} is neither owner nor renewer of token {token.id}"
            raise Refused(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, text)
        return token

    # The end of a token

    def sweep(self) -> int:
        """Removes, soon, what is over. Returns the count."""
        over = self._over()
        if over:
            self._sweeps.run(self._change(self._sweep))
        return len(over)

    async def settled(self) -> None:
        await self._sweeps.settled()

    def _over(self) -> list[str]:
        return self._void + [each.id for each in self._tokens.values() if self._is_over(each)]

    async def _sweep(self) -> None:
        over = self._over()
        await self._remove(over)
        self._void.clear()
        log.info("removed what was over", count=len(over))

    def _is_good(self, token_id: str) -> bool:
        token = self._tokens.get(token_id)
        return token is not None and not self._is_over(token)

    def _is_over(self, token: DelegationToken) -> bool:
        is_gone = token.is_of_user and self._users.get(token.owner.name) is None
        return is_gone or token.expires_ms <= self._now_ms()

    async def _remove(self, token_ids: list[str]) -> None:
        here = dict.fromkeys(each for each in token_ids if each in self._tokens)
        if here:
            await self._change.publish(self.kind, here)
        await self._remove_here(token_ids)

    async def _remove_here(self, token_ids: list[str]) -> None:
        await asyncio.to_thread(self._rows.remove, token_ids)
        for each in token_ids:
            token = self._tokens.pop(each, None)
            if token is not None:
                del self._ids[token.digest]
            for mechanism in scram_keys.HASHES:
                self._credentials.pop((each, mechanism), None)
            self._kept.drop(("token", each))

    # As facts of a cluster

    async def make_key(self) -> bytes:
        if not self._key:
            self._key = await asyncio.to_thread(self._rows.key)
        return self._key

    async def take_key(self, key: bytes) -> None:
        """Tokens of the former one open nothing any more."""
        if self.is_key_of_file or key == self._key:
            return
        await asyncio.to_thread(self._rows.set_key, key)
        self._key = key
        await self._remove_here([*self._tokens])

    def facts(self) -> dict[str, Value]:
        return {each.id: self._value(each) for each in self._tokens.values()}

    def _value(self, token: DelegationToken) -> Value:
        places = ((token.id, mechanism) for mechanism in scram_keys.HASHES)
        own = [self._credentials[each] for each in places if each in self._credentials]
        return delegation_token_facts.value_of(token, own)

    async def take(self, values: Values) -> Troubles:
        good, troubles = readable(values, self._read)
        await self._remove_here([each for each, fact in good.items() if fact is None])
        for fact in filter(None, good.values()):
            token, made = fact
            await asyncio.to_thread(self._rows.replace, token, made)
            self._keep(token)
            self._credentials |= {(token.id, each.mechanism): each for each in made}
        return troubles

    def _read(self, token_id: str, value: Value) -> tuple[DelegationToken, list[Credential]]:
        token, made = delegation_token_facts.read(token_id, value)
        if not hmac.compare_digest(_digest(self.hmac_of(token_id)), token.digest):
            raise FactUnusable("it was made with another key than this broker has")
        return token, made

    def _keep(self, token: DelegationToken) -> None:
        self._tokens[token.id] = token
        self._ids[token.digest] = token.id
        names = (token.owner, token.requester, *token.renewers)
        self._kept.put(("token", token.id), sum(len(str(each)) for each in names))


def check(owner: Principal, renewers: Sequence[Principal]) -> None:
    """What a client names."""
    if len(renewers) > RENEWERS_MAX:
        raise RequestInvalid(f"got {len(renewers)} renewers, wanted at most {RENEWERS_MAX}")
    for what, each in (("owner", owner), *(("renewer", each) for each in renewers)):
        if each.kind != USER:
            text = f"{what}: got the type {each.kind[:80]!r}, wanted {USER}"
            raise Refused(ErrorCode.INVALID_PRINCIPAL_TYPE, text)
        if not each.name:
            raise RequestInvalid(f"{what}: got no name")
        check_name(what, each.name)


def key_of(path: Path) -> bytes:
    if path == NO_FILE:
        return b""
    name = "delegation.token.secret.key.file"
    try:
        with path.open("rb") as file:
            found = file.read(KEY_BYTES_MAX + 1).strip()
    except OSError as error:
        raise SettingInvalid(f"{name}: {path} cannot be read: {error.strerror}") from error
    if not KEY_CHARACTERS_MIN <= len(found) <= KEY_BYTES_MAX:
        raise SettingInvalid(
            f"{name}: got {len(found)} characters in {path}, wanted {KEY_CHARACTERS_MIN} to "
            f"{KEY_BYTES_MAX}"
        )
    return found


def _digest(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()


def _credentials_of(token_id: str, secret: bytes) -> list[Credential]:
    password = base64.b64encode(secret).decode()
    return scram_keys.credentials_of(token_id, password, ITERATIONS)

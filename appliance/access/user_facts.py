"""A user as a fact of a cluster: roles, what a login is checked with, and when a user of the name
was deleted last. The cluster's secrets that belong to no user are here, too."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from appliance.access import scram_keys
from appliance.access.kept_per_address import check_name
from appliance.access.user_rows import Credential, User
from appliance.catalog.facts import (
    FactUnusable,
    Troubles,
    Value,
    Values,
    bytes_of,
    number_of,
    readable,
    string_of,
    text_of,
)

if TYPE_CHECKING:
    from appliance.access.delegation_tokens import DelegationTokens
    from appliance.access.users import UserTable

ITERATIONS_MAX = 1_000_000  # a login must not take minutes, whoever wrote this
LOGIN, TOKENS = "login", "tokens"


@dataclass(frozen=True)
class UserFact:
    user: User | None  # None: it was deleted
    credentials: list[Credential]
    deleted_ms: int | None


def value_of(
    user: User | None, credentials: Collection[Credential], deleted_ms: int | None
) -> Value | None:
    value: dict[str, Any] = {}
    if deleted_ms is not None:
        value["deleted_ms"] = deleted_ms
    if user is not None:
        value["user"] = {
            "role": user.role, "password_hash": user.password_hash,
            "created_ms": user.created_ms, "may_read": int(user.may_read),
        }  # fmt: skip
        value["credentials"] = credential_values(credentials)
    return value or None


def credential_values(credentials: Collection[Credential]) -> list[Value]:
    return [
        {
            "mechanism": each.mechanism, "salt": text_of(each.salt),
            "stored_key": text_of(each.stored_key), "server_key": text_of(each.server_key),
            "iterations": each.iterations, "is_confirmed": int(each.is_confirmed),
        }
        for each in sorted(credentials, key=lambda each: each.mechanism)
    ]  # fmt: skip


def read(name: str, value: Value) -> UserFact:
    check_name("user", name)
    deleted_ms = number_of(value, "deleted_ms") if "deleted_ms" in value else None
    found = value.get("user")
    if found is None:
        return UserFact(None, [], deleted_ms)
    user = User(
        name, string_of(found, "role"), string_of(found, "password_hash"),
        number_of(found, "created_ms"), min(1, number_of(found, "may_read")),
    )  # fmt: skip
    return UserFact(user, credentials_in(name, value), deleted_ms)


def credentials_in(name: str, value: Value) -> list[Credential]:
    found = []
    for each in value["credentials"]:
        mechanism, iterations = number_of(each, "mechanism"), number_of(each, "iterations")
        if mechanism not in scram_keys.HASHES or not 1 <= iterations <= ITERATIONS_MAX:
            raise FactUnusable(f"got mechanism {mechanism} with {iterations} iterations")
        found.append(
            Credential(
                name, mechanism, bytes_of(each["salt"]), bytes_of(each["stored_key"]),
                bytes_of(each["server_key"]), iterations, min(1, number_of(each, "is_confirmed")),
            )
        )  # fmt: skip
    return found


class LoginSecrets:
    """What strangers are made with, so that all brokers show the same ones, and the key of tokens,
    so that one that was made at a broker is good at all."""

    kind, is_secret = "secrets", True

    def __init__(self, users: UserTable, tokens: DelegationTokens) -> None:
        self._users, self._tokens = users, tokens
        self._key = b""

    async def make(self) -> None:
        """What a cluster must have before its first user."""
        self._key = b"" if self._tokens.is_key_of_file else await self._tokens.make_key()

    def facts(self) -> dict[str, Value]:
        own = {LOGIN: self._users.secret, TOKENS: self._key}
        return {name: {"secret": text_of(each)} for name, each in own.items() if each}

    async def take(self, values: Values) -> Troubles:
        good, troubles = readable(values, lambda _, value: bytes_of(value["secret"]))
        if found := good.get(LOGIN):
            await self._users.take_secret(found)
        if found := good.get(TOKENS):
            await self._tokens.take_key(found)
            self._key = b"" if self._tokens.is_key_of_file else found
        return troubles

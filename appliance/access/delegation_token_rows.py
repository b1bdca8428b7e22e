"""Delegation tokens in the catalog: whose they are, and what a login by them is checked with."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field

from appliance.access.principal import Principal
from appliance.access.user_rows import Credential
from appliance.catalog.catalog import Catalog

KEY_BYTES = 32


@dataclass(frozen=True)
class DelegationToken:
    id: str
    owner: Principal  # who a client is that logs in by it
    requester: Principal
    renewers: tuple[Principal, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int  # it cannot be renewed beyond this
    digest: bytes = field(repr=False)  # SHA-256 of the HMAC, by which it is found
    is_of_user: bool = True  # of the table of users: when that one goes, the token goes


class DelegationTokenRows:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def tokens(self) -> list[DelegationToken]:
        rows = self._catalog.rows("SELECT * FROM delegation_tokens")
        return [_token(*row) for row in rows]

    def credentials(self) -> list[Credential]:
        rows = self._catalog.rows("SELECT * FROM delegation_token_credentials")
        return [Credential(*row) for row in rows]

    def put(self, token: DelegationToken, credentials: Iterable[Credential]) -> None:
        values = (token.id, str(token.owner), str(token.requester),
                  json.dumps([str(each) for each in token.renewers]), token.issued_ms,
                  token.expires_ms, token.max_ms, token.digest, token.is_of_user)  # fmt: skip
        with self._catalog.change() as run:
            run("INSERT INTO delegation_tokens VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
            for each in credentials:
                run(
                    "INSERT INTO delegation_token_credentials VALUES (?, ?, ?, ?, ?, ?)",
                    (each.user, each.mechanism, each.salt, each.stored_key, each.server_key,
                     each.iterations),
                )  # fmt: skip

    def replace(self, token: DelegationToken, credentials: Iterable[Credential]) -> None:
        self.remove([token.id])
        self.put(token, credentials)

    def expire(self, token_id: str, expires_ms: int) -> None:
        statement = "UPDATE delegation_tokens SET expires_ms = ? WHERE id = ?"
        self._catalog.run(statement, (expires_ms, token_id))

    def remove(self, token_ids: Iterable[str]) -> None:
        """Their credentials go with them."""
        with self._catalog.change() as run:
            for each in token_ids:
                run("DELETE FROM delegation_tokens WHERE id = ?", (each,))

    def key(self) -> bytes:
        """Made once."""
        for (found,) in self._catalog.rows("SELECT secret FROM delegation_token_key"):
            return bytes(found)
        made = secrets.token_bytes(KEY_BYTES)
        self.set_key(made)
        return made

    def set_key(self, key: bytes) -> None:
        self._catalog.run("INSERT OR REPLACE INTO delegation_token_key VALUES (1, ?)", (key,))


def _token(
    token_id: str, owner: str, requester: str, renewers: str, issued_ms: int, expires_ms: int,
    max_ms: int, digest: bytes, is_of_user: int,
) -> DelegationToken:  # fmt: skip
    return DelegationToken(
        token_id, Principal.parse(owner), Principal.parse(requester),
        tuple(map(Principal.parse, json.loads(renewers))), issued_ms, expires_ms, max_ms, digest,
        bool(is_of_user),
    )  # fmt: skip

"""Credentials of users for SCRAM logins, as Kafka's tools create and show them.

They are stored and shown but not used yet, because there are no logins. A client sends the salted
password; the broker stores only the result of one-way functions (RFC 5802), so neither the catalog
nor a copy of it allows a login:

    stored key = H(HMAC(salted password, "Client Key"))
    server key = HMAC(salted password, "Server Key")
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass

from appliance.access.kept_per_address import Kept, check_name
from appliance.access.scram_rows import ScramRows
from appliance.errors import ApplianceError, Refused, ResourceUnknown
from appliance.process import event_log
from appliance.process.detached_tasks import Changes
from appliance.protocol import ErrorCode

events = event_log.named("scram")

HASHES = {1: hashlib.sha256, 2: hashlib.sha512}  # Kafka's numbers for SCRAM-SHA-256 and -512
SECRET_BYTES_MAX = 1024  # a hash has 64; tools make salts of about 20
ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16384  # Kafka's


class CredentialUnacceptable(ApplianceError):
    kafka_code = 93


@dataclass(frozen=True)
class Deletion:
    user: str
    mechanism: int


@dataclass(frozen=True)
class Upsertion:
    """A new credential, which replaces one of the same mechanism."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

    def check(self) -> None:
        _check_user(self.user, self.mechanism)
        if not ITERATIONS_MIN <= self.iterations <= ITERATIONS_MAX:
            raise CredentialUnacceptable(
                f"got {self.iterations} iterations, wanted {ITERATIONS_MIN} to {ITERATIONS_MAX}"
            )
        if not self.salted_password:
            raise CredentialUnacceptable("the salted password is empty")
        for what, data in (("salt", self.salt), ("salted password", self.salted_password)):
            if len(data) > SECRET_BYTES_MAX:
                raise CredentialUnacceptable(
                    f"got a {what} of {len(data)} bytes, wanted at most {SECRET_BYTES_MAX}"
                )

    def row(self) -> tuple[str, int, bytes, bytes, bytes, int]:
        """The columns of the catalog's row."""
        made = HASHES[self.mechanism]
        client_key = hmac.digest(self.salted_password, b"Client Key", made)
        server_key = hmac.digest(self.salted_password, b"Server Key", made)
        stored_key = made(client_key).digest()
        return self.user, self.mechanism, self.salt, stored_key, server_key, self.iterations


Faults = dict[str, ApplianceError]


class ScramCredentials:
    """All credentials, in memory and in the catalog. `change` runs one change after the other."""

    def __init__(self, rows: ScramRows, change: Changes, kept: Kept) -> None:
        self._rows = rows
        self._change = change
        self._kept = kept
        self._iterations = {(row[0], row[1]): row[5] for row in rows.all()}
        for user, mechanism in self._iterations:
            kept.put(("scram", user, mechanism), len(user))

    def users(self) -> list[str]:
        return sorted({user for user, _ in self._iterations})

    def iterations(self, user: str) -> dict[int, int]:
        """By mechanism."""
        by_mechanism = {
            mechanism: self._iterations[user, mechanism]
            for mechanism in HASHES
            if (user, mechanism) in self._iterations
        }
        if not by_mechanism:
            raise ResourceUnknown(f"user {user!r} has no credential")
        return by_mechanism

    async def alter(
        self, deletions: Iterable[Deletion], upsertions: Iterable[Upsertion]
    ) -> dict[str, ApplianceError | None]:
        """Returns the result of each user. An error of one user does not stop others."""
        found: dict[str, ApplianceError | None] = await self._change(
            self._alter((*deletions, *upsertions))
        )
        return found

    async def _alter(
        self, alterations: Iterable[Deletion | Upsertion]
    ) -> dict[str, ApplianceError | None]:
        faults: Faults = {}
        kept: dict[str, Deletion | Upsertion] = {}
        for each in alterations:
            self._take(each, kept, faults)
        try:
            await self._apply(kept.values())
        except ApplianceError as error:
            faults |= dict.fromkeys(kept, error)
        return {**dict.fromkeys(kept), **faults}

    async def _apply(self, alterations: Iterable[Deletion | Upsertion]) -> None:
        gone = [(it.user, it.mechanism) for it in alterations if isinstance(it, Deletion)]
        put = [it.row() for it in alterations if isinstance(it, Upsertion)]
        if not gone and not put:
            return
        new = [row for row in put if (row[0], row[1]) not in self._iterations]
        self._kept.check("", sum(len(row[0]) for row in new), len(new))
        await asyncio.to_thread(self._rows.change, put, gone)
        for place in gone:
            del self._iterations[place]
            self._kept.drop(("scram", *place))
        for user, mechanism, *_, iterations in put:
            self._iterations[user, mechanism] = iterations
            self._kept.put(("scram", user, mechanism), len(user))
        events.info("SCRAM credentials altered", put=len(put), removed=len(gone))

    def _take(
        self, each: Deletion | Upsertion, kept: dict[str, Deletion | Upsertion], faults: Faults
    ) -> None:
        """Each user may occur once, with any mechanism; the first error counts."""
        if each.user in faults:
            return
        try:
            if kept.pop(each.user, None) is not None:
                text = f"user {each.user!r} is altered twice in one request"
                raise Refused(ErrorCode.DUPLICATE_RESOURCE, text)
            if isinstance(each, Upsertion):
                each.check()
            else:
                self._check_deletion(each)
        except ApplianceError as error:
            faults[each.user] = error
        else:
            kept[each.user] = each

    def _check_deletion(self, deletion: Deletion) -> None:
        _check_user(deletion.user, deletion.mechanism)
        if (deletion.user, deletion.mechanism) not in self._iterations:
            raise ResourceUnknown(
                f"user {deletion.user!r} has no credential of mechanism {deletion.mechanism}"
            )


def _check_user(user: str, mechanism: int) -> None:
    if not user:
        raise CredentialUnacceptable("the name of the user is empty")
    check_name("user", user)
    if mechanism not in HASHES:
        raise Refused(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            f"got mechanism {mechanism}, wanted 1 (SCRAM-SHA-256) or 2 (SCRAM-SHA-512)",
        )

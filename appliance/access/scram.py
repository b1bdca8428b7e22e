"""Credentials of users for SCRAM logins, as Kafka's tools create, show and remove them.

A client sends the salted password, of which the keys are made that are stored (`scram_keys.py`). A
credential of somebody new makes a user who may log in to Kafka only.

Where rules are not enforced everybody may write credentials. Nobody may do so for a user of the
console there, who may do more. Those written while other machines reach such a broker open nothing
until an administrator has confirmed them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from appliance.access.kept_per_address import Kept, check_name
from appliance.access.scram_keys import HASHES, credential_of
from appliance.access.user_rows import NONE, Credential
from appliance.access.users import UserTable
from appliance.errors import ApplianceError, Refused, ResourceUnknown
from appliance.process import event_log
from appliance.protocol import ErrorCode

events = event_log.named("scram")

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

    def credential(self) -> Credential:
        return credential_of(
            self.user, self.mechanism, self.salt, self.salted_password, self.iterations
        )


Faults = dict[str, ApplianceError]


@dataclass(frozen=True)
class Trust:
    """In what is written."""

    is_enforced: bool = False  # only who may writes credentials
    is_reached: bool = False  # by other machines


class ScramCredentials:
    """All credentials, for Kafka's APIs."""

    def __init__(
        self, users: UserTable, kept: Kept, trust: Trust, now_ms: Callable[[], int]
    ) -> None:
        self._users = users
        self._kept = kept
        self._trust = trust
        self._now_ms = now_ms

    def users(self) -> list[str]:
        return [each.name for each in self._users.all() if self._users.credentials(each.name)]

    def iterations(self, user: str) -> dict[int, int]:
        """By mechanism."""
        found = self._users.credentials(user)
        if not found:
            raise ResourceUnknown(f"user {user!r} has no credential")
        return {mechanism: each.iterations for mechanism, each in found.items()}

    async def alter(
        self, deletions: Iterable[Deletion], upsertions: Iterable[Upsertion]
    ) -> dict[str, ApplianceError | None]:
        """Returns the result of each user. An error of one user does not stop others."""
        wanted: list[Deletion | Upsertion] = [*deletions, *upsertions]
        faults: Faults = {}
        try:
            await self._users.change(lambda: self._alter(wanted, faults))
        except ApplianceError as error:
            return {each.user: faults.get(each.user, error) for each in wanted}
        return {each.user: faults.get(each.user) for each in wanted}

    async def _alter(self, alterations: Iterable[Deletion | Upsertion], faults: Faults) -> None:
        faults.clear()  # of a former try
        kept: dict[str, Deletion | Upsertion] = {}
        for each in alterations:
            self._take(each, kept, faults)
        gone, put = self._credentials(kept.values())
        if gone or put:
            await self._users.alter(put, gone, self._now_ms())
            events.info("SCRAM credentials altered", put=len(put), removed=len(gone))

    def _credentials(
        self, alterations: Iterable[Deletion | Upsertion]
    ) -> tuple[list[tuple[str, int]], list[Credential]]:
        """Those that go, and those that come."""
        gone = [(it.user, it.mechanism) for it in alterations if isinstance(it, Deletion)]
        put = [it.credential() for it in alterations if isinstance(it, Upsertion)]
        new = [it for it in put if it.mechanism not in self._users.credentials(it.user)]
        self._kept.check("", sum(len(it.user) for it in new), len(new))
        if self._trust.is_reached and not self._trust.is_enforced:
            put = [replace(it, is_confirmed=0) for it in put]
            events.warning("everybody can write credentials: these open nothing until confirmed",
                           count=len(put))  # fmt: skip
        return gone, put

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
            self._check_role(each.user)
        except ApplianceError as error:
            faults[each.user] = error
        else:
            kept[each.user] = each

    def _check_deletion(self, deletion: Deletion) -> None:
        _check_user(deletion.user, deletion.mechanism)
        if deletion.mechanism not in self._users.credentials(deletion.user):
            raise ResourceUnknown(
                f"user {deletion.user!r} has no credential of mechanism {deletion.mechanism}"
            )

    def _check_role(self, name: str) -> None:
        user = self._users.get(name)
        if user is not None and user.role != NONE and not self._trust.is_enforced:
            raise Refused(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                f"user {name!r} has the role {user.role} in the console, and here everybody may "
                f"write credentials: set the password there, or with `appliance user password`",
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

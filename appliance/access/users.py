"""Users, in memory and in the catalog: who may log in to Kafka, to the console, or to both.

A user has any of credentials of SCRAM, by which Kafka clients log in, and a password's hash and a
role, which the console wants. Setting a password makes all of them. Whoever has the role admin is
an administrator for Kafka clients, too.

Certificates and tokens of a service name somebody, too, and are good without this table. But who
deletes a user means whoever comes by that name: what was issued before opens nothing any more.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from appliance.access import scram_keys, user_facts
from appliance.access.kept_per_address import Kept
from appliance.access.user_rows import NOBODY, NONE, Credential, User, UserRows
from appliance.catalog.facts import Facts, Troubles, Value, Values, readable
from appliance.errors import ResourceUnknown

ADMIN = "admin"

# A user's name, and mechanisms of which it had another credential before; None: the user is gone
Withdrawn = Callable[[str, Collection[int] | None], object]


class UserTable:
    """Lives on the event loop. Who changes it does so within `change`, so that what it has checked
    still holds."""

    kind, is_secret = "users", True

    def __init__(self, rows: UserRows, change: Facts, kept: Kept | None = None) -> None:
        self._rows = rows
        self.change = change
        self._kept = kept
        self._users = {each.name: each for each in rows.users()}
        self._credentials: dict[tuple[str, int], Credential] = {}
        self._counts: Counter[tuple[int, int]] = Counter()  # of mechanisms and iterations
        self._kinds: set[tuple[int, int]] | None = None  # the same of `to_check`; None: not known
        self._secret = rows.login_secret()
        self._deleted_ms = rows.deleted()
        self._told: list[Callable[[], object]] = []
        self._told_withdrawn: list[Withdrawn] = []
        for each in rows.credentials():
            self._keep(each)

    def all(self) -> list[User]:
        return sorted(self._users.values(), key=lambda each: each.name)

    @property
    def is_empty(self) -> bool:
        return not self._users

    def get(self, name: str) -> User | None:
        return self._users.get(name)

    def known(self, name: str) -> User:
        if name not in self._users:
            raise ResourceUnknown(f"there is no user {name[:80]!r}")
        return self._users[name]

    def of_console(self) -> list[User]:
        """Those that may log in there."""
        return [each for each in self.all() if each.role != NONE and each.password_hash]

    def administrators(self) -> list[str]:
        return [each.name for each in self.all() if each.role == ADMIN]

    def is_withdrawn(self, name: str, issued_ms: int) -> bool:
        """Whether a certificate or a token is from before the user of its name was deleted. They
        tell their age in seconds, so one of the same second counts as older. 0: it tells none."""
        return issued_ms <= self._deleted_ms.get(name, -1)

    def on_change(self, callback: Callable[[], object]) -> None:
        self._told.append(callback)

    def on_withdrawn(self, callback: Withdrawn) -> None:
        """Told when what somebody logged in with is good for nothing any more."""
        self._told_withdrawn.append(callback)

    # Credentials

    def credentials(self, name: str) -> dict[int, Credential]:
        """By mechanism."""
        places = ((name, mechanism) for mechanism in scram_keys.HASHES)
        found = (self._credentials.get(place) for place in places)
        return {each.mechanism: each for each in found if each is not None}

    def to_log_in(self, name: str, mechanism: int) -> Credential:
        """What a login by SCRAM is checked with. It never tells whether there is such a user, and
        takes as long for one: the stand-in is made for everybody."""
        counts = (iterations for of, iterations in self._counts if of == mechanism)
        other = self.stranger(name, mechanism, counts)
        found = self._credentials.get((name, mechanism))
        return found if found is not None and found.is_confirmed else other

    def stranger(self, name: str, mechanism: int, iterations: Iterable[int]) -> Credential:
        """Of somebody who does not exist. No password fits."""
        return scram_keys.stand_in(self._secret, name, mechanism, iterations)

    def to_check(self, name: str) -> Credential:
        """What a password is checked with. A stand-in has mechanism and iterations of some user,
        as SHA-512 takes twice as long as SHA-256."""
        if self._kinds is None:
            checked = filter(None, map(self._checked, self._users))
            self._kinds = {(each.mechanism, each.iterations) for each in checked}
        mechanism, count = scram_keys.kind_for(self._secret, name, self._kinds)
        other = scram_keys.stand_in(self._secret, name, mechanism, [count])
        return self._checked(name) or other

    def _checked(self, name: str) -> Credential | None:
        confirmed = (each for each in self.credentials(name).values() if each.is_confirmed)
        return next(confirmed, None)

    def may_log_in(self, name: str) -> bool:
        """To Kafka, by all mechanisms."""
        found = self.credentials(name)
        return len(found) == len(scram_keys.HASHES) and all(
            each.is_confirmed for each in found.values()
        )

    # Changes. Each is on disk before anybody sees it.

    async def put(self, user: User, credentials: Iterable[Credential] = ()) -> None:
        await self._apply([user], [], list(credentials), [])

    async def remove(self, name: str, now_ms: int) -> None:
        self.known(name)
        own = list(map(_place, self.credentials(name).values()))
        await self._apply([], [], [], own, {name: now_ms})

    async def confirm(self, name: str) -> None:
        """An administrator has seen it."""
        self.known(name)
        waiting = [each for each in self.credentials(name).values() if not each.is_confirmed]
        await self._apply([], [], [replace(each, is_confirmed=1) for each in waiting], [])

    async def alter(
        self, credentials: list[Credential], withdrawn: list[tuple[str, int]], now_ms: int
    ) -> None:
        """Whoever has a credential is a user, and who has nothing left is none any more. That is
        not to be deleted: it may have gone over to a certificate."""
        names = {each.user for each in credentials} - self._users.keys()
        left = self._credentials.keys() - set(withdrawn) | set(map(_place, credentials))
        with_one = {name for name, _ in left}
        gone = [
            name
            for name in {name for name, _ in withdrawn}
            if name not in with_one and self._is_of_kafka_alone(name)
        ]
        new = [User(name, created_ms=now_ms) for name in sorted(names)]
        await self._apply(new, gone, credentials, withdrawn)

    def _is_of_kafka_alone(self, name: str) -> bool:
        return self._users[name].role == NONE

    async def _apply(
        self,
        users: list[User],
        removed: list[str],
        credentials: list[Credential],
        withdrawn: list[tuple[str, int]],
        deleted: Mapping[str, int] = NOBODY,
    ) -> None:
        gone = {*removed, *deleted}
        names = {each.name for each in users} | {each.user for each in credentials} | gone
        names |= {name for name, _ in withdrawn}
        put = {each.name: each for each in users}
        own = {_place(each): each for each in credentials}
        await self.change.publish(self.kind, {
            name: user_facts.value_of(
                None if name in gone else put.get(name) or self._users.get(name),
                [] if name in gone else self._credentials_after(name, own, {*withdrawn}),
                deleted.get(name, self._deleted_ms.get(name)),
            )
            for name in names
        })  # fmt: skip
        await self._apply_here(users, removed, credentials, withdrawn, deleted)

    def _credentials_after(
        self, name: str, put: Mapping[tuple[str, int], Credential],
        withdrawn: Collection[tuple[str, int]],
    ) -> list[Credential]:  # fmt: skip
        found = []
        for mechanism in scram_keys.HASHES:
            place = name, mechanism
            kept = None if place in withdrawn else self._credentials.get(place)
            if (each := put.get(place) or kept) is not None:
                found.append(each)
        return found

    async def _apply_here(
        self,
        users: list[User],
        removed: list[str],
        credentials: list[Credential],
        withdrawn: list[tuple[str, int]],
        deleted: Mapping[str, int] = NOBODY,
    ) -> None:
        rows = users, removed, credentials, withdrawn, deleted
        await asyncio.to_thread(self._rows.change, *rows)
        gone = [*removed, *deleted]
        worthless: dict[str, set[int] | None] = {
            **self._replaced(credentials, withdrawn), **dict.fromkeys(gone)
        }  # fmt: skip
        for place in withdrawn:
            self._drop(place)
        for name in gone:
            self._users.pop(name, None)
        self._deleted_ms.update(deleted)
        for user in users:
            self._users[user.name] = user
        for each in credentials:
            self._keep(each)
        self._kinds = None
        for told in self._told:
            told()
        for name, mechanisms in worthless.items():
            for withdraw in self._told_withdrawn:
                withdraw(name, mechanisms)

    # As facts of a cluster

    def facts(self) -> dict[str, Value]:
        found = {}
        for name in {*self._users, *self._deleted_ms}:
            own = self.credentials(name).values()
            value = user_facts.value_of(self.get(name), own, self._deleted_ms.get(name))
            if value is not None:
                found[name] = value
        return found

    async def take(self, values: Values) -> Troubles:
        good, troubles = readable(values, user_facts.read)
        users, removed, made = [], [], []
        withdrawn: list[tuple[str, int]] = []
        deleted: dict[str, int] = {}
        for name, fact in good.items():
            kept = [] if fact is None else fact.credentials
            places = {*map(_place, kept)}
            withdrawn += [(name, each) for each in self.credentials(name)
                          if (name, each) not in places]  # fmt: skip
            made += kept
            if fact is not None and fact.user is not None:
                users.append(fact.user)
            elif name in self._users:
                removed.append(name)
            if fact is not None and fact.deleted_ms not in (None, self._deleted_ms.get(name)):
                deleted[name] = fact.deleted_ms
        await self._apply_here(users, removed, made, withdrawn, deleted)
        return troubles

    @property
    def secret(self) -> bytes:
        """With which strangers are made: all brokers must show the same ones."""
        return self._secret

    async def take_secret(self, secret: bytes) -> None:
        await asyncio.to_thread(self._rows.set_login_secret, secret)
        self._secret = secret

    def _replaced(
        self, credentials: list[Credential], withdrawn: list[tuple[str, int]]
    ) -> dict[str, set[int]]:
        """By user: mechanisms of which there was a credential that is no longer good."""
        found: dict[str, set[int]] = {}
        kept = {_place(each): each.stored_key for each in credentials}
        for place in (*withdrawn, *kept):
            before = self._credentials.get(place)
            if before is not None and before.stored_key != kept.get(place):
                found.setdefault(place[0], set()).add(place[1])
        return found

    def _keep(self, each: Credential) -> None:
        self._uncount(_place(each))
        self._credentials[_place(each)] = each
        self._counts[each.mechanism, each.iterations] += 1
        if self._kept is not None:
            self._kept.put(("scram", *_place(each)), len(each.user))

    def _drop(self, place: tuple[str, int]) -> None:
        self._uncount(place)
        if self._kept is not None:
            self._kept.drop(("scram", *place))

    def _uncount(self, place: tuple[str, int]) -> None:
        before = self._credentials.pop(place, None)
        if before is None:
            return
        counted = before.mechanism, before.iterations
        self._counts[counted] -= 1
        if not self._counts[counted]:
            del self._counts[counted]


def _place(each: Credential) -> tuple[str, int]:
    return each.user, each.mechanism


def mechanisms_in_words(credentials: Iterable[Credential]) -> list[str]:
    """By which a user may log in to Kafka, or could."""
    names = {number: name for name, number in scram_keys.NUMBERS.items()}
    return [
        names[each.mechanism] + ("" if each.is_confirmed else " (unconfirmed)")
        for each in sorted(credentials, key=lambda each: each.mechanism)
    ]

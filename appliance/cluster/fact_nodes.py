"""Facts of the cluster in ZooKeeper: users, access rules, quotas, settings, what must be one.

    /appliance/facts    {"version": 1, "set": ID, "changes": [[7, ["users/ann", "acls/2:3:t"]]]}
    /appliance/fact_sets/ID/KIND/NAME    {"version": 1, "value": {...}}

The version of the first is the number of the last change, and each change is conditional on it: so
all have one order. It lists the last ones with what each touched; null is everything. A set that
nobody has named yet is built where nobody looks.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
)

from appliance.catalog.facts import Stale, Value, Values
from appliance.cluster import forms, paths
from appliance.cluster.forms import FormUnknown, Reader, fields_in
from appliance.cluster.reading import in_parts
from appliance.cluster.session import AWAY, ChangeRefused, Session
from appliance.errors import Refused
from appliance.protocol.errors import ErrorCode

CHANGES_MAX, LISTED_BYTES_MAX = 50, 100_000  # of the changes that are listed
BYTES_MAX = 900_000  # that ZooKeeper takes at a time
VALUE_BYTES_MAX = 700_000
NAME_IN_SET_MAX = 64

Place = tuple[str, str]  # a kind, and a name of it
Found = Mapping[str, Mapping[str, Value]]  # by kind and name


@dataclass(frozen=True)
class Root:
    folder: str
    number: int  # of the last change; -1: there is nothing yet
    changes: tuple[tuple[int, tuple[Place, ...] | None], ...] = ()

    def since(self, number: int) -> list[Place] | None:
        """What was touched by the changes after that one; None: it is not listed."""
        listed = dict(self.changes)
        found: list[Place] = []
        for each in range(number + 1, self.number + 1):
            places = listed.get(each)
            if places is None:
                return None
            found += places
        return [*dict.fromkeys(found)]

    def after(self, places: Iterable[Place] | None) -> Root:
        known = None if places is None else tuple(places)
        found = Root(self.folder, self.number + 1, ((self.number + 1, known),))
        if len(found.node) > LISTED_BYTES_MAX:
            return Root(self.folder, self.number + 1, ((self.number + 1, None),))
        for each in reversed(self.changes[1 - CHANGES_MAX :]):
            longer = Root(found.folder, found.number, (each, *found.changes))
            if len(longer.node) > LISTED_BYTES_MAX:
                break
            found = longer
        return found

    @property
    def node(self) -> bytes:
        changes = [
            [number, None if places is None else [f"{kind}/{name}" for kind, name in places]]
            for number, places in self.changes
        ]
        return forms.as_json({"version": 1, "set": self.folder, "changes": changes})


NOTHING = Root("", -1)


class FactNodes:
    def __init__(self, session: Session, may_be_open: bool) -> None:
        """`may_be_open`: secrets, too, where there is no login to ZooKeeper."""
        self.session = session
        self.may_keep_secrets = session.has_login or may_be_open
        self.troubles: dict[str, str] = {}  # nodes that were passed over, and why
        self.woken = asyncio.Event()  # there may be a change
        self._there: set[Place] = set()  # nodes of the set, also those that were passed over

    def wake(self) -> None:
        self.woken.set()

    # Read

    async def root(self) -> Root:
        """As new as now. From here on a change wakes."""
        await self.session.sync()
        if not await self.session.exists(paths.FACTS, self.wake):
            return NOTHING
        data, stat = await self.session.get(paths.FACTS)
        return root_from(data, stat.version)

    async def read_all(self, root: Root, kinds: Iterable[str]) -> Found:
        self.troubles.clear()
        self._there.clear()
        found = {}
        for kind in kinds:
            found[kind] = await self._read_kind(root, kind)
        return found

    async def _read_kind(self, root: Root, kind: str) -> Mapping[str, Value]:
        folder = paths.fact_set(root.folder, kind)
        try:
            names = [paths.fact_name(each) for each in await self.session.children(folder)]
        except NoAuthError:
            self.troubles[folder] = "this broker's login to ZooKeeper may not read it"
            return {}
        except NoNodeError:
            raise FormUnknown(f"{folder} is not in ZooKeeper, nothing is changed here") from None
        values = await self.read(root, [(kind, name) for name in names])
        return {name: value for (_, name), value in values.items() if value is not None}

    async def read(self, root: Root, places: Iterable[Place]) -> dict[Place, Value | None]:
        """None: it is not there. Those that were passed over are not in it."""
        known = [*places]
        found = await in_parts(self._value(root, each) for each in known)
        values = dict(zip(known, found, strict=True))
        return {place: values[place] for place in known if not self.is_trouble(root, place)}

    async def _value(self, root: Root, place: Place) -> Value | None:
        where = paths.fact(root.folder, *place)
        try:
            data, _ = await self.session.get(where)
        except NoNodeError:
            self._there.discard(place)
            self.troubles.pop(where, None)
            return None
        except NoAuthError:
            self._pass_over(root, place, "this broker's login to ZooKeeper may not read it")
            return None
        self._there.add(place)
        try:
            value = value_from(data, where)
        except FormUnknown as error:
            self._pass_over(root, place, str(error))
            return None
        self.troubles.pop(where, None)
        return value

    def _pass_over(self, root: Root, place: Place, why: str) -> None:
        self._there.add(place)
        self.troubles[paths.fact(root.folder, *place)] = why

    def pass_over(self, root: Root, kind: str, troubles: Mapping[str, str]) -> None:
        """That this broker cannot use."""
        for name, why in troubles.items():
            self._pass_over(root, (kind, name), why)

    def is_trouble(self, root: Root, place: Place) -> bool:
        return paths.fact(root.folder, *place) in self.troubles

    def is_unread(self, root: Root, kind: str) -> bool:
        return paths.fact_set(root.folder, kind) in self.troubles

    # Written

    def check(self, root: Root, kind: str, values: Values, is_secret: bool) -> None:
        """Whether this broker may, and understands what is there."""
        if is_secret and not self.may_keep_secrets:
            raise Refused(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                f"{kind} are secret, and everybody who reaches ZooKeeper could read them: set "
                "zookeeper.auth.file (or zookeeper.auth.mechanism=certificate) at all brokers, or "
                "zookeeper.secrets.unprotected=true",
            )
        for name in values:
            where = paths.fact(root.folder, kind, name)
            if why := self.troubles.get(where):
                raise Refused(ErrorCode.INVALID_REQUEST, f"{where} is not changed: {why}")

    async def write(self, root: Root, kind: str, values: Values, is_secret: bool) -> Root:
        """Stale: another change was faster, or somebody's hand was at the nodes."""
        self.check(root, kind, values, is_secret)
        after = root.after((kind, name) for name in values)
        change = self.session.change().set(paths.FACTS, after.node, root.number)
        size = len(after.node)
        for name, value in values.items():
            where, is_there = paths.fact(root.folder, kind, name), (kind, name) in self._there
            data = b"" if value is None else node_of(where, value)
            size += len(data) + len(where)
            if value is None and is_there:
                change.delete(where)
            elif value is not None and is_there:
                change.set(where, data, -1)
            elif value is not None:
                change.create(where, data, is_secret=is_secret)
        if size > BYTES_MAX:
            raise Refused(
                ErrorCode.POLICY_VIOLATION,
                f"{len(values)} {kind} are {size} bytes in ZooKeeper, wanted at most {BYTES_MAX} "
                "at a time",
            )
        try:
            await change.commit()
        except ChangeRefused as refused:
            if isinstance(refused.error, (BadVersionError, NodeExistsError, NoNodeError)):
                self.wake()
                raise Stale from refused
            raise self._refusal(refused.error) from refused
        self._there -= {(kind, name) for name, value in values.items() if value is None}
        self._there |= {(kind, name) for name, value in values.items() if value is not None}
        return after

    def _refusal(self, error: Exception) -> Refused:
        why = "this broker's login may not" if isinstance(error, NoAuthError) else repr(error)
        return Refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"ZooKeeper refuses it: {why}")

    async def make_set(self, values: Found, secret_kinds: Iterable[str]) -> str:
        """All of them, where nobody looks yet."""
        try:
            return await self._make_set(values, {*secret_kinds})
        except NoNodeError as error:
            raise Stale from error  # another broker has named its own, and removed this one
        except NoAuthError as error:
            raise self._refusal(error) from error

    async def _make_set(self, values: Found, secret: Collection[str]) -> str:
        folder = secrets.token_hex(8)
        nodes = []
        await self.session.create(paths.fact_set(folder), b"")
        for kind, of_kind in values.items():
            is_secret = kind in secret
            await self.session.create(paths.fact_set(folder, kind), b"", is_secret=is_secret)
            for name, value in of_kind.items():
                where = paths.fact(folder, kind, name)
                nodes.append((where, node_of(where, value), is_secret))
        await in_parts(
            self.session.create(where, data, is_secret=is_secret)
            for where, data, is_secret in nodes
        )
        return folder

    async def name_set(self, folder: str, before: Root) -> Root:
        """From now on it is the cluster's. Stale: another one was faster."""
        after = Root(folder, before.number).after(None)
        change = self.session.change()
        if before.number < 0:
            change.create(paths.FACTS, after.node)
        else:
            change.set(paths.FACTS, after.node, before.number)
        try:
            await change.commit()
        except ChangeRefused as refused:
            if isinstance(refused.error, (NodeExistsError, BadVersionError)):
                raise Stale from refused
            raise self._refusal(refused.error) from refused
        return after

    async def is_open(self, root: Root, kind: str) -> bool:
        """Whether others can read these: they were written before there was a login."""
        question, where = self.session.client.get_acls_async, paths.fact_set(root.folder, kind)
        acls, _ = await self.session.ask(question, self.session.root + where)
        return self.session.has_login and any(each.id.scheme == "world" for each in acls)

    async def remove_others(self, root: Root) -> None:
        """Sets that a broker had begun when it died, or that were replaced."""
        for folder in await self.session.children(paths.FACT_SETS):
            if folder != root.folder and len(folder) <= NAME_IN_SET_MAX:
                await self._remove_all(paths.fact_set(folder))

    async def _remove_all(self, where: str) -> None:
        with suppress(NoNodeError):
            question = self.session.client.delete_async
            for name in await self.session.children(where):
                await self._remove_all(f"{where}/{name}")
            await self.session.ask(question, self.session.root + where)


def refused_by(error: Exception, what: str) -> Refused:
    """In words, with a code at which clients ask again."""
    if isinstance(error, (*AWAY, KazooException)):
        what = f"{what}: whether ZooKeeper has taken it is not known: {error!r}"
    return Refused(ErrorCode.REQUEST_TIMED_OUT, what)


def node_of(where: str, value: Value) -> bytes:
    data = forms.as_json({"version": 1, "value": value})
    if len(data) > VALUE_BYTES_MAX:
        raise Refused(
            ErrorCode.POLICY_VIOLATION,
            f"{where}: {len(data)} bytes, wanted at most {VALUE_BYTES_MAX} in ZooKeeper",
        )
    return data


def value_from(data: bytes, where: str) -> Value:
    read = Reader(where, fields_in(data, where, 1))
    value = read.fields.get("value")
    if not isinstance(value, dict):
        raise read.unknown("value", value, "fields")
    return value


def root_from(data: bytes, number: int) -> Root:
    read = Reader(paths.FACTS, fields_in(data, paths.FACTS, 1))
    folder = read.text("set")
    if not folder.isalnum():
        raise read.unknown("set", folder, "letters and digits")
    changes = read.fields.get("changes")
    if not isinstance(changes, list):
        raise read.unknown("changes", changes, "a list")
    # in create the first number is 0, as the version of the node
    return Root(folder, number, tuple(_change(read, each) for each in changes))


def _change(read: Reader, each: Any) -> tuple[int, tuple[Place, ...] | None]:
    if not isinstance(each, list) or len(each) != 2 or type(each[0]) is not int:
        raise read.unknown("changes", json.dumps(each), "a number and what was touched")
    if each[1] is None:
        return each[0], None
    if not isinstance(each[1], list) or not all(isinstance(it, str) for it in each[1]):
        raise read.unknown("changes", json.dumps(each), "a number and what was touched")
    places = (text.partition("/") for text in each[1])
    return each[0], tuple((kind, name) for kind, _, name in places)

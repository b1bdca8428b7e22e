"""Facts: what a broker of its own keeps in its catalog alone, and what must be one in a cluster.
Users, access rules, quotas, settings made at run time, subscriptions, delegation tokens.

Each kind has an owner, which judges a change, publishes it, and then applies it to its table and
its memory. On one box nothing is published. In a cluster ZooKeeper has the truth
(docs/decisions/cluster-facts.md), a table is this broker's copy, and what others changed is taken.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from appliance.errors import ApplianceError
from appliance.process.detached_tasks import Changes

Value = Mapping[str, Any]  # as JSON has it
Values = Mapping[str, Value | None]  # by name, of one kind; None: there is none any more
Troubles = Mapping[str, str]  # names whose values cannot be used here, and why
Result = TypeVar("Result")
Good = TypeVar("Good")

NO_TROUBLES: Troubles = {}


class Stale(Exception):
    """Another broker's change was faster: this one has to be judged again. Not an error for a
    client, so no handler may take it for one."""


class FactUnusable(ApplianceError):
    """Somebody else wrote it, or a newer build."""


class Owner(Protocol):
    """Of all facts of one kind. On the event loop."""

    kind: str
    is_secret: bool

    def facts(self) -> dict[str, Value]:
        """All, as they are here."""

    async def take(self, values: Values) -> Troubles:
        """The cluster's. On disk when it returns."""
        ...


class SharedFacts(Protocol):
    async def tried(self, job: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Judged by what the cluster has now, as often as others are faster."""
        ...

    async def publish(self, kind: str, values: Values) -> None:
        """Stale: nothing was done."""


class Facts:
    """Changes of facts, one after the other and after all other changes of the broker."""

    def __init__(self, turn: Changes) -> None:
        self.turn = turn
        self.cluster: SharedFacts | None = None  # None: one box

    @property
    def are_shared(self) -> bool:
        return self.cluster is not None

    async def __call__(self, job: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        return await self.turn(self._tried(job))

    async def _tried(self, job: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        if self.cluster is None:
            return await job()
        return await self.cluster.tried(job)

    async def as_new_as_now(self) -> None:
        """What any broker has answered by now is known here. While ZooKeeper is away it is what was
        heard last."""
        if self.cluster is not None:
            with suppress(ApplianceError):
                await self(nothing)

    async def publish(self, kind: str, values: Values) -> None:
        """In a change, before anything of it is done here."""
        if self.cluster is not None:
            await self.cluster.publish(kind, values)


async def nothing() -> None:
    """A change that changes nothing: its turn alone counts."""


def readable(
    values: Values, read: Callable[[str, Value], Good]
) -> tuple[dict[str, Good | None], dict[str, str]]:
    """Those that can be used, and what is wrong with the others."""
    good: dict[str, Good | None] = {}
    troubles: dict[str, str] = {}
    for name, value in values.items():
        try:
            good[name] = None if value is None else read(name, value)
        except ApplianceError as error:
            troubles[name] = str(error)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            troubles[name] = f"it is not understood: {error!r}"
    return good, troubles


async def each_by_itself(
    values: Values, take: Callable[[str, Value | None], Awaitable[None]]
) -> Troubles:
    troubles = {}
    for name, value in values.items():
        try:
            await take(name, value)
        except FactUnusable as error:
            troubles[name] = str(error)
    return troubles


def texts_of(value: Value) -> dict[str, str]:
    """Names and values that were set for something."""
    found = value.get("config")
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise FactUnusable("config: wanted names with their values")
    return {**found}


def config_of(configs: Mapping[str, str]) -> Value | None:
    return {"config": dict(sorted(configs.items()))} if configs else None


def text_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


def bytes_of(text: object) -> bytes:
    if not isinstance(text, str):
        raise FactUnusable("wanted base64")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise FactUnusable("wanted base64") from None


def number_of(value: Value, name: str) -> int:
    found = value.get(name)
    if type(found) is not int or not 0 <= found < 1 << 63:
        raise FactUnusable(f"{name}: wanted a number")
    return found


def string_of(value: Value, name: str) -> str:
    found = value.get(name)
    if not isinstance(found, str):
        raise FactUnusable(f"{name}: wanted a text")
    return found

"""Requests to the controller, `/appliance/requests/r...`: whoever it is now, or becomes it.

    {"version": 1, "what": "leave", "broker": 1, "life": 7}            ephemeral
    {"version": 1, "what": "elect", "kind": "preferred", "partitions": {"t": [0, 1]}}   ephemeral
    {"version": 1, "what": "partitions", "topic": "t"}     stays until a controller has done it

The controller adds `"answer"` to the ephemeral ones, which end with who asked. A broker leaves as
long as its request is there, so a new controller knows it too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kazoo.exceptions import ConnectionLoss, KazooException

from appliance.cluster import forms, paths
from appliance.cluster.forms import FormUnknown, Key, Reader, fields_in
from appliance.cluster.reading import Reading, in_parts
from appliance.cluster.session import ChangeRefused, Session
from appliance.protocol.errors import ErrorCode

LEAVE, ELECT, PARTITIONS = "leave", "elect", "partitions"
KEYS_MAX = 1000  # of an election: names may be long, and are there once more in the answer
ANSWER_BYTES_MAX = 1_000_000  # that ZooKeeper takes
WITHDRAW_S = 1.0
PREFERRED, UNCLEAN = "preferred", "unclean"


@dataclass(frozen=True)
class Request:
    path: str
    what: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    version: int = 0

    @property
    def is_answered(self) -> bool:
        return "answer" in self.fields


def leave_node(broker: int, life: int) -> bytes:
    return forms.as_json({"version": 1, "what": LEAVE, "broker": broker, "life": life})


def partitions_node(topic: str) -> bytes:
    return forms.as_json({"version": 1, "what": PARTITIONS, "topic": topic})


def elect_node(keys: Collection[Key], unclean: bool) -> bytes:
    wanted: dict[str, list[int]] = {}
    for name, number in keys:
        wanted.setdefault(name, []).append(number)
    kind = UNCLEAN if unclean else PREFERRED
    return forms.as_json({"version": 1, "what": ELECT, "kind": kind, "partitions": wanted})


def answered_node(request: Request, answer: Any) -> bytes:
    """FormUnknown: it asks for more than an answer has room for."""
    data = forms.as_json({**request.fields, "answer": answer})
    if len(data) > ANSWER_BYTES_MAX:
        raise FormUnknown(f"{request.path} in ZooKeeper: its answer has {len(data)} bytes")
    return data


def keys_of(request: Request) -> list[Key]:
    """Of an election."""
    read = Reader(request.path, request.fields)
    wanted = request.fields.get("partitions")
    if not isinstance(wanted, dict):
        raise read.unknown("partitions", wanted, "partitions by topic")
    keys: list[Key] = []
    for name, numbers in wanted.items():
        if not isinstance(numbers, list) or any(type(each) is not int for each in numbers):
            raise read.unknown("partitions", numbers, "a list of numbers")
        keys += [(name, each) for each in numbers]
    return keys


def request_from(data: bytes, path: str, version: int) -> Request:
    fields = fields_in(data, path, 1)
    read = Reader(path, fields)
    what = read.text("what")
    if what not in (LEAVE, ELECT, PARTITIONS):
        raise read.unknown("what", what, f"{LEAVE}, {ELECT} or {PARTITIONS}")
    return Request(path, what, fields, version)


async def read_requests(
    session: Session, reading: Reading, watch: Any = None
) -> list[Request]:
    names = await session.children(paths.REQUESTS, watch)
    known = sorted(each for each in names if paths.number_in(each) is not None)
    found = await in_parts(_read(reading, f"{paths.REQUESTS}/{each}") for each in known)
    return [each for each in found if each]


async def _read(reading: Reading, path: str) -> Request | None:
    return await reading.node(path, lambda data, stat: request_from(data, path, stat.version))


def leaving_in(requests: Collection[Request]) -> dict[int, int]:
    """Who is being stopped, with its life."""
    leaving = {}
    for each in requests:
        if each.what == LEAVE:
            read = Reader(each.path, each.fields)
            try:
                leaving[read.number("broker")] = read.number("life")
            except FormUnknown:
                continue  # it cannot be answered either, and goes with who wrote it
    return leaving


class Asking:
    """One request of this broker, until it is answered."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def ask(self, node: bytes, timeout_s: float, keep: bool = False) -> Any:
        """The answer, None when none comes in time. `keep`: the request stays until we end."""
        if not self._session.is_connected:
            return None
        made = asyncio.ensure_future(self._make(node))
        try:
            return await asyncio.wait_for(self._answered(made), timeout_s)
        except (asyncio.TimeoutError, KazooException):
            return None
        finally:
            if not keep:
                await self._withdraw(made)

    async def _make(self, node: bytes) -> str:
        return await self._session.create(
            f"{paths.REQUESTS}/r", node, ephemeral=True, sequence=True
        )

    async def _answered(self, made: asyncio.Future[str]) -> Any:
        path = await asyncio.shield(made)
        number = self._session.number
        changed = asyncio.Event()
        try:
            return await self._answer(path, number, changed)
        finally:
            self._session.forget(changed.set)

    async def _answer(self, path: str, number: int, changed: asyncio.Event) -> Any:
        while self._session.number == number:
            changed.clear()
            with suppress(ConnectionLoss):
                data, stat = await self._session.get(path, changed.set)
                request = request_from(data, path, stat.version)
                if request.is_answered:
                    return request.fields["answer"]
                await changed.wait()
            await self._session.connected()
        return None

    async def _withdraw(self, made: asyncio.Future[str]) -> None:
        """Nobody waits for the answer any more, so nothing is to be done. If it cannot be taken
        back now it goes with the session."""
        with suppress(ChangeRefused, KazooException, asyncio.TimeoutError):
            path = await asyncio.wait_for(made, WITHDRAW_S)
            change = self._session.change().delete(path)
            await asyncio.wait_for(change.commit(), WITHDRAW_S)


def codes_in(answer: Any, keys: Collection[Key]) -> dict[Key, int]:
    """Of an election. Whatever has no answer has met no controller."""
    codes = dict.fromkeys(keys, int(ErrorCode.NOT_CONTROLLER))
    for each in answer if isinstance(answer, list) else []:
        if isinstance(each, list) and [*map(type, each)] == [str, int, int]:
            name, number, code = each
            codes |= {(name, number): code} if (name, number) in codes else {}
    return codes

"""One response for all identical requests: created, encoded and compressed once.

It is reused until it is a second old, or until its data changes: the creator of a topic sees the
topic in the next response. An expensive response is kept for longer, so that lists use at most
SHARE of a core, however long they are and however many consoles are open.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping
from typing import Any, NamedTuple

from appliance.process.detached_tasks import outcome

FRESH_SECONDS = 1.0
SHARE = 0.05
AGE_SECONDS_MAX = 5.0  # the console requests its lists in this interval
SLICE_ROWS = 200  # encoded between two turns of the event loop: about a millisecond
LEVEL = 1  # compresses a list of topics to a thirteenth; the highest level to a fifteenth
BODIES_MAX = 32  # different requests, each of up to some million bytes


class Body(NamedTuple):
    version: Hashable  # of the data
    until: float  # of time.monotonic()
    plain: bytes
    zipped: bytes


class Shared:
    def __init__(self) -> None:
        self._bodies: dict[Hashable, Body] = {}
        self._making: dict[Hashable, asyncio.Task[Body]] = {}
        self._changes = 0

    def forget(self) -> None:
        """Data was changed over this API."""
        self._changes += 1

    async def body(
        self, question: Hashable, version: Hashable, make: Callable[[], Awaitable[Any]]
    ) -> Body:
        """`make` returns a dictionary. Waits for a result that is current: started after this
        request, or still valid."""
        version = self._changes, version
        found = self._bodies.get(question)
        if found is not None and found.version == version and time.monotonic() < found.until:
            return found
        key = question, version
        task = self._making.get(key)
        if task is None:
            job = self._make(question, version, make)
            task = self._making[key] = asyncio.get_running_loop().create_task(job)
            task.add_done_callback(lambda _: self._making.pop(key))
        return await outcome(task)

    async def _make(
        self, question: Hashable, version: Hashable, make: Callable[[], Awaitable[Any]]
    ) -> Body:
        begin = time.monotonic()
        plain = b"".join([part async for part in encoded(await make())])
        took = time.monotonic() - begin
        zipped = await asyncio.to_thread(gzip.compress, plain, LEVEL, mtime=0)
        age = min(max(FRESH_SECONDS, took / SHARE), AGE_SECONDS_MAX)
        made = Body(version, begin + age, plain, zipped)
        self._keep(question, made)
        return made

    def _keep(self, question: Hashable, made: Body) -> None:
        now = time.monotonic()
        self._bodies = {key: each for key, each in self._bodies.items() if now < each.until}
        if len(self._bodies) < BODIES_MAX:
            self._bodies[question] = made


async def encoded(told: Mapping[str, Any]) -> AsyncIterator[bytes]:
    """JSON, some rows at a time."""
    before = "{"
    for name, value in told.items():
        yield f"{before}{json.dumps(name)}: ".encode()
        before = ", "
        if not isinstance(value, list) or len(value) <= SLICE_ROWS:
            yield json.dumps(value).encode()
            continue
        for first in range(0, len(value), SLICE_ROWS):
            rows = json.dumps(value[first : first + SLICE_ROWS])[1:-1]
            yield f"{', ' if first else '['}{rows}".encode()
            await asyncio.sleep(0)
        yield b"]"
    yield b"}" if told else b"{}"

"""Writes of the control plane to logs that clients write to: one thread appends for all callers,
and nobody's wait for the disk, or for replicas, takes a thread.

    append    what comes while the thread is busy goes to it together
    durable   is told by who moves the log's offsets

Both are compiled, and take no GIL. Everything here runs on the one asyncio thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count, islice
from typing import NamedTuple

from appliance._log import Log
from appliance.data_dir._control_plane_writes import LogWriter, Written
from appliance.data_dir._durable_waits import DurableWaits

__all__ = ["Batch", "LogWrites", "Written"]


class Batch(NamedTuple):
    log: Log
    data: bytes
    election: int = -1  # in a later one it is refused; -1: in none
    origin: str = "coordinator"


Told = asyncio.Future[list[Written]]


class LogWrites:
    def __init__(self) -> None:
        """Takes its thread and its descriptors: later there might be none."""
        self._writer = LogWriter()
        self._queue: list[tuple[Sequence[Batch], Told]] = []
        self._round: list[tuple[Sequence[Batch], Told]] = []  # what the thread has
        self._is_busy = False
        self._waits = DurableWaits()
        self._numbers = count()
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None  # None: it was not used yet

    async def append(self, batches: Sequence[Batch]) -> list[Written]:
        """What became of each, in their order. None is durable yet."""
        if not batches:
            return []
        loop = self._on_loop()
        told: Told = loop.create_future()
        self._queue.append((batches, told))
        if not self._is_busy:
            self._is_busy = True
            loop.call_soon(self._begin)
        return await told

    async def durable(self, log: Log, written: Written, timeout_s: float) -> None:
        """Returns once it is on disk, and on those of all replicas that must have it."""
        loop = self._on_loop()
        number = next(self._numbers)
        if not self._waits.add(number, log, written.last_offset, written.election):
            return
        told = self._waiting[number] = loop.create_future()
        late = loop.call_later(timeout_s, self._end_late, number, timeout_s)
        try:
            await told
        finally:
            late.cancel()
            if self._waiting.pop(number, None) is not None:  # nobody wants to know any more
                self._waits.give_up(number, 0)

    @property
    def waiting(self) -> int:
        """For the disk, or for replicas."""
        return len(self._waits)

    def close(self) -> None:
        """After the last write."""
        if self._loop is not None:
            self._loop.remove_reader(self._writer.fd)
            self._loop.remove_reader(self._waits.fd)
        self._writer.close()

    def _on_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(self._writer.fd, self._take_round)
            self._loop.add_reader(self._waits.fd, self._take_ended)
        return self._loop

    def _begin(self) -> None:
        """A round, with all that came until now."""
        self._round, self._queue = self._queue, []
        self._writer.begin([each for batches, _ in self._round for each in batches], None)

    def _take_round(self) -> None:
        outcomes = self._writer.take()
        if outcomes is None:
            return
        ended, self._round = self._round, []
        if self._queue:
            self._begin()
        else:
            self._is_busy = False
        left = iter(outcomes)
        for batches, told in ended:
            own = [*islice(left, len(batches))]
            if not told.done():  # who asked may be gone
                told.set_result(own)

    def _take_ended(self) -> None:
        for number, error in self._waits.take():
            _tell(self._waiting.pop(number), error)

    def _end_late(self, number: int, timeout_s: float) -> None:
        told = self._waiting.pop(number, None)
        if told is not None:  # it was told in this very turn
            _tell(told, self._waits.give_up(number, timeout_s))


def _tell(told: asyncio.Future[None], error: Exception | None) -> None:
    if told.done():
        return
    if error is None:
        told.set_result(None)
    else:
        told.set_exception(error)

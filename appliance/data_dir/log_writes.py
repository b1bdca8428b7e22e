"""Writes of the control plane to logs that clients write to: one thread of each log directory
appends for all callers, and nobody's wait for the disk, or for replicas, takes a thread.

    append    what comes while the directory's thread is busy goes to it together
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
from appliance.errors import ApplianceError, FilesExhausted, LogClosed
from appliance.process import event_log

__all__ = ["Batch", "LogWrites", "Written"]

logger = event_log.named("log_writes")


class Batch(NamedTuple):
    log: Log
    data: bytes
    election: int = -1  # in a later one it is refused; -1: in none
    origin: str = "coordinator"
    is_awaited: bool = True  # somebody waits for the disk: it is committed at once


Told = asyncio.Future[list[Written]]


class LogWrites:
    def __init__(self) -> None:
        self._rounds: dict[str, Rounds] = {}  # by log directory
        self._waits = DurableWaits()
        self._numbers = count()
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None  # None: nobody waited yet
        self._is_closed = False

    async def append(self, batches: Sequence[Batch]) -> list[Written]:
        """What became of each, in their order. None is durable yet. One that cannot be written
        keeps none of the others."""
        places = [each.log.directory.rpartition("/")[0] for each in batches]
        of_place: dict[str, list[Batch]] = {}
        for place, each in zip(places, batches, strict=True):
            of_place.setdefault(place, []).append(each)
        asked = {place: self._ask(place, own) for place, own in of_place.items()}
        told = {place: iter(await each) for place, each in asked.items()}
        return [next(told[place]) for place in places]

    def _ask(self, directory: str, batches: Sequence[Batch]) -> Told:
        error: ApplianceError | None = closed() if self._is_closed else None
        if error is None and directory not in self._rounds:
            try:
                self._rounds[directory] = Rounds()
            except OSError as cause:
                error = FilesExhausted(f"{directory}: {cause.strerror}")
        if error is None:
            return self._rounds[directory].append(batches)
        told: Told = asyncio.get_running_loop().create_future()
        told.set_result(refused(batches, error))
        return told

    async def durable(self, log: Log, written: Written, timeout_s: float) -> None:
        """Returns once it is on disk, and on those of all replicas that must have it."""
        if self._is_closed:
            raise closed()
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(self._waits.fd, self._take_ended)
        number = next(self._numbers)
        if not self._waits.add(number, log, written.last_offset, written.election):
            return
        told = self._waiting[number] = self._loop.create_future()
        late = self._loop.call_later(timeout_s, self._end_late, number)
        try:
            await told
        finally:
            late.cancel()
            if self._waiting.pop(number, None) is not None:  # nobody wants to know any more
                self._waits.give_up(number)

    @property
    def waiting(self) -> int:
        """For the disk, or for replicas."""
        return len(self._waits)

    async def close(self) -> None:
        """After the last write. Who comes later, or waits on, is told."""
        self._is_closed = True
        while self._rounds:
            _, each = self._rounds.popitem()
            await each.close()
        if self._loop is not None:
            self._loop.remove_reader(self._waits.fd)
        for number, told in [*self._waiting.items()]:
            del self._waiting[number]
            self._waits.give_up(number)
            _tell(told, closed())

    def _take_ended(self) -> None:
        for number, error in self._waits.take():
            _tell(self._waiting.pop(number), error)

    def _end_late(self, number: int) -> None:
        told = self._waiting.pop(number, None)
        if told is not None:  # it was told in this very turn
            _tell(told, self._waits.give_up(number))


class Rounds:
    """Appends to the logs of one directory: where its disk hangs, those of others go on."""

    def __init__(self) -> None:
        self._writer = LogWriter()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._writer.fd, self._take)
        self._queue: list[tuple[Sequence[Batch], Told]] = []
        self._round: list[tuple[Sequence[Batch], Told]] = []  # what the thread has
        self._is_busy = False

    def append(self, batches: Sequence[Batch]) -> Told:
        told: Told = self._loop.create_future()
        self._queue.append((batches, told))
        if not self._is_busy:
            self._is_busy = True
            self._loop.call_soon(self._begin)
        return told

    async def close(self) -> None:
        self._loop.remove_reader(self._writer.fd)
        await asyncio.to_thread(self._writer.close)
        self._round += self._queue
        self._queue = []
        self._fail(closed())

    def _begin(self) -> None:
        """A round, with all that came until now."""
        self._round, self._queue = self._queue, []
        try:
            self._writer.begin([each for batches, _ in self._round for each in batches], None)
        except Exception as error:  # noqa: BLE001 - it is logged there
            self._fail_unexpectedly(error)

    def _take(self) -> None:
        try:
            outcomes = self._writer.take()
        except Exception as error:  # noqa: BLE001 - it is logged there
            self._fail_unexpectedly(error)
            return
        if outcomes is None:
            return
        left = iter(outcomes)
        for batches, told in self._end():
            own = [*islice(left, len(batches))]
            if not told.done():  # who asked may be gone
                told.set_result(own)

    def _end(self) -> list[tuple[Sequence[Batch], Told]]:
        """The thread is busy with what came meanwhile before anybody goes on."""
        ended, self._round = self._round, []
        self._is_busy = bool(self._queue)
        if self._is_busy:
            self._loop.call_soon(self._begin)
        return ended

    def _fail_unexpectedly(self, error: Exception) -> None:
        logger.exception("writing failed unexpectedly")
        self._fail(ApplianceError(type(error).__name__))

    def _fail(self, error: ApplianceError) -> None:
        """Who comes later must not wait for a round that never ends."""
        for batches, told in self._end():
            if not told.done():
                told.set_result(refused(batches, error))


def refused(batches: Sequence[Batch], error: ApplianceError) -> list[Written]:
    return [Written(error, -1, -1, -1, -1)] * len(batches)


def closed() -> LogClosed:
    return LogClosed("the broker stops: nothing is written any more")


def _tell(told: asyncio.Future[None], error: Exception | None) -> None:
    if told.done():
        return
    if error is None:
        told.set_result(None)
    else:
        told.set_exception(error)

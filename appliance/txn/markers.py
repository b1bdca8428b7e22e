"""The control batches that end a transaction, appended to the partitions' logs and made durable.

A marker may be written twice: the second ends nothing. So whatever is in doubt, after a crash or a
failed write, is written again, to every partition. What must not happen is that the next
transaction of the same producer and epoch has begun meanwhile: it would be ended too. The
coordinator lets none begin before all markers are on disk, and says so in its own record.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from appliance._log import Log
from appliance.errors import ApplianceError, NotLeader, ReplicasTooFew
from appliance.record import _batch_builder
from appliance.storage._log_description import ProducerInfo
from appliance.topics.topic import OFFSETS
from appliance.txn.transaction import Producer

# Threads that append markers and wait for the disk. Each waits for one transaction; the committer
# makes what they wait for durable together.
THREADS = 4
# In a cluster they wait for followers, too.
LED_THREADS = 16


class Marker(NamedTuple):
    producer: Producer
    is_commit: bool
    coordinator_epoch: int

    def batch(self, wall_ms: int) -> bytes:
        kind = "commit" if self.is_commit else "abort"
        return _batch_builder.control_batch(kind, *self.producer, self.coordinator_epoch, wall_ms)


class LedLog(NamedTuple):
    """In a cluster: as it is led since that election."""

    log: Log
    election: int


class Markers:
    """Written beside the loop."""

    def __init__(
        self,
        timeout_ms: int,
        wall_ms: Callable[[], int],
        end_offsets: Callable[[int, bool], None],
    ) -> None:
        """`end_offsets` is told when the offsets that a producer wrote count, or never did."""
        self.end_offsets = end_offsets
        self._timeout_s = timeout_ms / 1000
        self._wall_ms = wall_ms
        self._threads = ThreadPoolExecutor(THREADS, "markers")
        self._led_threads = ThreadPoolExecutor(LED_THREADS, "led-markers")

    async def write(self, logs: list[Log], marker: Marker) -> list[ApplianceError]:
        """What failed. One log that fails keeps none of the others from its marker."""
        if not logs:
            return []
        job = partial(write_markers, logs, marker, self._wall_ms(), self._timeout_s)
        return await asyncio.get_running_loop().run_in_executor(self._threads, job)

    async def end(self, log: Log, marker: Marker) -> None:
        """What the producer has open in this log alone."""
        raise_first(await self.write([log], marker))
        if log.topic == OFFSETS:
            self.end_offsets(marker.producer.id, marker.is_commit)

    async def write_led(
        self, logs: list[LedLog], marker: Marker
    ) -> list[ApplianceError | None]:
        """In a cluster, to what is led here. What became of each."""
        job = partial(write_led_markers, logs, marker, self._wall_ms(), self._timeout_s)
        return await asyncio.get_running_loop().run_in_executor(self._led_threads, job)

    async def close(self) -> None:
        await asyncio.to_thread(self._threads.shutdown)
        await asyncio.to_thread(self._led_threads.shutdown)


def raise_first(failures: Iterable[ApplianceError]) -> None:
    for each in failures:
        raise each


def write_markers(
    logs: Iterable[Log], marker: Marker, wall_ms: int, timeout_s: float
) -> list[ApplianceError]:
    """All are appended before any is waited for. Blocks: for a thread. A log that cannot be written
    keeps none of the others from its marker; what failed is the answer."""
    waits: list[tuple[Log, int]] = []
    failures: list[ApplianceError] = []
    for log in logs:
        try:
            appended = log.append(marker.batch(wall_ms), origin="coordinator")
            log.ask_commit()
            waits.append((log, appended.last_offset))
        except ApplianceError as error:
            failures.append(error)
    deadline = time.monotonic() + timeout_s
    for log, last_offset in waits:
        try:
            log.await_durable(last_offset, max(0, deadline - time.monotonic()))
        except ApplianceError as error:
            failures.append(error)
    return failures


def write_led_markers(
    logs: Iterable[LedLog], marker: Marker, wall_ms: int, timeout_s: float
) -> list[ApplianceError | None]:
    """The same of logs that have replicas: each marker counts when all in sync have it, in the
    election that is named."""
    outcomes: list[ApplianceError | None] = []
    waits: list[tuple[int, LedLog, int]] = []
    for number, (log, election) in enumerate(logs):
        outcomes.append(None)
        try:
            if log.role != "leader" or log.election != election:
                raise NotLeader(f"{log.name}: node {log.leader} leads it since epoch {election}")
            if log.lacks_in_sync:  # else each try would leave one more
                raise ReplicasTooFew(f"{log.name}: too few replicas are in sync")
            batch = marker.batch(wall_ms)
            appended = log.append(batch, leader_epoch=election, origin="coordinator")
            log.ask_commit()
            waits.append((number, LedLog(log, election), appended.last_offset))
        except ApplianceError as error:
            outcomes[number] = error
    deadline = time.monotonic() + timeout_s
    for number, (log, election), last_offset in waits:
        try:
            log.await_durable(last_offset, max(0, deadline - time.monotonic()), election)
        except ApplianceError as error:
            outcomes[number] = error
    return outcomes


def open_transactions(log: Log) -> list[ProducerInfo]:
    """Of producers that wrote here and have no marker yet."""
    if log.last_stable_offset >= log.log_end_offset:
        return []
    return [each for each in log.producers() if each.txn_first_offset >= 0]

"""The control batches that end a transaction, appended to the partitions' logs and made durable.

A marker may be written twice: the second ends nothing. So whatever is in doubt, after a crash or a
failed write, is written again, to every partition. What must not happen is that the next
transaction of the same producer and epoch has begun meanwhile: it would be ended too. The
coordinator lets none begin before all markers are on disk, and says so in its own record.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from appliance._log import Log
from appliance.data_dir.log_writes import Batch, LogWrites, Written
from appliance.errors import ApplianceError, NotLeader, ReplicasTooFew, raise_first
from appliance.record import _batch_builder
from appliance.storage._log_description import ProducerInfo
from appliance.topics.topic import OFFSETS
from appliance.txn.transaction import Producer


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
    def __init__(
        self,
        writes: LogWrites,
        timeout_ms: int,
        wall_ms: Callable[[], int],
        end_offsets: Callable[[int, bool], None],
    ) -> None:
        """`end_offsets` is told when the offsets that a producer wrote count, or never did."""
        self.end_offsets = end_offsets
        self._writes = writes
        self._timeout_s = timeout_ms / 1000
        self._wall_ms = wall_ms

    async def write(self, logs: Iterable[Log], marker: Marker) -> list[ApplianceError]:
        """What failed. One log that fails keeps none of the others from its marker."""
        data = marker.batch(self._wall_ms())
        outcomes = await self._write([Batch(each, data) for each in logs])
        return [each for each in outcomes if each is not None]

    async def end(self, log: Log, marker: Marker) -> None:
        """What the producer has open in this log alone."""
        raise_first(await self.write([log], marker))
        if log.topic == OFFSETS:
            self.end_offsets(marker.producer.id, marker.is_commit)

    async def write_led(
        self, logs: Sequence[LedLog], marker: Marker
    ) -> list[ApplianceError | None]:
        """In a cluster, to what is led here: each marker counts when all in sync have it, in the
        election that is named. What became of each."""
        data = marker.batch(self._wall_ms())
        refused = [_refusal(each) for each in logs]
        batches = [
            Batch(log, data, election)
            for (log, election), error in zip(logs, refused, strict=True)
            if error is None
        ]
        written = iter(await self._write(batches))
        return [next(written) if error is None else error for error in refused]

    async def _write(self, batches: list[Batch]) -> list[ApplianceError | None]:
        """All are appended before any is waited for."""
        written = await self._writes.append(batches)
        deadline = time.monotonic() + self._timeout_s
        return [
            each.error or await self._durable(batch.log, each, deadline)
            for batch, each in zip(batches, written, strict=True)
        ]

    async def _durable(self, log: Log, written: Written, deadline: float) -> ApplianceError | None:
        try:
            await self._writes.durable(log, written, max(0, deadline - time.monotonic()))
        except ApplianceError as error:
            return error
        return None


def _refusal(led: LedLog) -> ApplianceError | None:
    log, election = led
    if log.role != "leader" or log.election != election:
        return NotLeader(f"{log.name}: node {log.leader} leads it since epoch {election}")
    if log.lacks_in_sync:  # else each try would leave one more
        return ReplicasTooFew(f"{log.name}: too few replicas are in sync")
    return None


def open_transactions(log: Log) -> list[ProducerInfo]:
    """Of producers that wrote here and have no marker yet."""
    if log.last_stable_offset >= log.log_end_offset:
        return []
    return [each for each in log.producers() if each.txn_first_offset >= 0]

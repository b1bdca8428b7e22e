"""The control batches that end a transaction, appended to the partitions' logs and made durable.

A marker may be written twice: the second ends nothing. So whatever is in doubt, after a crash or a
failed write, is written again, to every partition. What must not happen is that the next
transaction of the same producer and epoch has begun meanwhile: it would be ended too. The
coordinator lets none begin before all markers are on disk, and says so in its own record.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NamedTuple

from appliance._log import Log, ProducerInfo
from appliance.errors import ApplianceError
from appliance.record import _batch
from appliance.txn.transaction import Producer


class Marker(NamedTuple):
    producer: Producer
    is_commit: bool
    coordinator_epoch: int

    def batch(self, wall_ms: int) -> bytes:
        kind = "commit" if self.is_commit else "abort"
        return _batch.build_control(kind, *self.producer, self.coordinator_epoch, wall_ms)


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


def open_transactions(log: Log) -> list[ProducerInfo]:
    """Of producers that wrote here and have no marker yet."""
    if log.last_stable_offset >= log.log_end_offset:
        return []
    return [each for each in log.producers() if each.txn_first_offset >= 0]

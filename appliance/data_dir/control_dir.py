"""`data.dir`: the lock of the broker, and the believed time.

The catalog is opened after the lock, so that two brokers never have one open. It may hold records,
too: then it is locked as they need it.
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from appliance.config import BrokerConfig
from appliance.data_dir import data_format, descriptor_budget, durable_directories
from appliance.data_dir.durable_directories import storage_error
from appliance.data_dir.locked_dir import LockedDir, believed_in
from appliance.data_dir.partition_names import partitions_in
from appliance.errors import ApplianceError, LogClosed
from appliance.machine.believed_time_file import BelievedClock
from appliance.process.owner_only import FILE_MODE, tighten

LOCK = "lock"


class RecordsElsewhere(ApplianceError):
    """The start cannot go on; the text says what to do."""

    kafka_code = 56


@dataclass
class ControlDir:
    """`lock` is the constructor."""

    path: Path
    belief: BelievedClock
    records: LockedDir | None  # of what it holds, until somebody takes that over
    descriptor: int = -1  # of its lock, where it holds no records

    @classmethod
    def lock(cls, config: BrokerConfig) -> ControlDir:
        path, clients, admin = (
            config.data_dir.absolute(), config.network.max_connections, config.admin.connections_max
        )  # fmt: skip
        if path in config.record_dirs:
            records = LockedDir.lock(path, config.storage, clients, admin)
            return cls(path, records.belief, records)
        data_format.check(path)
        durable_directories.make(path)
        tighten(path)
        _check_without_records(path)
        descriptor_budget.take(clients, admin)
        descriptor = _lock(path)
        return cls(path, believed_in(path), None, descriptor)

    def release(self) -> None:
        """As a killed process would."""
        if self.records is not None:
            self.records.release()
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.records, self.descriptor = None, -1


def _lock(path: Path) -> int:
    try:
        descriptor = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    except OSError as error:
        raise storage_error(error, f"{path} cannot be opened as a data directory") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        text = f"{path} is in use by another broker: its file `lock` is held"
        raise LogClosed(text) from None
    return descriptor


def _check_without_records(path: Path) -> None:
    """It had records while it was the only directory."""
    found = sorted(name for _, _, name in partitions_in(path))
    if found:
        raise RecordsElsewhere(
            f"log.dirs: {path} (data.dir) is not one of them, and it holds {len(found)} partitions "
            f"({', '.join(found[:3])}): name it, too, and move them with kafka-reassign-partitions"
        )

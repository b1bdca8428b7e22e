"""A locked data directory: its engine, and the believed time.

A `LogDir` needs the ledger and the holds of the catalog. The catalog is opened after the lock, so
that two brokers never have one catalog open.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from appliance._log import Engine, Log, Recovered
from appliance.config import LogConfig, StorageConfig
from appliance.data_dir import data_format, descriptor_budget, durable_directories
from appliance.errors import FilesExhausted
from appliance.machine.believed_time import WallClock
from appliance.machine.believed_time_file import BelievedClock, boot_id, load
from appliance.machine.clock_state import is_kept_right_by_the_kernel
from appliance.machine.sync_guarantee import Syncs, syncs_on
from appliance.native import _descriptors
from appliance.process.owner_only import tighten


@dataclass(frozen=True)
class LockedDir:
    """`lock` creates it, before any recovery."""

    path: Path
    config: StorageConfig
    engine: Engine
    syncs: Syncs
    clock: WallClock
    belief: BelievedClock

    @classmethod
    def lock(
        cls,
        path: Path | str,
        config: StorageConfig | None = None,
        clients: int = 0,
        admin: int = 0,
        belief: BelievedClock | None = None,
    ) -> LockedDir:
        """`clients` and `admin` are the largest numbers of connections: the logs get the remaining
        descriptors. `belief`: the time is another directory's to keep, and so are these."""
        config = config or StorageConfig()
        path = Path(path).absolute()
        data_format.check(path)
        durable_directories.make(path)
        tighten(path)
        if belief is None:
            descriptor_budget.take(clients, admin)
            belief = believed_in(path)  # before the journal is touched: its age may stand in
        syncs = syncs_on(path)
        engine = Engine(
            str(path),
            checkpoint_interval_ms=config.checkpoint_interval_ms,
            reserve_bytes=config.reserve_bytes,
            low_water_bytes=config.low_water_bytes,
            sync=_sync_by(config.sync, syncs),
            sync_threads=config.sync_threads,
            write_behind_bytes=config.write_behind_bytes,
        )
        return cls(path, config, engine, syncs, belief.clock, belief)

    def release(self) -> None:
        """Like a killed process."""
        self.engine.close(False)

    def open_log(
        self, name: str, config: LogConfig, is_again: bool = False, is_moved: bool = False
    ) -> tuple[Log, Recovered]:
        try:
            return self.engine.open_log(name, config, is_again=is_again, is_moved=is_moved)
        except FilesExhausted:
            if not _descriptors.relieve():
                raise
            return self.engine.open_log(name, config, is_again=is_again, is_moved=is_moved)


def believed_in(path: Path) -> BelievedClock:
    clock = WallClock(
        is_synchronised=is_kept_right_by_the_kernel, remembered=load(path), boot_id=boot_id()
    )
    return BelievedClock(path, clock)


def _sync_by(chosen: str, syncs: Syncs) -> str:
    # Before Linux 5.8 syncfs hid write errors: an acknowledgement could be false.
    major, minor = map(int, re.findall(r"\d+", os.uname().release)[:2])
    if not syncs.may_syncfs or (chosen == "auto" and (major, minor) < (5, 8)):
        return "files"
    return chosen

"""Which of the directories of records are older copies: restored from a backup of the disk, say.

Before this broker's life is raised in ZooKeeper each directory gets the next one, on disk. So a
directory that has neither ZooKeeper's life nor the next was not there in between: what it has may
be older than what was promised, and it is as good as lost until its leaders have told the rest
(rule 8 of `docs/replication.md`). It gets the life only after the broker has resigned from what it
has. A copy that was made and put back within one life is not found. One of several directories in
which the life cannot be kept is as good as lost, too: the others are not to wait for it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection
from pathlib import Path

from appliance.data_dir import durable_directories
from appliance.data_dir.log_dirs import LogDirs
from appliance.data_dir.partition_names import Key
from appliance.errors import ApplianceError
from appliance.process import event_log

events = event_log.named("replication")

NAME = "cluster-life"
SIZE = 20  # always the same, so that a full disk has room for the next one, too
NEVER = 0  # no life came before
TAKEN_IN = 0  # a directory's, from when its topics become the cluster's until the first life


def trust(log_dirs: LogDirs) -> None:
    """They have what counts, whatever lives a broker of this id had in that ZooKeeper: they were
    one box's until now."""
    log_dirs.made.clear()
    for each in log_dirs.directories:
        if each.logs is not None:
            _write(each.path / NAME, TAKEN_IN)


class KeptLives:
    def __init__(self, log_dirs: LogDirs) -> None:
        self._log_dirs = log_dirs
        self._copies: dict[Path, list[Key]] = {}

    def lost(self) -> Collection[Key]:
        """What stands in copies, as they were found at the last `keep`."""
        return [key for keys in self._copies.values() for key in keys]

    async def keep(self, former: int, life: int) -> None:
        self._copies = await asyncio.to_thread(self._keep, former, life)

    def begun(self, life: int) -> None:
        """It is registered: it has resigned from what is lost."""
        for path in [*self._copies]:
            try:
                _write(path / NAME, life)
            except ApplianceError as error:
                events.error("a directory stays as good as lost", path=path, error=error)
                continue
            del self._copies[path]

    def _keep(self, former: int, life: int) -> dict[Path, list[Key]]:
        copies: dict[Path, list[Key]] = {}
        refused: list[ApplianceError] = []
        opened = [(each.path, each.logs.held()) for each in self._log_dirs.directories
                  if each.logs is not None]  # fmt: skip
        for path, held in opened:
            kept = _kept(path / NAME)
            if held and former != NEVER and kept not in (former, life, TAKEN_IN):
                events.error(
                    "a directory is an older copy: its partitions are copied from their leaders",
                    path=path, life=kept, in_zookeeper=former, partitions=len(held),
                )  # fmt: skip
                copies[path] = held
                continue
            try:
                _write(path / NAME, life)
            except ApplianceError as error:
                refused.append(error)
                copies[path] = held
        if refused and len(copies) == len(opened):
            raise refused[0]  # it would begin without anything
        for each in refused:
            events.error("a directory is as good as lost", error=each)
        return copies


def _kept(file: Path) -> int | None:
    """None: none, or none that can be read."""
    try:
        return int(file.read_bytes())
    except (OSError, ValueError):
        return None


def _write(file: Path, life: int) -> None:
    """In its place: of half a number nobody takes the half for it, for it is as good as none."""
    data = f"{life:0{SIZE - 1}}\n".encode()
    try:
        fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(fd, data, 0)
            os.fsync(fd)
        finally:
            os.close(fd)
        durable_directories.sync_name(file.parent)
    except OSError as error:
        raise ApplianceError(f"{file}: this broker's life cannot be kept: {error}") from error

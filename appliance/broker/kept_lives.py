"""Which of the directories of records are older copies: restored from a backup of the disk, say.

Before this broker's life is raised in ZooKeeper each directory gets the next one, on disk. So a
directory that has neither ZooKeeper's life nor the next was not there in between: what it has may
be older than what was promised, and it is as good as lost until its leaders have told the rest
(rule 8 of `docs/replication.md`). It gets the life only after the broker has resigned from what it
has. A copy that was made and put back within one life is not found.

One of several directories in which the life cannot be written gets it later, for the others are not
to wait. If it never does, it is taken for an older copy at the next life.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Mapping
from pathlib import Path

from appliance.data_dir import durable_directories
from appliance.data_dir.log_dir import LogDir
from appliance.data_dir.log_dirs import LogDirs
from appliance.data_dir.partition_names import Key
from appliance.errors import ApplianceError
from appliance.process import event_log

events = event_log.named("replication")

NAME = "cluster-life"
SIZE = 20  # always the same, so that a full disk has room for the next one, too
NEVER = 0  # no life came before
AGAIN_S = 1.0
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
        self._late: dict[Path, int] = {}  # the life that is to be written
        self._is_late = asyncio.Event()
        self._seen: list[LogDir] = []  # at the last `keep`

    def lost(self) -> Collection[Key]:
        """What stands in copies, as they were found at the last `keep`."""
        return [key for keys in self._copies.values() for key in keys]

    def is_behind(self, life: int) -> bool:
        """A directory that is open was closed when this life began, or is a copy by now."""
        return bool(life) and any(
            _kept(each.path / NAME) not in (life, TAKEN_IN)
            for each in self._log_dirs.directories
            if each.logs is not None and not any(each.logs is one for one in self._seen)
        )

    async def keep(self, former: int, life: int) -> None:
        self._late = {}
        self._copies = await asyncio.to_thread(self._keep, former, life)

    def begun(self, life: int) -> None:
        """It is registered: it has resigned from what is lost."""
        self._late |= dict.fromkeys(self._copies, life)
        self._copies = {}
        self._is_late.set()

    async def run(self) -> None:
        while True:
            await self._is_late.wait()
            self._is_late.clear()
            await self.keep_late()
            if self._late:
                await asyncio.sleep(AGAIN_S)
                self._is_late.set()

    async def keep_late(self) -> None:
        for path, life in [*self._late.items()]:
            opened = {each.path for each in self._log_dirs.directories if each.logs is not None}
            if path not in opened or self._late.get(path) != life:
                continue  # what is there by now is judged first
            try:
                await asyncio.to_thread(_write, path / NAME, life)
            except ApplianceError:
                continue  # it was told of, and is tried again
            if self._late.get(path) == life:
                del self._late[path]

    def _keep(self, former: int, life: int) -> dict[Path, list[Key]]:
        copies: dict[Path, list[Key]] = {}
        refused: dict[Path, ApplianceError] = {}
        opened = [(each.path, each.logs) for each in self._log_dirs.directories
                  if each.logs is not None]  # fmt: skip
        self._seen = [logs for _, logs in opened]
        for path, logs in opened:
            kept, held = _kept(path / NAME), logs.held()
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
                refused[path] = error
        self._put_off(life, refused, has_others=len(copies) + len(refused) < len(opened))
        return copies

    def _put_off(
        self, life: int, refused: Mapping[Path, ApplianceError], has_others: bool
    ) -> None:
        for path, error in refused.items():
            if not has_others:
                raise error
            events.error("a directory gets this broker's life later", error=error)
            self._late[path] = life


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

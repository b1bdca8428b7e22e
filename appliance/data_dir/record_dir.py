"""One of `log.dirs`: its logs while it is open, and why it is not.

    open       served
    offline    could not be opened; tried again by a timer. Nothing is made anew in its place
    doubtful   open, but a write to it failed: no new partition goes there

One that failed is opened again on a person's word: `LogDirs.reopen`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from appliance.data_dir.log_dir import LogDir
from appliance.errors import ApplianceError


class DirectoryOffline(ApplianceError):
    """A directory that is not open; the text says why."""

    kafka_code = 56


class DirectoryBusy(ApplianceError):
    kafka_code = 56


class LogDirUnknown(ApplianceError):
    kafka_code = 57


class Room(NamedTuple):
    """Of the file system."""

    total_bytes: int
    free_bytes: int


@dataclass(eq=False)
class RecordDir:
    path: Path
    id: str = ""  # "": not known, as it was never open; or it is the only one, and needs none
    logs: LogDir | None = None
    why: str = "it is not open yet"  # while `logs` is None
    doubt: str = ""  # a write to it failed; why

    @property
    def is_open(self) -> bool:
        return self.logs is not None

    def opened(self) -> LogDir:
        if self.logs is None:
            raise DirectoryOffline(f"{self.path} is not open: {self.why}")
        return self.logs

    @property
    def fault(self) -> str:
        """Why nothing new is to be put there; "" if it is well."""
        if self.logs is None:
            return self.why
        if self.logs.journal_failed:
            return "recovery points cannot be saved"
        return self.doubt

    @property
    def takes_partitions(self) -> bool:
        return self.logs is not None and not self.fault and not self.logs.is_full

    def room(self) -> Room:
        """Of one that cannot be looked at: nothing."""
        try:
            disk = os.statvfs(self.path)
        except OSError:
            return Room(0, 0)
        return Room(disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize)

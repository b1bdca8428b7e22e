"""What the disk watch wrote: the state of each disk as the disk itself tells it (SMART).

The watch runs as root and this process does not: it reads a file, which may be absent, old, half
written by somebody else, or of another version. Nothing in it is trusted beyond its types.

    {"version": 1, "at_ms": 1764093600000, "fault": "", "disks": [
      {"name": "sda", "model": "ST4000NM0035-1V4107", "serial": "ZC1", "error": "",
       "passed": true, "temperature_c": 34, "temperature_max_c": 60, "pending_sectors": 0, ...}],
     "history": {"sda": [[1764090000000, 34, 0, 0, null], ...]}}

`fault` is why nothing could be asked, `error` why one disk did not answer. `history` has a point
for each hour: time, temperature, pending and reallocated sectors, wear.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from appliance.machine.kernel_counters import Grown
from appliance.process.spoken import duration, some

VERSION = 1
FILE_BYTES_MAX = 4 << 20  # a disk has half a kilobyte, and 30 for its history
DISKS_MAX = 1000
TEXT_MAX = 200
POINTS_MAX = 31 * 24  # an hour each

# Of a disk that names no limit of its own. Makers give 60 for disks with platters, 70 for flash.
ROTATING_MAX_C, FLASH_MAX_C = 60, 70
WEAR_MAX_PERCENT = 90  # of what its maker guarantees
WEAR_ADVICE_PERCENT = 75

# Counters that never shrink: an old count is no news.
TOLD_MS = 7 * 86_400_000
GROWING = {
    "reallocated_sectors": "sectors were replaced by spare ones",
    "uncorrectable_errors": "reads could not be corrected",
    "cable_errors": "transfers were damaged on the way: a cable or a plug",
    "media_errors": "errors of the medium",
}


@dataclass(frozen=True)
class DiskState:
    """None: the disk does not say."""

    name: str
    model: str = ""
    serial: str = ""
    error: str = ""
    is_asleep: bool | None = None
    passed: bool | None = None  # its own verdict
    self_test_passed: bool | None = None
    is_read_only: bool | None = None
    rotation_rate: int | None = None  # a minute; 0: flash
    temperature_c: int | None = None
    temperature_max_c: int | None = None
    pending_sectors: int | None = None  # could not be read, and were not written since
    offline_uncorrectable: int | None = None
    reallocated_sectors: int | None = None
    uncorrectable_errors: int | None = None
    cable_errors: int | None = None
    media_errors: int | None = None
    wear_percent: int | None = None
    spare_percent: int | None = None
    spare_min_percent: int | None = None
    power_on_hours: int | None = None
    failed_attributes: str = ""  # by name

    @property
    def limit_c(self) -> int:
        return self.temperature_max_c or (
            FLASH_MAX_C if self.rotation_rate == 0 else ROTATING_MAX_C
        )

    @property
    def is_behind(self) -> bool:
        """A controller: several share one name, and a number of their own follows it."""
        return "," in self.name

    @property
    def command(self) -> str:
        """That shows all of it."""
        if not self.is_behind:
            return f"smartctl -a /dev/{self.name}"
        bus, _, kind = self.name.partition(" ")
        return f"smartctl -a -d {kind} /dev/{bus.replace('-', '/')}"

    @property
    def called(self) -> str:
        return f"{self.name} ({self.model})" if self.model else self.name

    def failures(self) -> Iterator[str]:
        if self.is_read_only:
            yield "takes no more writes: replace it"

    def warnings(self) -> Iterator[str]:
        """What asks for a person. What only grew is told by `news`."""
        if self.error and not self.is_asleep:
            yield f"does not tell its state: {self.error}"
        if self.passed is False:
            why = f" ({self.failed_attributes})" if self.failed_attributes else ""
            yield f"says of itself that it is failing{why}: replace it now"
        if self.self_test_passed is False:
            yield "failed its last self-test: replace it"
        if self.pending_sectors:
            yield (
                f"has {some(self.pending_sectors, 'sector')} that cannot be read: what they hold "
                "is gone unless another disk has it"
            )
        if self.offline_uncorrectable:
            yield f"found {some(self.offline_uncorrectable, 'sector')} that it cannot correct"
        if self.temperature_c is not None and self.temperature_c > self.limit_c:
            yield f"has {self.temperature_c} °C, more than {self.limit_c}: look at the fans"
        if self.wear_percent is not None and self.wear_percent >= WEAR_MAX_PERCENT:
            yield f"has used {self.wear_percent} % of the writes that its maker guarantees"
        least = self.spare_min_percent
        if self.spare_percent is not None and least and self.spare_percent <= least:
            yield f"has {self.spare_percent} % of its spare blocks left, and wants {least} %"

    def news(self, grown: Grown) -> Iterator[str]:
        for counter, what in GROWING.items():
            count = getattr(self, counter)
            key = f"smart/{self.serial or self.name}/{counter}"
            if count is not None and grown.is_new(key, count, TOLD_MS):
                yield f"{count} {what}; the count grew within a week"


class Point(NamedTuple):
    """Of an hour in the history of a disk."""

    at_ms: int
    temperature_c: int | None
    pending_sectors: int | None
    reallocated_sectors: int | None
    wear_percent: int | None


@dataclass(frozen=True)
class DiskReport:
    path: Path | None = None  # None: there is no watch
    at_ms: int | None = None
    fault: str = ""  # why it says nothing
    disks: list[DiskState] = field(default_factory=list)
    history: dict[str, list[Point]] = field(default_factory=dict)  # by the name of a disk

    def silence(self, now_ms: int, silent_ms: int) -> str:
        """Why nothing of what it says can be relied on; "": it speaks."""
        if self.path is None:
            return ""
        if self.fault:
            return f"the disk watch says nothing: {self.fault}"
        if self.at_ms is None:
            return f"the disk watch says nothing: {self.path} is not there"
        age_ms = now_ms - self.at_ms
        if age_ms > silent_ms:
            return (
                f"the disk watch has been silent for {duration(age_ms / 1000)}: a disk that is "
                "failing would not be seen (`systemctl status appliance-disk-watch.timer`)"
            )
        if age_ms < -silent_ms:
            return f"the disk watch wrote at a time that is {duration(-age_ms / 1000)} ahead"
        return ""


def mark_of(path: Path) -> tuple[int, int, int] | None:
    """It is another one whenever the file was replaced. None: there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def read(path: Path | None) -> DiskReport:
    if path is None:
        return DiskReport()
    try:
        # without a wait, if it is a pipe
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return DiskReport(path)
    except OSError as error:
        return DiskReport(path, fault=f"{path}: {error.strerror}")
    try:
        return _parsed(path, data)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return DiskReport(path, fault=f"{path} is not the file of a disk watch")


def _parsed(path: Path, data: bytes) -> DiskReport:
    if len(data) > FILE_BYTES_MAX:
        return DiskReport(path, fault=f"{path} has more than {FILE_BYTES_MAX} bytes")
    found = json.loads(data)
    version = found["version"]
    if version != VERSION:
        got = _printable(str(version)[:20])
        return DiskReport(path, fault=f"{path} is of version {got}, wanted {VERSION}")
    states = map(_disk, found["disks"][:DISKS_MAX])
    disks = list({each.name: each for each in states}.values())  # metrics go by the name
    told = {each.name for each in disks}
    history = {
        name: [_point(row) for row in rows[-POINTS_MAX:]]
        for name, rows in found.get("history", {}).items()
        if name in told
    }
    fault = _printable(str(found.get("fault", ""))[:TEXT_MAX])
    return DiskReport(path, _moment(found["at_ms"]), fault, disks, history)


TYPES = {each.name: str(each.type).partition(" ")[0] for each in fields(DiskState)}


def _disk(row: dict[str, Any]) -> DiskState:
    return DiskState(**{name: _typed(name, row[name]) for name in TYPES if name in row})


def _point(row: list[Any]) -> Point:
    at_ms, *values = row
    return Point(_moment(at_ms), *map(_number, values))


def _moment(value: Any) -> int:
    if (found := _number(value)) is None:
        raise ValueError(value)
    return found


def _typed(name: str, value: Any) -> Any:
    """What is of another type was never said."""
    kind = TYPES[name]
    if kind == "str":
        return _printable(value[:TEXT_MAX]) if isinstance(value, str) else ""
    if kind == "bool":
        return value if isinstance(value, bool) else None
    return _number(value)


def _number(value: Any) -> int | None:
    is_one = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62
    return value if is_one else None


def _printable(text: str) -> str:
    """It goes to terminals, and to pages."""
    return "".join(each if each.isprintable() else "?" for each in text)

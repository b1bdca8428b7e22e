"""What was set aside: files with batches that a log could not keep, and which of them are whole.

    t-0/00000000000000000042.log.corrupt-1763877600000    beside the segments of the partition
    orphans/t-0/00000000000000000042.log                  of a directory that no topic had

Behind damage the next batch is found by its look; since a record may hold bytes that look like a
batch, one that is found so counts only where another good one, or the end, follows it.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from appliance import _batch
from appliance.errors import ApplianceError

HEAD = struct.Struct(">qi")  # base offset, and the bytes that follow
HEADER_SIZE = 61  # of a whole batch
MAGIC_AT = 16
ORPHANS = "orphans"

_NAME = re.compile(r"\d{20}\.log(\.corrupt-\d+)?")


class FileUnknown(ApplianceError):
    kafka_code = 91


@dataclass(frozen=True)
class Whole:
    """A batch with a good checksum."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    records: int
    is_control: bool

    @property
    def span(self) -> tuple[int, int]:
        return self.position, self.size


def files_of(data_dir: Path, name: str) -> list[Path]:
    """Those that are about the partition of this directory name, the oldest segments first."""
    found = [path for path in (data_dir / name).glob("*.log.corrupt-*") if _is_one(path)]
    for folder in (data_dir / ORPHANS).glob(f"{name}*"):
        if re.fullmatch(rf"{re.escape(name)}(\.\d+)?", folder.name):
            found += [path for path in folder.glob("*.log*") if _is_one(path)]
    return sorted(found, key=lambda path: (path.name, str(path)))


def _is_one(path: Path) -> bool:
    return bool(_NAME.fullmatch(path.name)) and path.is_file() and not path.is_symlink()


def file_named(data_dir: Path, name: str, wanted: str) -> Path:
    """One of `files_of`, by what `shown` makes of it: no other file of the machine is read."""
    for path in files_of(data_dir, name):
        if shown(data_dir, path) == wanted:
            return path
    raise FileUnknown(
        f"{wanted[:120]!r} is no file that was set aside for {name}: wanted one of "
        + (", ".join(shown(data_dir, each) for each in files_of(data_dir, name)) or "which none is")
    )


def shown(data_dir: Path, path: Path) -> str:
    return str(path.relative_to(data_dir))


def whole_batches(path: Path) -> Iterator[Whole]:
    """In the order of the file."""
    if path.stat().st_size < HEADER_SIZE:
        return
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        memoryview(data) as view,
    ):
        position, is_sure = 0, True
        while position + HEADER_SIZE <= len(data):
            found = _at(view, position)
            if found is not None and (is_sure or _goes_on(view, found)):
                yield found
                position, is_sure = position + found.size, True
            else:
                position, is_sure = _next_look(data, position), False


def _at(view: memoryview, position: int) -> Whole | None:
    offset, length = HEAD.unpack_from(view, position)
    size = HEAD.size + length
    if not HEADER_SIZE <= size <= len(view) - position or offset < 0:
        return None
    if view[position + MAGIC_AT] != 2:
        return None
    with view[position : position + size] as data:
        try:
            (info,) = _batch.headers(data)
        except ApplianceError:
            return None
    return Whole(
        position, size, info.base_offset, info.last_offset, info.records_count, info.is_control
    )


def _goes_on(view: memoryview, found: Whole) -> bool:
    end = found.position + found.size
    if end + HEADER_SIZE > len(view):
        return end == len(view)
    following = _at(view, end)
    return following is not None and following.base_offset > found.last_offset


def _next_look(data: mmap.mmap, position: int) -> int:
    at = data.find(b"\x02", position + MAGIC_AT + 1)
    return len(data) if at < 0 else at - MAGIC_AT

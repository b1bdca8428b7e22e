"""Files set aside: batches that a log could not keep, and which of them are whole.

    t-0/00000000000000000042.log.corrupt-1763877600000    beside the segments of the partition
    orphans/t-0/00000000000000000042.log                  from a directory without a topic
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from appliance.errors import ResourceUnknown
from appliance.storage._next_good_batch import WholeBatches

ORPHANS = "orphans"

_NAME = re.compile(r"\d{20}\.log(\.corrupt-\d+)?")


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
    """The files of the partition with this directory name, the oldest segments first."""
    paths = [path for path in (data_dir / name).glob("*.log.corrupt-*") if _is_one(path)]
    for folder in (data_dir / ORPHANS).glob(f"{name}*"):
        if re.fullmatch(rf"{re.escape(name)}(\.\d+)?", folder.name):
            paths += [path for path in folder.glob("*.log*") if _is_one(path)]
    return sorted(paths, key=lambda path: (path.name, str(path)))


def _is_one(path: Path) -> bool:
    return bool(_NAME.fullmatch(path.name)) and path.is_file() and not path.is_symlink()


def file_named(data_dir: Path, name: str, wanted: str) -> Path:
    """The file of `files_of` with this shown name, path, or name of a file that only one has: no
    other file of the machine can be read."""
    files = files_of(data_dir, name)
    found = [each for each in files if wanted in (shown(data_dir, each), str(each))]
    found = found or [each for each in files if wanted == each.name]
    if len(found) == 1:
        return found[0]
    raise ResourceUnknown(
        f"{wanted[:120]!r} is no file that was set aside for {name}: wanted one of "
        + (", ".join(shown(data_dir, each) for each in files) or "(no files)")
    )


def shown(data_dir: Path, path: Path) -> str:
    return str(path.relative_to(data_dir))


def whole_batches(path: Path) -> Iterator[Whole]:
    """The whole batches in the order of the file."""
    with path.open("rb") as file:
        for each in WholeBatches(file.fileno(), path.stat().st_size):
            yield Whole(*each)

"""The list of mounts, as the kernel shows it to this process.

    41 40 8:1 / /data/broker rw,noatime shared:1 - xfs /dev/sda rw
    id, parent, device number, root, mount point, options, optional fields - type, source, options
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
FIELDS_MIN, ABOUT_MIN = 6, 3  # before the dash, and after it


@dataclass(frozen=True)
class Mount:
    number: str  # of the device, major:minor
    place: Path
    kind: str  # as mount calls it: fuse.sshfs
    source: str
    options: frozenset[str]


def parsed(lines: str) -> list[Mount]:
    """In order of mounting: a later mount hides earlier ones below it."""
    return [each for each in map(_mount, lines.splitlines()) if each is not None]


def _mount(line: str) -> Mount | None:
    before, _, after = line.partition(" - ")
    fields, about = before.split(" "), after.split(" ")
    if len(fields) < FIELDS_MIN or len(about) < ABOUT_MIN:
        return None
    options = {*fields[5].split(","), *about[2].split(",")}
    return Mount(fields[2], Path(_unescaped(fields[4])), about[0], _unescaped(about[1]),
                 frozenset(options))  # fmt: skip


def _unescaped(text: str) -> str:
    """A space in a name is \\040."""
    raw = re.sub(rb"\\([0-7]{3})", lambda each: bytes([int(each[1], 8)]), os.fsencode(text))
    return os.fsdecode(raw)


def of_number(number: str, file: Path = MOUNTS) -> Mount | None:
    """The mount of this device number. None: unknown."""
    try:
        mounts = parsed(file.read_text())
    except OSError:
        return None
    return next((each for each in reversed(mounts) if each.number == number), None)


def holding(path: Path, lines: str) -> Mount | None:
    """The mount that holds `path`: the deepest, and of several the last."""
    deepest: Mount | None = None
    for each in parsed(lines):
        is_above = path.is_relative_to(each.place)
        if is_above and (deepest is None or len(each.place.parts) >= len(deepest.place.parts)):
            deepest = each
    return deepest

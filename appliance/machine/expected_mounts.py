"""Whether a file system that should hold the data directory is mounted.

A directory that is a mount point is there while nothing is mounted, and then it is on the disk of
the system: whatever writes to it fills that disk, and finds none of what was there. Expected is
what /etc/fstab names, and mount units of systemd.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from appliance.machine.kernel_files import KernelFiles, text_in
from appliance.machine.mounts import holding

FIELDS_MIN = 3
NO_PLACES = ("swap", "none")
_WHERE = re.compile(r"^\s*Where\s*=\s*(.+?)\s*$", re.MULTILINE)
_WHAT = re.compile(r"^\s*What\s*=\s*(.+?)\s*$", re.MULTILINE)


class Expected(NamedTuple):
    place: Path
    source: str
    named_by: str  # the file


def of_machine(kernel: KernelFiles) -> Iterator[Expected]:
    table = kernel.root / "etc" / "fstab"
    for line in text_in(table).splitlines():
        fields = line.partition("#")[0].split()
        if len(fields) < FIELDS_MIN or fields[1] in NO_PLACES:
            continue
        options = fields[FIELDS_MIN].split(",") if len(fields) > FIELDS_MIN else []
        if "noauto" not in options:
            yield Expected(Path(fields[1].replace("\\040", " ")), fields[0], "/etc/fstab")
    for unit in sorted((kernel.root / "etc" / "systemd" / "system").glob("*.mount")):
        text = text_in(unit)
        where, what = _WHERE.search(text), _WHAT.search(text)
        if where and what:
            yield Expected(Path(where[1]), what[1], f"/etc/systemd/system/{unit.name}")


def missing(directory: Path, kernel: KernelFiles) -> Expected | None:
    """The deepest file system that should hold the directory, if another one holds it. An
    automount is one that is mounted on its first use: it stands in the list."""
    above = [each for each in of_machine(kernel) if directory.is_relative_to(each.place)]
    if not above:
        return None
    deepest = max(above, key=lambda each: len(each.place.parts))
    mount = holding(directory, text_in(kernel.mounts))
    if mount is None or len(mount.place.parts) >= len(deepest.place.parts):
        return None
    return deepest

"""Numbers for people: 1.9 GiB, 3 groups, 2.0 min. Programs get the plain numbers."""

from __future__ import annotations

import time
from collections.abc import Sequence

SIZES = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
BLOCKS, DOTS = " ▁▂▃▄▅▆▇█", " .:-=+*#@"  # eighths; the second for terminals without UTF-8
TIMES = (("d", 86_400), ("h", 3600), ("min", 60))


def some(count: int, one: str) -> str:
    """1 group, 3 groups."""
    return f"{count} {one}" if count == 1 else f"{count} {one}s"


def size(count: float | None) -> str:
    if count is None:
        return "-"
    for unit, one in SIZES:
        if count >= one:
            return f"{count / one:.1f} {unit}"
    return f"{count:.0f} B"


def disk_full(free_bytes: int, low_water_bytes: int) -> str:
    """Why writes are refused, and what to do. Writes resume a little above the mark: `_storage`."""
    wanted = low_water_bytes + low_water_bytes // 8
    if free_bytes < wanted:
        room = f"{size(free_bytes)} free, {size(wanted)} wanted (storage.low.water.bytes)"
    else:
        room = f"its file system refuses writes at {size(free_bytes)} free: a quota, or its inodes"
    return (
        f"the disk is full: {room}; writes are refused until there is room: delete topics, or "
        "shorten what they keep"
    )


def read_only(path: str) -> str:
    """Why the broker cannot start with this path, and the remedy."""
    return (
        f"{path} is on a read-only file system: it was mounted read-only, or the kernel made it so "
        "after an error, which is in its log (dmesg). Check the file system, mount it writable, "
        "and start again"
    )


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    for unit, one in TIMES:
        if seconds >= 2 * one:
            return f"{seconds / one:.1f} {unit}"
    return f"{seconds:.1f} s"


def moment(ms: int | None) -> str:
    if ms is None:
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(ms / 1000)) + "Z"


def trend(past: Sequence[float], width: int, blocks: str = BLOCKS) -> str:
    """The last numbers as a chart in one line, the newest at its right: the largest is as high as
    the line, and what is small is not nothing."""
    last = [0.0] * (width - len(past)) + [*past][-width:]
    most, top = max(last, default=0.0), len(blocks) - 1
    marks = [0 if not each else max(1, round(each / most * top)) for each in last]
    return "".join(blocks[each] for each in marks)

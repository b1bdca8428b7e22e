"""Child processes, as the kernel has them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

DEADLINE_S = 30.0


def children_of(pid: int) -> Iterator[int]:
    """Whichever of its threads has started them."""
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended meanwhile
            yield from map(int, task.read_text().split())


def child_of(pid: int, name: str) -> int:
    """Its child that has become this program."""
    end = time.monotonic() + DEADLINE_S
    while True:
        for each in children_of(pid):
            with contextlib.suppress(OSError):  # it is gone already
                if Path(f"/proc/{each}/comm").read_text() == f"{name}\n":
                    return each
        assert time.monotonic() < end, f"process {pid} has no child {name}"
        time.sleep(0.01)


def is_there(pid: int) -> bool:
    """Not one that has ended and waits for its parent."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


def until_gone(pid: int) -> None:
    end = time.monotonic() + DEADLINE_S
    while is_there(pid):
        assert time.monotonic() < end, f"process {pid} is still there"
        time.sleep(0.01)

"""Child processes, as the kernel has them."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

DEADLINE_S = 30.0


def child_of(pid: int, name: str) -> int:
    """Its child that has become this program."""
    end = time.monotonic() + DEADLINE_S
    while True:
        for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            with contextlib.suppress(OSError):  # it is gone already
                if Path(f"/proc/{each}/comm").read_text() == f"{name}\n":
                    return int(each)
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

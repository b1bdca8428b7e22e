"""The kernel's view of the threads of this process."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def named(name: str) -> list[Path]:
    """Directories in /proc of those with this name. Others, of tests before, may end meanwhile."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):
            if (task / "comm").read_text().strip() == name:
                found.append(task)
    return found

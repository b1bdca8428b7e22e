"""A machine whose clock a test sets (`shifted_clock.c`), for a process that it starts."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

from tests.crash.build import CACHE, digest_of

SOURCE = Path(__file__).with_suffix(".c")


def library() -> Path:
    found = CACHE / f"shifted-clock-{digest_of([SOURCE])}.so"
    if not found.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        part = found.with_suffix(f".{os.getpid()}")
        flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
        subprocess.run(["gcc", *flags, "-o", str(part), str(SOURCE)], check=True)
        part.rename(found)
    return found


class ShiftedClock:
    def __init__(self, folder: Path) -> None:
        self._file = folder / "shift"
        self.set(0)

    def set(self, shift_ms: int, *, is_kept_right: bool = False) -> None:
        """Also for processes that run already."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("=qq", shift_ms, is_kept_right))

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(library()), "SHIFTED_CLOCK": str(self._file)}

"""A machine whose clock a test sets (`shifted_clock.c`), for a process that it starts."""

from __future__ import annotations

import struct
from pathlib import Path

from tests.support.preload import library

SOURCE = Path(__file__).with_suffix(".c")


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
        return {"LD_PRELOAD": str(library(SOURCE)), "SHIFTED_CLOCK": str(self._file)}

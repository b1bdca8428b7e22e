"""A disk on which some names cannot be opened (`failing_open.c`), for a process a test starts."""

from __future__ import annotations

from pathlib import Path

from tests.support.preload import library

SOURCE = Path(__file__).with_suffix(".c")


class FailingOpens:
    def __init__(self, folder: Path) -> None:
        self._file = folder / "failing-opens"
        self.set()

    def set(self, *names: str) -> None:
        """Also for processes that run already."""
        part = self._file.with_suffix(".part")
        part.write_text("".join(f"{each}\n" for each in names))
        part.rename(self._file)

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(library(SOURCE)), "FAILING_OPENS": str(self._file)}

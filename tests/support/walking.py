"""Files below a folder of the repository, while other tests run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def below(folder: Path, pattern: str) -> Iterator[Path]:
    """Not those in hidden folders: what tests make there for all of them goes at any time."""
    yield from folder.glob(pattern)
    for each in folder.iterdir():
        if each.is_dir() and not each.name.startswith("."):
            yield from below(each, pattern)

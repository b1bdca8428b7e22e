"""What is made once, though several processes of one test run may want it at the same time."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def made_once(wanted: Path) -> Iterator[Path | None]:
    """A folder to fill, which is `wanted` when all went well; None when it is there already.

    Who comes meanwhile waits. The folder gets its name at the end: half of it is never found."""
    wanted.parent.mkdir(parents=True, exist_ok=True)
    with open(wanted.with_name(f".{wanted.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if wanted.exists():
            yield None
            return
        with tempfile.TemporaryDirectory(prefix=f".{wanted.name}-", dir=wanted.parent) as scratch:
            folder = Path(scratch) / "made"
            folder.mkdir()
            yield folder
            folder.rename(wanted)

"""Files of the data directory are readable by their owner only, because they hold messages.

The process sets its umask for this, too (`cli.serve`); an explicit mode also works where the broker
is embedded in another process.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from appliance.process import event_log

log = event_log.named("storage")

FILE_MODE, DIRECTORY_MODE, UMASK = 0o600, 0o700, 0o077


def make_directory(path: Path, *, exist_ok: bool = False) -> None:
    path.mkdir(mode=DIRECTORY_MODE, exist_ok=exist_ok)


def write(path: Path, data: bytes) -> None:
    """Replaces the file. Not synced."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    with open(os.open(path, flags, FILE_MODE), "wb") as file:
        file.write(data)


def tighten(directory: Path) -> None:
    """For a directory of an older version, or one made by hand. Its mode also protects everything
    below it."""
    mode = stat.S_IMODE(directory.stat().st_mode)
    if not mode & UMASK:
        return
    try:
        directory.chmod(mode & ~UMASK)
    except OSError as error:
        log.warning("others may read the messages in this directory", path=directory,
                    mode=f"{mode:o}", error=error)  # fmt: skip
    else:
        log.warning("others could read the messages in this directory: now its owner alone may",
                    path=directory, was=f"{mode:o}")  # fmt: skip

"""Files of the data directory are for their owner alone: messages are in them.

The process makes its files so by its umask, too (`cli.serve`); what is made with a mode of its own
holds also where the broker is embedded in a process that has another.
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
    """Over what is there. Not synced."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    with open(os.open(path, flags, FILE_MODE), "wb") as file:
        file.write(data)


def tighten(directory: Path) -> None:
    """One that was made by an older version, or by hand. Nobody comes through it to what is below,
    whatever modes that has."""
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

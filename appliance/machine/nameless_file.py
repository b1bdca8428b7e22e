"""A file without a name, for measurements: it is gone when it is closed, also by a kill."""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path

# Of file systems that know no such files (NFS, older overlays), and of older kernels.
UNKNOWN = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL)


def opened(directory: Path, flags: int = 0) -> int:
    """A descriptor to write and read. OSError: nothing can be written there."""
    how = os.O_RDWR | os.O_CLOEXEC | flags
    try:
        return os.open(directory, os.O_TMPFILE | how, 0o600)
    except OSError as error:
        if error.errno not in UNKNOWN:
            raise
    path = directory / f".measured-{secrets.token_hex(8)}"
    try:
        return os.open(path, os.O_CREAT | os.O_EXCL | how, 0o600)
    finally:
        path.unlink(missing_ok=True)  # it is there even if flags are refused

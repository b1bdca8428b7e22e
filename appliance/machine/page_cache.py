"""Drops pages that the disk may lack.

After a failed sync the lost bytes stay in the page cache, marked clean, until somebody drops them.
A restarted process would read them, append after them, and see a hole there after the next power
cut.
"""

from __future__ import annotations

import os
from pathlib import Path


def read_anew(path: Path) -> None:
    """Makes later reads of the file come from the disk; the file need not exist."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return  # whoever opens it next reports the error
    try:
        os.fdatasync(fd)  # the kernel drops only clean pages
    except OSError:
        pass  # it concerns pages that are dropped now: only the disk's content counts
    finally:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)

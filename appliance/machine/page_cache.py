"""What the page cache shows and the disk may lack.

After a sync that failed, the bytes that were lost stay in the page cache, clean, until somebody
drops them: a process that starts again would read them, write behind them, and find a hole there
after the next power cut.
"""

from __future__ import annotations

import os
from pathlib import Path


def read_anew(path: Path) -> None:
    """From now on what is read of the file comes from the disk; there need be none."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return  # whoever opens it next says why it cannot be
    try:
        os.fdatasync(fd)  # only clean pages are dropped
    except OSError:
        pass  # it speaks of pages that are dropped now: what is on the disk counts
    finally:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)

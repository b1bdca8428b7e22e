"""Bugs of Linux that lose or damage what a log on a disk has, by versions of kernel.org.

Distributions mend bugs without a new version of kernel.org's: a match asks to look there. Only bugs
with a source are here, and only such as concern files that are written and synced.
"""

from __future__ import annotations

import re
from typing import NamedTuple

Version = tuple[int, int, int]
NEWEST: Version = (999, 0, 0)


class Bug(NamedTuple):
    since: Version
    mended: Version  # the first that is well again
    only_on: tuple[str, ...]  # file systems or kinds of devices; empty: all
    what: str
    source: str


BUGS = (
    Bug((0, 0, 0), (4, 13, 0), (), "an error of writing back may be told to nobody: fsync says "
        "that all is well", "https://lwn.net/Articles/752063/"),
    Bug((4, 19, 0), (4, 19, 8), (), "the block layer writes data to the wrong place if a disk has "
        "no scheduler", "https://bugzilla.kernel.org/show_bug.cgi?id=201685"),
    Bug((5, 1, 0), (5, 1, 5), ("encrypted", "volume", "mapped"), "a discard on device-mapper frees "
        "blocks of others", "commit 51b86f9a8d1c (dm: make sure to obey "
        "max_io_len_target_boundary)"),
    Bug((6, 1, 64), (6, 1, 66), ("ext4",), "direct writes go to the wrong place of a file",
        "https://bugs.debian.org/1057843"),
    Bug((6, 3, 0), (6, 3, 5), ("xfs",), "structures of the file system are damaged under load",
        "commit 9419092fb263 (xfs: fix livelock in delayed allocation at ENOSPC)"),
)  # fmt: skip

# Since then one sync of the file system tells errors of writing back.
SYNCFS_TELLS: Version = (5, 8, 0)

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


def version_of(release: str) -> Version | None:
    """Of 6.1.0-13-amd64 the numbers; None: it has none."""
    found = _VERSION.match(release)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def upstream_of(release: str, banner: str) -> Version | None:
    """Debian's release says 6.1.0-13, its banner (/proc/version) ends with "Debian 6.1.55-1"."""
    told = re.findall(r"\bDebian (\d+\.\d+\.\d+)", banner)  # the compiler's comes before it
    return version_of(told[-1] if told else release)


def found_in(version: Version, has: frozenset[str]) -> list[Bug]:
    """Bugs of this kernel that concern one of these file systems or devices."""
    return [
        each
        for each in BUGS
        if each.since <= version < each.mended and (not each.only_on or has & set(each.only_on))
    ]

"""What the syncs of the file system below the data directory are worth.

Which of them tell of bytes that did not reach the disk was measured, not read: see
docs/decisions/which-sync-tells-the-truth.md. Where nothing was measured, that is said: at the
start, in the health and in the documents.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

# What was proven is proven of these, in this way: acknowledged records survived a disk that died,
# one that refused some writes, and power cuts that lost what was not flushed.
PROVEN = {
    "ext4": "file by file and by one sync of the file system",
    "xfs": "file by file and by one sync of the file system",
    "btrfs": "file by file",
}
SYNCFS = {kind for kind, how in PROVEN.items() if "one sync" in how}

# Why somebody may think that it is well, and what is known against it.
UNPROVEN = {
    "zfs": "its errors do not pass through Linux's page cache, which the proof is about",
    "nfs": "a write error may be told late or to nobody, and the server decides what a sync means",
    "nfs4": "a write error may be told late or to nobody, and the server decides what a sync means",
    "cifs": "the server decides what a sync means",
    "9p": "the host decides what a sync means",
    "virtiofs": "the host decides what a sync means",
    "fuse": "the program behind it decides what a sync means",
    "fuseblk": "the program behind it decides what a sync means",
    "tmpfs": "it is memory: a restart of the machine loses everything",
    "ramfs": "it is memory: a restart of the machine loses everything",
    "overlay": "syncs go through a second file system; mount a volume of its own",
    "ext3": "it was not tried",
    "ext2": "it has no journal: a power cut may lose names",
}
NO_FLUSH = {"nobarrier", "barrier=0"}  # the disk's own cache is not flushed then
WANTED = "put the data directory on ext4 or XFS"


@dataclass(frozen=True)
class Syncs:
    kind: str  # as mount calls it
    is_proven: bool
    text: str  # a sentence without its full stop

    @property
    def may_syncfs(self) -> bool:
        return self.is_proven and self.kind in SYNCFS

    def warnings(self, sync: str) -> list[str]:
        """For the start, with `commit.sync` as it is set."""
        said = [] if self.is_proven else [f"WARNING: {self.text}."]
        if sync == "filesystem" and not self.may_syncfs:
            said.append(f"WARNING: commit.sync=filesystem is not used on {self.kind}, where one "
                        "sync of the file system was not proven: files are synced one by one.")
        return said


def syncs_on(path: Path, mounts: str | None = None) -> Syncs:
    """Of an existing directory. `mounts` is what /proc/self/mountinfo would say."""
    try:
        lines = mounts if mounts is not None else Path("/proc/self/mountinfo").read_text()
    except OSError as error:
        return Syncs("?", False, f"the data directory's file system is not known "
                          f"({error.strerror}), so nothing is proven of it: {WANTED}")
    kind, options = _mounted(path.resolve(), lines)
    family = kind.partition(".")[0]  # fuse.sshfs
    if off := sorted(NO_FLUSH & options):
        return Syncs(kind, False, f"the data directory is on {kind} mounted with {off[0]}: "
                          "a power cut may take back what was acknowledged; mount it without")
    if kind in PROVEN:
        return Syncs(kind, True, f"the data directory is on {kind}, proven {PROVEN[kind]}")
    why = UNPROVEN.get(family, "it was not tried")
    return Syncs(kind, False, f"the data directory is on {kind}, of which nothing is proven: "
                      f"{why}; {WANTED}")


def _mounted(path: Path, lines: str) -> tuple[str, set[str]]:
    """Kind and options of the mount that holds `path`: the deepest, and of those the last."""
    found, depth = ("?", set[str]()), -1
    for line in lines.splitlines():
        before, _, after = line.partition(" - ")
        fields, about = before.split(" "), after.split(" ")
        if len(fields) < 6 or len(about) < 3:
            continue
        place = Path(_unescaped(fields[4]))
        if path.is_relative_to(place) and len(place.parts) >= depth:
            found = about[0], {*fields[5].split(","), *about[2].split(",")}
            depth = len(place.parts)
    return found


def _unescaped(text: str) -> str:
    """A blank in a name is \\040."""
    raw = re.sub(rb"\\([0-7]{3})", lambda each: bytes([int(each[1], 8)]), os.fsencode(text))
    return os.fsdecode(raw)

"""What a sync guarantees on the file system of the data directory.

Which syncs report bytes that did not reach the disk was measured:
docs/decisions/which-sync-tells-the-truth.md. For other file systems the start, the health and the
documents say that nothing is proven.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from appliance.machine.mounts import MOUNTS, holding

# File systems with a proof, and the proven kind of sync: acknowledged records survived a dying
# disk, refused writes, and power cuts that lost unflushed data.
PROVEN = {
    "ext4": "file by file and by one sync of the file system",
    "xfs": "file by file and by one sync of the file system",
    "btrfs": "file by file",
}
SYNCFS = {kind for kind, how in PROVEN.items() if "one sync" in how}

# Why another file system may fail.
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
NO_FLUSH = {"nobarrier", "barrier=0"}  # then the disk's own cache is not flushed
WANTED = "put the data directory on ext4 or XFS"


@dataclass(frozen=True)
class Syncs:
    kind: str  # as mount calls it
    is_proven: bool
    text: str  # a sentence without its full stop

    @property
    def may_syncfs(self) -> bool:
        return self.is_proven and self.kind in SYNCFS

    def is_accepted(self, accepted: str) -> bool:
        """Whether the operator accepted this file system by name. A proven one that is mounted
        without flushes is never accepted: its options are a mistake."""
        return self.is_proven or (self.kind == accepted and self.kind not in PROVEN)

    def warnings(self, sync: str, accepted: str = "") -> list[str]:
        """The warnings at a start, for `commit.sync` and `storage.file.system.accepted`."""
        said = [] if self.is_proven else [f"WARNING: {self.text}."]
        if said and self.is_accepted(accepted):
            said = [f"WARNING: {self.text}. storage.file.system.accepted={accepted} accepts it."]
        if sync == "filesystem" and not self.may_syncfs:
            said.append(f"WARNING: commit.sync=filesystem is not used on {self.kind}, where one "
                        "sync of the file system was not proven: files are synced one by one.")
        return said


def syncs_on(path: Path, mounts: str | None = None) -> Syncs:
    """For an existing directory. `mounts` has the format of /proc/self/mountinfo."""
    try:
        lines = mounts if mounts is not None else MOUNTS.read_text()
    except OSError as error:
        return Syncs("?", False, f"the data directory's file system is not known "
                          f"({error.strerror}), so nothing is proven of it: {WANTED}")
    mount = holding(path.resolve(), lines)
    kind, options = (mount.kind, mount.options) if mount else ("?", frozenset[str]())
    family = kind.partition(".")[0]  # fuse.sshfs
    if off := sorted(NO_FLUSH & options):
        return Syncs(kind, False, f"the data directory is on {kind} mounted with {off[0]}: "
                          "a power cut may take back what was acknowledged; mount it without")
    if kind in PROVEN:
        return Syncs(kind, True, f"the data directory is on {kind}, proven {PROVEN[kind]}")
    why = UNPROVEN.get(family, "it was not tried")
    return Syncs(kind, False, f"the data directory is on {kind}, of which nothing is proven: "
                      f"{why}; {WANTED}")

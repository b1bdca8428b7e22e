"""From the recorder's trace to the changes of each inode.

Paths are resolved to inodes in trace order, so data follows the inode and not the name, as on a
real disk: a file may be renamed while it is written, or unlinked and created again. The model's
last state must equal the real directory (`History.differences`), which proves that the recorder
missed no call.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import posixpath
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Keep in step with recorder.c.
OPERATIONS = (
    "",
    "note",
    "open",
    "write",
    "truncate",
    "allocate",
    "rename",
    "unlink",
    "rmdir",
    "mkdir",
    "link",
    "sync",
    "sync_range",
    "sync_all",
    "close",
    "duplicate",
    "advise",
    "lost",
    "outside",
    "untraceable",
)
CLASSES = {
    name: number
    for number, name in enumerate(
        (
            "none",
            "open",
            "create",
            "write",
            "pwrite",
            "fsync",
            "fdatasync",
            "syncfs",
            "rename",
            "ftruncate",
            "fallocate",
            "unlink",
            "mkdir",
            "sync",
            "pread",
            "read_only",
        )
    )
}
ENTRY = struct.Struct("<IIQQqQqqiIIIIIQ")
HEAD_SIZE = 24
NEVER = 1 << 62
KEEP_SIZE, PUNCH_HOLE, COLLAPSE, ZERO_RANGE = 1, 2, 8, 16


@dataclass(slots=True)
class Entry:
    """One call, as the recorder wrote it."""

    operation: str
    start: int
    end: int
    result: int
    handle: int
    offset: int
    length: int
    error: int
    flags: int
    is_injected: bool
    path: str
    other: str
    data: bytes

    def __str__(self) -> str:
        where = f"{self.path} {self.other}".strip()
        what = (
            f"@{self.offset}+{self.length} "
            if self.operation in ("write", "allocate", "truncate")
            else ""
        )
        failed = f" -> errno {self.error}" if self.error else ""
        note = f" {self.data[:160]!r}" if self.operation == "note" else ""
        return (
            f"{self.start}..{self.end} {self.operation} {what}h{self.handle} {where}{failed}{note}"
        )


def read_entries(trace: Path) -> list[Entry]:
    """All whole entries, in the order of their start."""
    entries = []
    with trace.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
        (used,) = struct.unpack_from("<Q", data, 0)
        at = HEAD_SIZE
        while at < used:
            (
                size,
                number,
                start,
                end,
                result,
                handle,
                offset,
                length,
                error,
                _thread,
                flags,
                injected,
                path_size,
                other_size,
                data_size,
            ) = ENTRY.unpack_from(data, at)
            if not size:
                raise ValueError(f"a call was cut off inside the recorder at byte {at} of {used}")
            body = at + ENTRY.size
            path = data[body : body + path_size].decode()
            other = data[body + path_size : body + path_size + other_size].decode()
            body += path_size + other_size
            entries.append(
                Entry(
                    OPERATIONS[number],
                    start,
                    end,
                    result,
                    handle,
                    offset,
                    length,
                    error,
                    flags,
                    bool(injected),
                    path,
                    other,
                    data[body : body + data_size],
                )
            )
            at += size
    entries.sort(key=lambda entry: entry.start)
    return entries


# ---- operations ----


@dataclass(slots=True, eq=False)
class DataOp:
    """A change of a file's bytes or size. `safe_at`: from then on it is on disk in any case."""

    start: int
    end: int
    inode: int
    kind: str  # write, truncate, allocate, zero
    offset: int
    length: int
    data: bytes
    safe_at: int = NEVER
    lost_at: int = NEVER


@dataclass(slots=True, eq=False)
class NameOp:
    """A change of names: edits (directory, name, inode or None) that happen together."""

    start: int
    end: int
    what: str
    edits: tuple[tuple[int, str, int | None], ...]
    safe_at: int = NEVER

    @property
    def directories(self) -> set[int]:
        return {directory for directory, _, _ in self.edits}


@dataclass(slots=True)
class Sync:
    start: int
    end: int
    inode: int | None  # None: the whole file system
    is_good: bool


@dataclass(slots=True)
class Note:
    at: int
    facts: dict[str, Any]
    payload: bytes


class Image:
    """A file's size, and its bytes without trailing zeros: preallocated files stay small."""

    __slots__ = ("data", "size")

    def __init__(self, data: bytes | bytearray = b"", size: int | None = None) -> None:
        self.data = bytearray(data)
        self.size = len(data) if size is None else size

    def copy(self) -> Image:
        return Image(self.data, self.size)

    def write(self, offset: int, data: bytes) -> None:
        if len(self.data) < offset:
            self.data.extend(bytes(offset - len(self.data)))
        self.data[offset : offset + len(data)] = data
        self.size = max(self.size, offset + len(data))

    def resize(self, size: int) -> None:
        del self.data[size:]
        self.size = size

    def part(self, start: int, end: int) -> bytes:
        """Bytes from start to end, with zeros for holes and after the end."""
        got = bytes(self.data[start:end])
        return got + bytes(end - start - len(got))

    def frozen(self) -> tuple[bytes, int]:
        return bytes(self.data).rstrip(b"\0"), self.size

    def apply(self, op: DataOp) -> None:
        if op.kind == "write":
            self.write(op.offset, op.data)
        elif op.kind == "truncate":
            self.resize(op.length)
        elif op.kind == "zero":
            zeros = min(op.offset + op.length, len(self.data)) - op.offset
            if zeros > 0:
                self.data[op.offset : op.offset + zeros] = bytes(zeros)
        else:
            self.size = max(self.size, op.offset + op.length)


Names = dict[int, dict[str, int]]  # directory inode -> name -> inode


@dataclass
class History:
    """The changes below a root that began as `names` and `images`, all of them on disk."""

    names: Names
    images: dict[int, Image]
    data_ops: dict[int, list[DataOp]] = field(default_factory=dict)
    name_ops: list[NameOp] = field(default_factory=list)
    syncs: list[Sync] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    outside: list[Entry] = field(default_factory=list)
    last: Names = field(default_factory=dict)
    ROOT = 0

    def tree(self, names: Names) -> tuple[dict[str, int], list[str]]:
        """Files (path -> inode) and directories that can be reached from the root."""
        files: dict[str, int] = {}
        directories: list[str] = []
        waiting = [("", self.ROOT)]
        while waiting:
            prefix, directory = waiting.pop()
            for name, inode in names.get(directory, {}).items():
                if inode in self.images:
                    files[prefix + name] = inode
                else:
                    directories.append(prefix + name)
                    waiting.append((prefix + name + "/", inode))
        return files, sorted(directories)

    def last_image(self, inode: int) -> Image:
        image = self.images[inode].copy()
        for op in self.data_ops.get(inode, []):
            image.apply(op)
        return image

    def differences(self, root: Path) -> list[str]:
        """Differences between the real directory and the trace: calls that the recorder missed."""
        files, _ = self.tree(self.last)
        real = {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}
        wrong = [f"{name}: only on disk" for name in real.keys() - files.keys()]
        wrong += [f"{name}: only in the trace" for name in files.keys() - real.keys()]
        for name in files.keys() & real.keys():
            if Image(real[name].read_bytes()).frozen() != self.last_image(files[name]).frozen():
                wrong.append(f"{name}: other bytes than the trace says")
        return wrong


class _Replay:
    """Walks the entries once and builds a History."""

    def __init__(self, root: Path, history: History) -> None:
        self.root = str(root)
        self.history = history
        self.names = {directory: dict(entries) for directory, entries in history.names.items()}
        self.inode_of_handle: dict[int, int] = {}
        self.next_inode = 1 + max([History.ROOT, *history.images, *history.names])

    def place(self, path: str) -> tuple[int, str]:
        """Directory inode and last name of a path below the root."""
        relative = posixpath.relpath(posixpath.normpath(path), self.root)
        directory = History.ROOT
        *parents, name = relative.split("/")
        for parent in parents:
            directory = self.names[directory][parent]
        return directory, name

    def lookup(self, path: str) -> int | None:
        if posixpath.normpath(path) == self.root:
            return History.ROOT
        directory, name = self.place(path)
        return self.names[directory].get(name)

    def edit(self, entry: Entry, *edits: tuple[int, str, int | None]) -> None:
        for directory, name, inode in edits:
            if inode is None:
                self.names[directory].pop(name, None)
            else:
                self.names[directory][name] = inode
        what = f"{entry.operation} {entry.path} {entry.other}".strip()
        self.history.name_ops.append(NameOp(entry.start, entry.end, what, edits))

    def change(
        self, entry: Entry, inode: int, kind: str, offset: int, length: int, data: bytes = b""
    ) -> None:
        op = DataOp(entry.start, entry.end, inode, kind, offset, length, data)
        self.history.data_ops.setdefault(inode, []).append(op)

    def run(self, entries: list[Entry]) -> None:
        for entry in entries:
            if entry.operation == "untraceable":
                raise ValueError(f"the model cannot follow this call: {entry}")
            if entry.result >= 0 or entry.operation in ("sync", "sync_all"):
                getattr(self, f"on_{entry.operation}", lambda _: None)(entry)
        self.history.last = self.names

    def on_note(self, entry: Entry) -> None:
        text, _, payload = entry.data.partition(b"\n")
        self.history.notes.append(Note(entry.start, json.loads(text), payload))

    def on_outside(self, entry: Entry) -> None:
        self.history.outside.append(entry)

    def on_open(self, entry: Entry) -> None:
        inode = self.lookup(entry.path)
        if inode is None:
            inode = self.next_inode
            self.next_inode += 1
            self.history.images[inode] = Image()
            directory, name = self.place(entry.path)
            self.edit(entry, (directory, name, inode))
        elif entry.flags & os.O_TRUNC:
            self.change(entry, inode, "truncate", 0, 0)
        self.inode_of_handle[entry.handle] = inode

    def on_write(self, entry: Entry) -> None:
        inode = self.inode_of_handle[entry.handle]
        self.change(entry, inode, "write", entry.offset, entry.result, entry.data[: entry.result])

    def on_truncate(self, entry: Entry) -> None:
        self.change(entry, self.inode_of_handle[entry.handle], "truncate", 0, entry.length)

    def on_allocate(self, entry: Entry) -> None:
        inode = self.inode_of_handle[entry.handle]
        if entry.flags & COLLAPSE:
            raise ValueError(f"the model cannot follow this call: {entry}")
        if entry.flags & (PUNCH_HOLE | ZERO_RANGE):
            self.change(entry, inode, "zero", entry.offset, entry.length)
        if not entry.flags & KEEP_SIZE:
            self.change(entry, inode, "allocate", entry.offset, entry.length)

    def on_rename(self, entry: Entry) -> None:
        inode = self.lookup(entry.path)
        self.edit(entry, (*self.place(entry.other), inode), (*self.place(entry.path), None))

    def on_unlink(self, entry: Entry) -> None:
        self.edit(entry, (*self.place(entry.path), None))

    on_rmdir = on_unlink

    def on_mkdir(self, entry: Entry) -> None:
        self.names[self.next_inode] = {}
        self.history.names.setdefault(self.next_inode, {})
        self.edit(entry, (*self.place(entry.path), self.next_inode))
        self.next_inode += 1

    def on_link(self, entry: Entry) -> None:
        self.edit(entry, (*self.place(entry.other), self.lookup(entry.path)))

    def on_sync(self, entry: Entry) -> None:
        inode = self.inode_of_handle[entry.handle]
        self.history.syncs.append(Sync(entry.start, entry.end, inode, entry.result == 0))

    def on_sync_all(self, entry: Entry) -> None:
        self.history.syncs.append(Sync(entry.start, entry.end, None, entry.result == 0))

    def on_lost(self, entry: Entry) -> None:
        for op in self.history.data_ops.get(self.inode_of_handle[entry.handle], []):
            if op.kind == "write" and op.offset == entry.offset and op.length == entry.length:
                op.lost_at = min(op.lost_at, entry.start)


def read_tree(root: Path) -> tuple[Names, dict[int, Image]]:
    """An existing directory, for a History that begins with it."""
    names: Names = {History.ROOT: {}}
    images: dict[int, Image] = {}
    inode_of = {root: History.ROOT}
    for number, path in enumerate(sorted(root.rglob("*")), 1):
        inode_of[path] = number
        names[inode_of[path.parent]][path.name] = number
        if path.is_dir():
            names[number] = {}
        else:
            images[number] = Image(path.read_bytes())
    return names, images


def build_history(
    entries: list[Entry], root: Path, before: tuple[Names, dict[int, Image]] | None = None
) -> History:
    """`before`: read_tree of the root before the first entry; None: it was empty."""
    names, images = before or ({History.ROOT: {}}, {})
    history = History(names, images)
    _Replay(root, history).run(entries)
    return history


# ---- the process under the recorder ----


class Recorder:
    """The control functions of the preloaded library; only inside the recorded process."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(None)
        self.library.recorder_fired.restype = ctypes.c_long
        self.library.recorder_seen.restype = ctypes.c_long

    def note(self, facts: dict[str, Any], payload: bytes = b"") -> None:
        text = json.dumps(facts).encode() + b"\n" + payload
        self.library.recorder_note(text, ctypes.c_size_t(len(text)))

    def fail(
        self,
        what: str,
        nth: int,
        error: int,
        *,
        times: int = 1,
        is_short: bool = False,
        match: str = "",
    ) -> None:
        self.library.recorder_fail(
            CLASSES[what],
            ctypes.c_long(nth),
            ctypes.c_long(times),
            error,
            int(is_short),
            match.encode(),
        )

    def heal(self) -> None:
        self.fail("none", 0, 0)

    def fired(self) -> int:
        return int(self.library.recorder_fired())

    def kill(self) -> None:
        """SIGKILL at a time when no call is running."""
        self.library.recorder_kill()

    def kill_at(self, nth: int) -> None:
        self.library.recorder_kill_at(ctypes.c_long(nth))

    def drop_cache(self, path: Path) -> None:
        self.library.recorder_drop_cache(str(path).encode())

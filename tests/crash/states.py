"""The directories that a power cut can leave.

At a cut an operation is *certain* when a successful sync of its inode (for a change of names: of
every directory concerned), begun after the operation ended, has ended; otherwise it is *maybe*, and
the disk may hold any part of it. A failed sync guarantees nothing, and what it covered may never
reach the disk, even if a later sync succeeds. sync_file_range guarantees nothing.

Strict mode is what POSIX promises. In the ext4-like mode any later sync of anything makes earlier
changes of names durable, and these survive in order; bugs that hide there are the reason to gate on
strict.

Tried of the maybes of one file: none, every prefix, all but one page, one page only, the
size without the bytes, the size with garbage, with an older batch of the same log (its CRC is
right), the last write torn at 512 bytes, at half and one byte short (each also zero-filled), its
second half without the first, and the new first sector over older bytes. Of the maybes of names:
none, all, every prefix, each one dropped, each one alone. Files are tried one at a time against
all-or-nothing of the others, plus a few seeded random members of the whole product.

A cut *between* two persistence points adds nothing that a prefix at the next one does not have, so
the cuts are just before and after each sync's end and each note; `every_cut` takes each call as
well.
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
import os
import random
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .trace import NEVER, DataOp, History, Image, NameOp, Names, Sync

SECTOR, PAGE = 512, 4096
PAGES_MAX = 6  # pages of one file tried alone and dropped, at each cut
TORN_MAX = 6  # writes of one file tried torn, at each cut
NAMES_MAX = 12  # changes of names tried dropped and alone, at each cut
# The format cannot detect an old batch with a fitting base offset, because its CRC covers neither
# base offset nor leader epoch. A sector boundary inside these bytes creates such a batch.
HEAD_MIN = 21
STALE_MAX = 2  # older batches tried in a grown file
Content = tuple[bytes, int]  # without trailing zeros, and the size


@dataclass(slots=True)
class State:
    """One disk: content id by path (`changed` over `baseline`), its directories, and its cuts."""

    baseline: dict[str, bytes]
    changed: tuple[str, bytes] | None
    directories: list[str]
    rank: int  # 0: all or nothing everywhere, 1: prefix, torn, zeros or garbage, 2: the rest
    label: str
    cuts: list[int] = field(default_factory=list)  # sequence numbers

    @property
    def files(self) -> dict[str, bytes]:
        return self.baseline | dict([self.changed]) if self.changed else self.baseline

    @property
    def kind(self) -> str:
        """What happened to the names and to which file, independent of the cut."""
        names, files = self.label.split(", ", 1)
        return re.sub(r"\d+", "", f"{names.split()[0]}, {files}")


@dataclass(slots=True)
class _Variants:
    """Content ids of one file at one cut: (rank, label, id); [0] has no maybes, `whole` all."""

    all: list[tuple[int, str, bytes]]
    whole: bytes


class Enumerator:
    """The legal states of a history, cut by cut. Each distinct content is stored once, by id."""

    def __init__(
        self, history: History, seed: int, *, strict: bool = True, random_members: int = 4
    ) -> None:
        self.history = history
        self.seed = seed
        self.strict = strict
        self.random_members = random_members
        self.contents: dict[bytes, Content] = {}
        self.distinct = 0
        self._variants: dict[tuple[int, tuple[tuple[int, bool], ...]], _Variants] = {}
        self._marks: dict[tuple[str | bytes, ...], int] = {}
        self._settle()
        self.stale = self._old_batches()

    # ---- when each operation becomes certain ----

    def _settle(self) -> None:
        for inode, ops in self.history.data_ops.items():
            own = [sync for sync in self.history.syncs if sync.inode in (None, inode)]
            for op in ops:
                op.safe_at = _safe_at(op.end, own)
        for change in self.history.name_ops:
            change.safe_at = max(self._names_safe_at(change, one) for one in change.directories)

    def _names_safe_at(self, op: NameOp, directory: int) -> int:
        syncs = self.history.syncs
        if self.strict:
            syncs = [sync for sync in syncs if sync.inode in (None, directory)]
        else:
            syncs = [sync for sync in syncs if sync.is_good]
        return _safe_at(op.end, syncs)

    def cuts(self, every_cut: bool = False) -> list[int]:
        points = {sync.end for sync in self.history.syncs} | {
            note.at for note in self.history.notes
        }
        if every_cut:
            points |= {op.start + 1 for ops in self.history.data_ops.values() for op in ops}
            points |= {op.start + 1 for op in self.history.name_ops}
        moments = sorted(point + later for point in points for later in (0, 1))
        return sorted(set(moments))

    def _alike(self, cuts: list[int]) -> list[list[int]]:
        """Neighbours have the same states: between them nothing began, was made safe or lost."""
        ops = [op for ops in self.history.data_ops.values() for op in ops]
        changes = [moment for op in ops for moment in (op.start, op.safe_at, op.lost_at - 1)]
        changes += [moment for op in self.history.name_ops for moment in (op.start, op.safe_at)]
        changes.sort()
        alike = itertools.groupby(cuts, lambda cut: bisect.bisect_left(changes, cut))
        return [list(group) for _, group in alike]

    # ---- one file ----

    def _intern(self, image: Image) -> bytes:
        content = image.frozen()
        digest = hashlib.blake2b(
            content[0], digest_size=16, key=content[1].to_bytes(8, "big")
        ).digest()
        self.contents.setdefault(digest, content)
        return digest

    def _old_batches(self) -> dict[int, list[DataOp]]:
        """By inode: writes to files of the same kind and directory, which a reused block may show.

        Not of another directory: the format cannot detect a batch of another log with a fitting
        base offset.
        """
        kind_of: dict[int, tuple[int, str]] = {}
        held: dict[tuple[int, str], list[DataOp]] = {}
        for op in self.history.name_ops:
            for directory, name, inode in op.edits:
                if inode is not None:
                    kind_of.setdefault(inode, (directory, os.path.splitext(name)[1]))
        for inode, ops in self.history.data_ops.items():
            writes = [op for op in ops if op.kind == "write" and op.data]
            if inode in kind_of:
                held.setdefault(kind_of[inode], []).extend(writes[:1])
        return {inode: held.get(kind, []) for inode, kind in kind_of.items()}

    def variants(self, inode: int, cut: int) -> _Variants:
        ops = [op for op in self.history.data_ops.get(inode, ()) if op.start < cut < op.lost_at]
        key = (inode, tuple((op.start, op.safe_at < cut) for op in ops))
        if key not in self._variants:
            self._variants[key] = self._make_variants(
                inode, ops, [is_certain for _, is_certain in key[1]]
            )
        return self._variants[key]

    def _make_variants(self, inode: int, ops: list[DataOp], certain: list[bool]) -> _Variants:
        maybes = [op for op, is_certain in zip(ops, certain, strict=True) if not is_certain]
        prefixes = self._prefixes(inode, ops, certain)
        found = [(0, "none", self._intern(prefixes[0]))]
        found += [
            (0 if n == len(maybes) else 1, f"first {n} of {len(maybes)}", self._intern(prefix))
            for n, prefix in enumerate(prefixes[1:], 1)
        ]
        if maybes:
            for rank, label, image in self._damaged(inode, prefixes, maybes):
                found.append((rank, label, self._intern(image)))
        distinct: dict[bytes, tuple[int, str, bytes]] = {}
        for one in found:
            distinct.setdefault(one[2], one)
        return _Variants(list(distinct.values()), self._intern(prefixes[-1]))

    def _prefixes(self, inode: int, ops: list[DataOp], certain: list[bool]) -> list[Image]:
        """The certain operations and the first n maybes, for every n, in their true order."""
        first_maybe = certain.index(False) if False in certain else len(ops)
        start = self.history.images[inode].copy()
        for op in ops[:first_maybe]:
            start.apply(op)
        rest = list(zip(ops, certain, strict=True))[first_maybe:]
        prefixes: list[Image] = []
        for count in range(sum(not is_certain for _, is_certain in rest) + 1):
            if count and not any(
                certain[first_maybe:]
            ):  # no certain operation follows: one step from the last
                image = prefixes[-1].copy()
                image.apply(rest[count - 1][0])
            else:
                image, left = start.copy(), count
                for op, is_certain in rest:
                    if is_certain or left > 0:
                        image.apply(op)
                        left -= not is_certain
            prefixes.append(image)
        return prefixes

    def _damaged(
        self, inode: int, prefixes: list[Image], maybes: list[DataOp]
    ) -> Iterator[tuple[int, str, Image]]:
        base, full = prefixes[0], prefixes[-1]
        yield from _paged(base, full)
        older = [op.data for op in self.stale.get(inode, []) if op.end < maybes[0].start]
        chance = random.Random(f"{self.seed} {inode} {full.size}")
        yield from _grown(base, full, older[-STALE_MAX:], chance)
        writes = [n for n, op in enumerate(maybes) if op.kind == "write" and op.length]
        for n in [*writes[: TORN_MAX // 2], *writes[TORN_MAX // 2 :][-TORN_MAX // 2 :]]:
            yield from _torn(prefixes[n], maybes[n])

    # ---- names ----

    def name_choices(self, cut: int) -> list[tuple[str, Names]]:
        started = [op for op in self.history.name_ops if op.start < cut]
        maybes = [op for op in started if op.safe_at >= cut]
        choices: list[tuple[str, set[NameOp]]] = [("all names", set()), ("no names", set(maybes))]
        choices += [
            (f"first {n} of {len(maybes)} names", set(maybes[n:])) for n in range(1, len(maybes))
        ]
        if self.strict:
            for op in maybes[-NAMES_MAX:]:
                choices.append((f"without {op.what}", {op}))
                choices.append((f"only {op.what}", set(maybes) - {op}))
        first_of = {frozenset(dropped): label for label, dropped in reversed(choices)}
        return [
            (label, self._names(started, dropped))
            for label, dropped in choices
            if first_of[frozenset(dropped)] is label
        ]

    def _names(self, started: list[NameOp], dropped: set[NameOp]) -> Names:
        names = {directory: dict(entries) for directory, entries in self.history.names.items()}
        for op in started:
            if op not in dropped:
                for directory, name, inode in op.edits:
                    if inode is None:
                        names[directory].pop(name, None)
                    else:
                        names[directory][name] = inode
        return names

    # ---- whole disks ----

    def _mark(self, *parts: str | bytes) -> int:
        """A number for (path, content); a disk's key is the exclusive-or of its files' numbers."""
        if parts not in self._marks:
            data = b"\0".join(part.encode() if isinstance(part, str) else part for part in parts)
            self._marks[parts] = int.from_bytes(
                hashlib.blake2b(data, digest_size=12).digest(), "big"
            )
        return self._marks[parts]

    def states_at(self, cut: int) -> Iterator[tuple[int, State]]:
        """(key, state); equal disks have equal keys."""
        chance = random.Random(f"{self.seed} {cut}")
        of_inode: dict[int, _Variants] = {}
        for label, names in self.name_choices(cut):
            files, directories = self.history.tree(names)
            for inode in files.values():
                of_inode[inode] = of_inode.get(inode) or self.variants(inode, cut)
            variants = {path: of_inode[inode] for path, inode in sorted(files.items())}
            places = self._mark("directories", *directories)
            nothing = {path: found.all[0][2] for path, found in variants.items()}
            everything = {path: found.whole for path, found in variants.items()}
            for how, baseline in (("synced only", nothing), ("everything", everything)):
                key = places
                for path, content in baseline.items():
                    key ^= self._mark(path, content)
                yield key, State(baseline, None, directories, 0, f"{label}, {how}")
                for path, found in variants.items():
                    if len(found.all) > 1:
                        rest = key ^ self._mark(path, baseline[path])
                        for rank, what, content in found.all:
                            text = f"{label}, {how}, {path}: {what}"
                            state = State(
                                baseline, (path, content), directories, max(rank, 1), text
                            )
                            yield rest ^ self._mark(path, content), state
            for _ in range(self.random_members):
                members = nothing | {
                    path: chance.choice(found.all)[2]
                    for path, found in variants.items()
                    if len(found.all) > 1
                }
                key = places
                for path, content in members.items():
                    key ^= self._mark(path, content)
                yield key, State(members, None, directories, 2, f"{label}, random member")

    def find(
        self, *, every_cut: bool = False, states_max: int | None = None, focus: str = ""
    ) -> list[State]:
        """Distinct states with every cut at which they are legal. If there are too many, a seeded
        sample with equally many of each kind. `focus`: only states whose label contains it."""
        found: dict[int, State] = {}
        for cuts in self._alike(self.cuts(every_cut)):
            for key, state in self.states_at(cuts[0]):
                one = found.setdefault(key, state)
                if not one.cuts or one.cuts[-1] < cuts[0]:
                    one.cuts += cuts
        self.distinct = len(found)
        states = [state for state in found.values() if focus in state.label]
        if states_max is None or len(states) <= states_max:
            return states
        random.Random(self.seed).shuffle(states)
        shares = {0: states_max // 4, 1: states_max * 3 // 4, 2: states_max}
        chosen: list[State] = []
        for rank, until in shares.items():
            of_rank = [state for state in states if state.rank == rank]
            chosen += _in_turns(of_rank)[: until - len(chosen)]
        return chosen


def _in_turns(states: list[State]) -> list[State]:
    """One of each kind, then a second of each, and so on."""
    kinds: dict[str, list[State]] = {}
    for state in states:
        kinds.setdefault(state.kind, []).append(state)
    turns = itertools.zip_longest(*kinds.values())
    return [state for turn in turns for state in turn if state is not None]


def _safe_at(end: int, syncs: list[Sync]) -> int:
    """The end of the first good sync begun after `end`, unless a failed one covered it before."""
    for sync in syncs[bisect.bisect_left(syncs, end, key=lambda one: one.start) :]:
        return sync.end if sync.is_good else NEVER
    return NEVER


def _paged(base: Image, full: Image) -> Iterator[tuple[int, str, Image]]:
    """All but one page, and one page only."""
    unit = PAGE if full.size > 4 * PAGE else SECTOR
    length = max(len(base.data), len(full.data))
    changed = [
        at for at in range(0, length, unit) if base.part(at, at + unit) != full.part(at, at + unit)
    ]
    if len(changed) < 2:
        return
    for at in [*changed[: PAGES_MAX // 2], *changed[PAGES_MAX // 2 :][-PAGES_MAX // 2 :]]:
        dropped, alone = full.copy(), Image(base.data, full.size)
        dropped.write(at, base.part(at, at + unit))
        alone.write(at, full.part(at, at + unit))
        for what, image in (("without", dropped), ("only", alone)):
            image.resize(full.size)
            yield 2, f"{what} page at {at}", image


def _grown(
    base: Image, full: Image, stale: list[bytes], chance: random.Random
) -> Iterator[tuple[int, str, Image]]:
    """The new size is on disk, and the bytes are not."""
    start, end = min(base.size, full.size), full.size
    if end <= start:
        return
    zeros = Image(base.data, base.size)
    zeros.resize(end)
    yield 1, "size with zeros", zeros
    size = min(end - start, 4 * PAGE)
    for what, data in [
        ("garbage", chance.randbytes(size)),
        *((f"old batch {n}", old) for n, old in enumerate(stale)),
    ]:
        image = zeros.copy()
        image.write(start, data[: end - start])
        yield 1 if what == "garbage" else 2, f"size with {what}", image
        if what != "garbage":  # the new first sector over old bytes
            head = SECTOR - start % SECTOR
            head += SECTOR if head < HEAD_MIN else 0
            mixed = zeros.copy()
            mixed.write(start, full.part(start, start + head) + data[head : end - start])
            mixed.resize(end)
            yield 2, f"new first sector over {what}", mixed


def _torn(before: Image, op: DataOp) -> Iterator[tuple[int, str, Image]]:
    """The last write cut at a sector, in the middle and one byte before its end; or headless."""
    sector = SECTOR - op.offset % SECTOR
    for length in sorted({sector, op.length // 2, op.length - 1}):
        if 0 < length < op.length:
            torn = before.copy()
            torn.write(op.offset, op.data[:length])
            yield 1, f"write at {op.offset} torn after {length}", torn
            filled = torn.copy()
            filled.resize(max(torn.size, op.offset + op.length))
            yield 1, f"write at {op.offset} torn after {length}, zeros follow", filled
    half = op.length // 2
    headless = before.copy()
    headless.write(op.offset + half, op.data[half:])
    yield 1, f"write at {op.offset} without its first half", headless


class Materialiser:
    """Lays out states in one directory, and writes only files that differ."""

    def __init__(self, root: Path, contents: dict[bytes, Content]) -> None:
        self.root = root
        self.contents = contents
        self._laid: dict[str, tuple[bytes, int]] = {}  # path -> content id, inode number

    def lay(self, state: State) -> None:
        wanted = state.files
        self._sweep(wanted, set(state.directories))
        for directory in state.directories:
            (self.root / directory).mkdir(exist_ok=True)
        for path, content in wanted.items():
            if not self._is_untouched(path, content):
                self._write(path, content)

    def _sweep(self, wanted: dict[str, bytes], directories: set[str]) -> None:
        for place, below, files in os.walk(self.root):
            relative = os.path.relpath(place, self.root)
            for name in files:
                if os.path.normpath(os.path.join(relative, name)) not in wanted:
                    os.unlink(os.path.join(place, name))
            for name in list(below):
                if os.path.normpath(os.path.join(relative, name)) not in directories:
                    shutil.rmtree(os.path.join(place, name))
                    below.remove(name)

    def _is_untouched(self, path: str, content: bytes) -> bool:
        laid = self._laid.get(path)
        if not laid or laid[0] != content:
            return False
        try:
            status = os.stat(self.root / path)
        except FileNotFoundError:
            return False
        return status.st_mtime_ns == 0 and status.st_ino == laid[1]  # any write changes the time

    def _write(self, path: str, content: bytes) -> None:
        target = os.path.join(self.root, path)
        if os.path.lexists(target):
            os.unlink(target)
        data, size = self.contents[content]
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            os.write(fd, data)
            os.ftruncate(fd, size)
        finally:
            os.close(fd)
        os.utime(target, ns=(0, 0))
        self._laid[path] = (content, os.stat(target).st_ino)

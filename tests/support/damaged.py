"""A data directory as a power cut left it, to be damaged further; and what must hold afterwards.

The log t-0 has one record a batch, all of producer 7, so that offset, sequence and value agree:

    segment      0 .. 5   6 .. 11   12 .. 17   18 .. 20
    recovery point                     ^ 15; durable up to 21
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path

from appliance._log import Log
from appliance.data_dir.log_dir import LogDir
from appliance.errors import BatchCorrupt, BatchTorn, OffsetInHole
from tests.support.logs import NOW, bases, log_config, opened, produced, split

SETTINGS = {"index_interval_bytes": 0}
BASES = (0, 6, 12, 18)
POINT = 15
END = 21
EPOCH = 3


def build(path: Path, cleanly: bool = False) -> list[bytes]:
    """The batches of the log, by offset."""
    with opened(path, **SETTINGS) as log_dir:
        log = log_dir.create("t", 0, log_config(**SETTINGS))
        for i in range(END):
            if i in BASES:
                log.roll()
            log.append(produced(i, timestamp=NOW + i), leader_epoch=EPOCH)
            if i == POINT - 1:
                log.flush()
                log_dir.checkpoint()
        log.flush()
        batches = [split(log.read(offset, 1))[0] for offset in range(END)]
        if not cleanly:
            log_dir.abandon()
    return batches


@dataclass
class Damaged:
    """One copy of that directory."""

    path: Path
    batches: list[bytes]
    spans: list[tuple[int, int]] = field(init=False)  # of each batch in its segment

    def __post_init__(self) -> None:
        self.spans = []
        for base, end in zip(BASES, (*BASES[1:], END), strict=True):
            at = 0
            for each in self.batches[base:end]:
                self.spans.append((at, at + len(each)))
                at += len(each)

    @property
    def folder(self) -> Path:
        return self.path / "t-0"

    def segment(self, base: int, suffix: str = ".log") -> Path:
        return self.folder / f"{base:020d}{suffix}"

    def segment_of(self, offset: int) -> Path:
        return self.segment(max(base for base in BASES if base <= offset))

    def write(self, path: Path, position: int, data: bytes) -> None:
        with path.open("r+b") as file:
            file.seek(position)
            file.write(data)

    def flip(self, offset: int, byte: int = 65) -> None:
        """One bit of a batch."""
        path, at = self.segment_of(offset), self.spans[offset][0] + byte
        self.write(path, at, bytes([path.read_bytes()[at] ^ 1]))

    def cut(self, offset: int, into: int = 0) -> None:
        """The file ends `into` bytes after the begin of that batch."""
        with self.segment_of(offset).open("r+b") as file:
            file.truncate(self.spans[offset][0] + into)

    def add(self, base: int, data: bytes) -> None:
        with self.segment(base).open("ab") as file:
            file.write(data)

    def remove(self, *bases: int, suffixes: tuple[str, ...] = (".log",)) -> None:
        for base in bases:
            for suffix in suffixes:
                self.segment(base, suffix).unlink()

    @property
    def aside(self) -> list[str]:
        return sorted(path.name for path in self.folder.glob("*.corrupt-*"))


@dataclass(frozen=True)
class Wanted:
    kept: tuple[int, ...]  # offsets that are served, byte for byte
    lost: tuple[int, int] | None = None  # first and last, as reported
    is_cut: bool = False
    aside: int = 0  # files set aside
    end: int | None = None  # of the log; one past the last kept unless something durable is gone

    @property
    def log_end(self) -> int:
        return self.end if self.end is not None else max(self.kept, default=-1) + 1


def up_to(end: int, **given: object) -> Wanted:
    return Wanted(tuple(range(end)), **given)  # type: ignore[arg-type]


def without(first: int, last: int, end: int = END, **given: object) -> Wanted:
    """All but a range of durable records, which is reported."""
    kept = tuple(i for i in range(end) if not first <= i <= last)
    return Wanted(kept, lost=(first, last), end=end, **given)  # type: ignore[arg-type]


def served(log: Log, damaged: Damaged) -> list[int]:
    """Offsets at which exactly what was produced there is read; nothing else may be read anywhere.

    At a hole a reader is told so; it is not led on to what comes behind as if all were well."""
    kept = []
    for offset in range(log.log_start_offset, END + 1):
        if offset > log.log_end_offset:
            break
        with contextlib.suppress(OffsetInHole, BatchCorrupt, BatchTorn):
            data = log.read(offset, 1)
            if offset == log.log_end_offset:
                assert data == b"", "bytes at the end"
                continue
            assert data, f"nothing at {offset}, the log ends at {log.log_end_offset}"
            assert bases(data) == [offset], f"reading at {offset} gives {bases(data)}"
            assert data == damaged.batches[offset], f"other bytes at {offset}"
            kept.append(offset)
    return kept


def check(damaged: Damaged, wanted: Wanted) -> None:
    """Recovers, again, and again after an append: what is kept stays, and the rest stays away."""
    asides = check_first_start(damaged, wanted)
    for cleanly in (False, True):
        with opened(damaged.path, **SETTINGS) as log_dir:
            log = log_dir.log("t", 0)
            assert served(log, damaged) == list(wanted.kept)
            assert log_dir.report.cut_bytes == 0
            assert damaged.aside == asides
            if not cleanly:
                log_dir.abandon()
    check_append(damaged, wanted)


def check_first_start(damaged: Damaged, wanted: Wanted) -> list[str]:
    with opened(damaged.path, **SETTINGS) as log_dir:
        assert log_dir.report.failures == []
        log = log_dir.log("t", 0)
        assert served(log, damaged) == list(wanted.kept)
        assert (log.log_end_offset, log.durable_offset) == (wanted.log_end, wanted.log_end)
        check_report(log_dir, damaged, wanted)
        found = log.offset_for_timestamp(NOW + wanted.kept[-1]) if wanted.kept else None
        if wanted.kept and wanted.lost is None:
            assert found == (wanted.kept[-1], NOW + wanted.kept[-1])
        log_dir.abandon()
    return damaged.aside


def check_report(log_dir: LogDir, damaged: Damaged, wanted: Wanted) -> None:
    report = log_dir.report
    lost = [
        (loss.topic, loss.partition, loss.first_offset, loss.last_offset) for loss in report.losses
    ]
    wanted_lost = [] if wanted.lost is None else [("t", 0, *wanted.lost)]
    assert lost == wanted_lost, f"reported {lost}, wanted {wanted_lost}"
    assert (report.cut_bytes > 0) == wanted.is_cut
    assert len(damaged.aside) == wanted.aside
    set_aside = sum((damaged.folder / name).stat().st_size for name in damaged.aside)
    assert report.aside_bytes == set_aside


def check_append(damaged: Damaged, wanted: Wanted) -> None:
    end = wanted.log_end
    with opened(damaged.path, **SETTINGS) as log_dir:
        log = log_dir.log("t", 0)
        # Of a producer whose last batches are lost nobody knows what it sent: it has to begin anew.
        is_known = wanted.lost is None or wanted.lost[1] < end - 1
        sequence, pid = (end, 7) if is_known else (0, 9)
        data = produced(sequence, pid=pid, timestamp=NOW + end)
        assert log.append_durable(data) == (end, end, -1, False)
        assert log.append(data).duplicate
        stamped = log.read(end)
        log_dir.abandon()
    with opened(damaged.path, **SETTINGS) as log_dir:
        log = log_dir.log("t", 0)
        assert log.read(end) == stamped
        assert log.log_end_offset == end + 1
        assert log_dir.report.cut_bytes == 0

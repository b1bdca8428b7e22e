"""One recorded life of the engine: a segment is damaged or deleted, the scrub marks it, and a
repair restores batches that were set aside. `judge` checks any disk after that.

    segment      0 .. 4   5 .. 9    10 .. 12 (active)
    damaged               6, 8      all is restored
                          6, 8      only 6 is restored: 9 moves in the new file
                          the file
                 1        6         one new file replaces two
                                    11
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from appliance._log import Log
from appliance.config import LogConfig
from appliance.data_dir.log_dir import LogDir
from appliance.errors import BatchCorrupt, OffsetInHole
from appliance.record import _batch, _batch_builder
from appliance.repair import partition_repair
from appliance.repair._scrub import SegmentScan

from .session import SMALL, STORAGE
from .trace import Recorder

Bases = tuple[int, ...]
BASES = (0, 5, 10)
END = 13
MAGIC_AT = 16


class Silent:
    """A fake of the ledger."""

    def note_act(self, damages: Any) -> None:
        list(damages)

    def open(self) -> list[Any]:
        return []


def batch_at(offset: int) -> bytes:
    """Its size depends on the offset, so that no stale batch fits by chance."""
    value = b"%d" % offset * (20 + offset)
    return _batch_builder.batch([(1_700_000_000_000 + offset, b"k", value)])


def config_of(_topic: str, _partition: int) -> LogConfig:
    return SMALL


def opened(root: Path) -> LogDir:
    return LogDir.open(root, config=STORAGE, log_config=config_of)


def flipped(root: Path, base: int, *offsets: int) -> None:
    with (root / "t-0" / f"{base:020d}.log").open("r+b", buffering=0) as file:
        infos = _batch.headers(os.pread(file.fileno(), 1 << 20, 0))
        for info in infos:
            if info.base_offset in offsets:
                os.pwrite(file.fileno(), b"\xff", info.position + MAGIC_AT)
        os.fsync(file.fileno())


def two_batches(root: Path) -> Bases:
    flipped(root, 5, 6, 8)
    return (5,)


def one_of_two(root: Path) -> Bases:
    flipped(root, 5, 6, 8)
    aside = kept_aside(root, 5)
    infos = _batch.headers(aside.read_bytes())
    os.truncate(aside, next(each.position for each in infos if each.base_offset == 8))
    return (5,)


def a_file(root: Path) -> Bases:
    os.unlink(root / "t-0" / f"{5:020d}.log")
    synced(root / "t-0")
    return (5,)


def two_segments(root: Path) -> Bases:
    flipped(root, 0, 1)
    flipped(root, 5, 6)
    with kept_aside(root, 0).open("ab") as file:
        file.write(kept_aside(root, 5).read_bytes())
    return (0, 5)


def in_the_active(root: Path) -> Bases:
    flipped(root, 10, 11)
    return (10,)


DAMAGES: dict[str, Callable[[Path], Bases]] = {  # the bases of the segments
    "two batches": two_batches,
    "two batches of which one is put back": one_of_two,
    "a file": a_file,
    "two segments": two_segments,
    "in the active segment": in_the_active,
}


def synced(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def live(root: Path, damage: str) -> None:
    recorder = Recorder()
    logs = opened(root)
    log = logs.create("t", 0, SMALL)
    for offset in range(END):
        if offset in BASES[1:]:
            log.roll()
        log.append(batch_at(offset))
    log.flush()
    logs.checkpoint()
    logs.rest(0)
    for base in BASES:
        keep_aside(root, base)
    bases = DAMAGES[damage](root)
    for base in bases:
        marked(log, base)
    lost = [offset for first, end in log.holes() for offset in range(first, end)]
    assert lost
    recorder.note({"marked": lost})
    file = str(kept_aside(root, bases[0]).relative_to(root))
    plan = partition_repair.plan_import(logs, log, file)
    partition_repair.put_back(logs, log, plan, Silent(), "ada")  # type: ignore[arg-type]
    back = [offset for span in plan.spans for offset in range(span.first_offset, span.end_offset)]
    assert back
    recorder.note({"put_back": back})
    recorder.kill()


def marked(log: Log, base: int) -> None:
    scan = SegmentScan(log, base)
    while scan.step(1 << 20):
        pass
    assert scan.settle()
    scan.mark()


def kept_aside(root: Path, base: int) -> Path:
    return root / "t-0" / f"{base:020d}.log.corrupt-1"


def keep_aside(root: Path, base: int) -> None:
    source = root / "t-0" / f"{base:020d}.log"
    with kept_aside(root, base).open("xb", buffering=0) as file:
        file.write(source.read_bytes())
        os.fsync(file.fileno())
    synced(source.parent)


def judge(root: Path, lost: list[int], back: list[int], is_put_back: bool) -> list[str]:
    """The faults of this disk after recovery: all batches of `back` are in the hole, or none."""
    wrong = []
    logs = opened(root)
    try:
        log = logs.log("t", 0)
        if log.log_end_offset != END:
            wrong.append(f"the log ends at {log.log_end_offset}")
        there = [offset for offset in range(END) if _is_there(log, offset, wrong)]
        before = [offset for offset in range(END) if offset not in lost]
        after = sorted([*before, *back])
        if there != after and (is_put_back or there != before):
            wrong.append(f"served: {there}")
    finally:
        logs.abandon()
    return wrong


def _is_there(log: Any, offset: int, wrong: list[str]) -> bool:
    try:
        data = log.read(offset, 1)
    except (OffsetInHole, BatchCorrupt) as error:
        if not isinstance(error, OffsetInHole):
            wrong.append(f"offset {offset} is not there, and no hole: {error}")
        return False
    info = _batch.headers(data)[0]
    rest = slice(MAGIC_AT, info.size)
    if info.base_offset != offset or data[rest] != batch_at(offset)[MAGIC_AT:]:
        wrong.append(f"other bytes at {offset}")
    return True


if __name__ == "__main__":
    live(Path(sys.argv[1]), sys.argv[2])

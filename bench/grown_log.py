"""What a log costs that has grown: one partition, at the engine, without a broker around it.

    python -m bench.grown_log fill|turn|kill|open FOLDER [GIGABYTES]

Each in a process of its own: `fill` makes the log, where there is none; `turn` opens it, appends,
and reads at places all over it, and prints what that took; `kill` appends and dies; `open` opens
and closes.

A log of 100 GB takes 7 GB of the disk. The engine writes its first segment; the others are copies
of that, under their own base offsets, which no batch's CRC covers. A batch is as large as producers
may send, and has as many records for its size as those that are appended later; all but the last
are empty, and the last is zeros. The pages with nothing else in them are left out of the files, and
read as the zeros that they are. The engine knows nothing of it: as it opens the log for the first
time it finds segments that nobody has told it of, and checks the CRC of every batch in them.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

from appliance._log import Log
from appliance.record import _build
from bench.core_path import LOG, READ_BYTES, RECORDS, TOPIC, batch_of, opened

ROOM = 4 << 30  # that stays free
FILLING_BYTES, FILLING_RECORDS = 1 << 20, 16 * RECORDS
KEPT_BYTES = 68 << 10  # of each such batch; smaller ones make more holes, and files slow to delete
INDEXES = ".index", ".timeindex"
FIRST = f"{0:020d}"
BATCHES = 400  # of one turn: 22 MB
READS = 200
KILLED_BATCHES = 300  # nobody has synced them


def filling() -> bytearray:
    """Behind the bytes that are kept there are zeros alone."""
    empty: list[tuple[int, None, bytes | None]] = [(0, None, None)] * (FILLING_RECORDS - 1)
    most = FILLING_BYTES - KEPT_BYTES
    rest = FILLING_BYTES - len(_build.batch([*empty, (0, None, bytes(most))]))
    batch = bytearray(_build.batch([*empty, (0, None, bytes(most + rest))]))
    if len(batch) != FILLING_BYTES or any(batch[KEPT_BYTES:]):
        raise ValueError(f"a batch of {len(batch):,} bytes, not {FILLING_BYTES:,}, or not of zeros")
    return batch


def fill(folder: Path, gigabytes: float, segment_bytes: int = LOG.segment_bytes) -> None:
    """To the next whole segment."""
    size = segment_bytes // FILLING_BYTES * FILLING_BYTES
    count = max(1, round(gigabytes * 10**9 / size))
    free = shutil.disk_usage(folder.parent).free
    needed = size + size // FILLING_BYTES * KEPT_BYTES * count + ROOM
    if free < needed:
        raise OSError(f"{folder} has {free:,} bytes free, {needed:,} are needed")
    log_dir = opened(folder)
    log, batch = log_dir.create(TOPIC, 0, LOG), filling()
    for _ in range(size // len(batch)):
        log.append_in_place(batch)
    each = log.log_end_offset
    log_dir.close()
    (first,) = folder.glob(f"*/{FIRST}.log")
    for number in range(1, count):
        copied(first, number * each)
    log_dir = opened(folder)
    end = log_dir.log(TOPIC, 0).log_end_offset
    log_dir.close()
    if end != count * each:
        raise RuntimeError(f"{folder} was opened with {end:,} records, not {count * each:,}")


def copied(first: Path, base_offset: int) -> None:
    """The indexes count from the base offset and stay as they are."""
    for suffix in INDEXES:
        shutil.copy(first.with_suffix(suffix), first.with_name(f"{base_offset:020d}{suffix}"))
    with first.open("rb") as old, first.with_name(f"{base_offset:020d}.log").open("xb") as new:
        size = os.fstat(old.fileno()).st_size
        os.ftruncate(new.fileno(), size)
        for position in range(0, size, FILLING_BYTES):
            kept = os.pread(old.fileno(), KEPT_BYTES, position)
            moved = struct.pack(">q", int.from_bytes(kept[:8], "big") + base_offset)
            os.pwrite(new.fileno(), moved + kept[8:], position)


def of_processor(job: Callable[[], None]) -> float:
    begin = time.process_time_ns()
    job()
    return time.process_time_ns() - begin


def append(log: Log) -> None:
    batch = batch_of(RECORDS)
    for _ in range(BATCHES):
        log.append_in_place(batch)


def read(log: Log) -> None:
    """At the same places each time."""
    places = random.Random(1)
    for _ in range(READS):
        log.read(places.randrange(log.log_end_offset - 10 * RECORDS), READ_BYTES)


def turn(folder: Path) -> None:
    begin, cpu = time.perf_counter(), time.process_time()
    log_dir = opened(folder)
    figures = {"open ms": (time.perf_counter() - begin) * 1000,
               "open cpu ms": (time.process_time() - cpu) * 1000}
    log = log_dir.log(TOPIC, 0)
    log.roll()  # where in a segment an append lands is no question of the log's size
    append(log)  # the first pages, and whatever is made once
    figures["append cpu ns/record"] = of_processor(lambda: append(log)) / BATCHES / RECORDS
    log.flush(600)
    records = READS * (READ_BYTES // (log.size / log.log_end_offset))
    read(log)  # into the page cache: of 1 GB more is there already than of 100
    figures["fetch cpu ns/record"] = of_processor(lambda: read(log)) / records
    log_dir.close()
    print(json.dumps(figures))


def kill(folder: Path) -> None:
    log = opened(folder).log(TOPIC, 0)
    batch = batch_of(RECORDS)
    for _ in range(KILLED_BATCHES):
        log.append_in_place(batch)
    os.kill(os.getpid(), signal.SIGKILL)


def open_again(folder: Path) -> None:
    begin, cpu = time.perf_counter(), time.process_time()
    log_dir = opened(folder)
    figures = {"open after kill ms": (time.perf_counter() - begin) * 1000,
               "open after kill cpu ms": (time.process_time() - cpu) * 1000}
    log_dir.close()
    print(json.dumps(figures))


def main() -> None:
    what, folder = sys.argv[1], Path(sys.argv[2])
    if what == "fill":
        if not folder.exists():
            fill(folder, float(sys.argv[3]))
    else:
        {"turn": turn, "kill": kill, "open": open_again}[what](folder)


if __name__ == "__main__":
    main()

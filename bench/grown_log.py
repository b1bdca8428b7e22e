"""The cost of a large log: one partition in the engine, without a broker.

    python -m bench.grown_log fill|turn|kill|open FOLDER [GIGABYTES]

Each step is a new process: `fill` creates the log if it is missing; `turn` opens the log, appends,
reads at offsets all over it, and prints the times; `kill` appends and kills itself; `open` opens
and closes the log.

A log of 100 GB takes 7 GB of disk. The engine writes the first segment; the others are copies with
their own base offsets, which no batch's CRC covers. A batch has the largest allowed size, and as
many records per byte as the later batches; all its records but the last are empty, and the last is
zeros. The copies are sparse files without the pages of zeros. The engine does not know this: at the
first open it sees segments that its journal lacks, and checks the CRC of every batch.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import statistics
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

from appliance._log import Log
from appliance.record import _batch_builder
from bench.instruction_paths import LOG, READ_BYTES, RECORDS, TOPIC, batch_of, opened

RESERVE = 4 << 30  # stays free
FILLING_BYTES, FILLING_RECORDS = 1 << 20, 16 * RECORDS
KEPT_BYTES = 68 << 10  # stored of each batch; with less there are more holes, and slow deletes
INDEXES = ".index", ".timeindex"
FIRST = f"{0:020d}"
BATCHES = 400  # 22 MB
READS = 200
TIMES = 5  # per turn, of which the median counts: one takes ten milliseconds
KILLED_BATCHES = 300  # unsynced


def filling() -> bytearray:
    """After the first KEPT_BYTES the batch has only zeros."""
    empty: list[tuple[int, None, bytes | None]] = [(0, None, None)] * (FILLING_RECORDS - 1)
    most = FILLING_BYTES - KEPT_BYTES
    rest = FILLING_BYTES - len(_batch_builder.batch([*empty, (0, None, bytes(most))]))
    batch = bytearray(_batch_builder.batch([*empty, (0, None, bytes(most + rest))]))
    if len(batch) != FILLING_BYTES or any(batch[KEPT_BYTES:]):
        raise ValueError(f"a batch of {len(batch):,} bytes, not {FILLING_BYTES:,}, or not of zeros")
    return batch


def fill(folder: Path, gigabytes: float, segment_bytes: int = LOG.segment_bytes) -> None:
    """Fills a whole number of segments."""
    size = segment_bytes // FILLING_BYTES * FILLING_BYTES
    count = max(1, round(gigabytes * 10**9 / size))
    free = shutil.disk_usage(folder.parent).free
    needed = size + size // FILLING_BYTES * KEPT_BYTES * count + RESERVE
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
    """Index entries are relative to the base offset, so the copies are equal."""
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
    took = []
    for _ in range(TIMES):
        begin = time.process_time_ns()
        job()
        took.append(time.process_time_ns() - begin)
    return statistics.median(took)


def append(log: Log) -> None:
    batch = batch_of(RECORDS)
    for _ in range(BATCHES):
        log.append_in_place(batch)


def read(log: Log) -> None:
    """Reads at the same random offsets each time."""
    chance = random.Random(1)
    for _ in range(READS):
        log.read(chance.randrange(log.log_end_offset - 10 * RECORDS), READ_BYTES)


def turn(folder: Path) -> None:
    begin, cpu = time.perf_counter(), time.process_time()
    log_dir = opened(folder)
    figures = {"open ms": (time.perf_counter() - begin) * 1000,
               "open cpu ms": (time.process_time() - cpu) * 1000}
    log = log_dir.log(TOPIC, 0)
    log.roll()  # an append's position in a segment does not depend on the log's size
    append(log)  # warms up: the first pages and allocations
    figures["append cpu ns/record"] = of_processor(lambda: append(log)) / BATCHES / RECORDS
    log.flush(600)
    records = READS * (READ_BYTES // (log.size / log.log_end_offset))
    read(log)  # into the page cache, which has more of 1 GB than of 100 GB
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

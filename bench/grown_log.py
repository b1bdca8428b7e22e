"""What a log costs that has grown: one partition, at the engine, without a broker around it.

    python -m bench.grown_log fill|turn|kill|open FOLDER [GIGABYTES]

Each in a process of its own: `turn` opens the log, appends, and reads at places all over it, and
prints what that took; `kill` appends and dies; `open` opens and closes.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from appliance._engine import Log
from bench.core_path import LOG, READ_BYTES, RECORDS, TOPIC, batch_of, opened

ROOM = 4 << 30  # that stays free
BATCHES = 400  # of one turn: 22 MB
READS = 200
KILLED_BATCHES = 300  # nobody has synced them
FLUSHED_BYTES = 1 << 30  # else the disk has nothing to do until the last of them


def fill(folder: Path, gigabytes: float) -> None:
    """Until it is that large."""
    log_dir = opened(folder)
    log = log_dir.log(TOPIC, 0) if log_dir.holds(TOPIC, 0) else log_dir.create(TOPIC, 0, LOG)
    missing = round(gigabytes * 10**9) - log.size
    free = shutil.disk_usage(folder).free
    if free < missing + ROOM:
        raise OSError(f"{folder} has {free:,} bytes free, {missing + ROOM:,} are needed")
    batch = batch_of(RECORDS)
    each = FLUSHED_BYTES // len(batch)
    for number in range(max(missing, 0) // len(batch)):
        log.append_in_place(batch)
        if number % each == each - 1:
            log.flush(600)
    log_dir.close()


def of_processor(job: Callable[[], None]) -> float:
    begin = time.process_time_ns()
    job()
    return time.process_time_ns() - begin


def append(log: Log) -> None:
    batch = batch_of(RECORDS)
    for _ in range(BATCHES):
        log.append_in_place(batch)


def read(log: Log, places: random.Random) -> None:
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
    places = random.Random(1)
    records = READS * (READ_BYTES // (log.size / log.log_end_offset))
    figures["fetch cpu ns/record"] = of_processor(lambda: read(log, places)) / records
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
        fill(folder, float(sys.argv[3]))
    else:
        {"turn": turn, "kill": kill, "open": open_again}[what](folder)


if __name__ == "__main__":
    main()

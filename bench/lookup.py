"""Index lookup and read: whether their cost grows with the number of segments.

    python -m bench.lookup --dir /somewhere

The same number of batches in 1, 10, 100 and 1,000 segments. Then random reads of one batch by
offset, and random searches by timestamp, in rounds that take turns over all logs; the figure is the
median round's time per call, and its ratio to the log with one segment. "warm" has every file and
index open; the first touch of a segment opens its files once.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from appliance._log import Log
from appliance.config import LogConfig
from appliance.data_dir.log_dir import LogDir
from appliance.record import _batch_builder
from appliance.record._records import Record

SEGMENTS = (1, 10, 100, 1000)
BATCHES = 20_000
ROUNDS = 7
CALLS = 4000


def fill(log_dir: LogDir, segments: int) -> Log:
    log = log_dir.create(f"segments-{segments}", 0, LogConfig())
    now_ms = int(time.time() * 1000) - BATCHES
    for i in range(BATCHES):
        if i and i % (BATCHES // segments) == 0:
            log.roll()
        log.append(_batch_builder.batch([Record(now_ms + i, b"key", b"v" * 900)]))
    log.flush()
    return log


def reads(log: Log, chance: random.Random) -> float:
    offsets = [chance.randrange(BATCHES) for _ in range(CALLS)]
    begin = time.perf_counter()
    for offset in offsets:
        log.read(offset, 1)
    return (time.perf_counter() - begin) / CALLS * 1e6


def searches(log: Log, chance: random.Random) -> float:
    first = int(log.segments()[0].largest_timestamp or 0) - BATCHES // len(log.segments())
    times = [first + chance.randrange(BATCHES) for _ in range(CALLS)]
    begin = time.perf_counter()
    for timestamp in times:
        log.batch_for_timestamp(timestamp)
    return (time.perf_counter() - begin) / CALLS * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, default=None)
    root = Path(tempfile.mkdtemp(dir=parser.parse_args().dir))
    log_dir = LogDir.open(root)
    logs = {segments: fill(log_dir, segments) for segments in SEGMENTS}
    chance = random.Random(1)
    for name, job in (("read by offset", reads), ("search by time", searches)):
        took: dict[int, list[float]] = {segments: [] for segments in SEGMENTS}
        for turn in range(ROUNDS + 1):
            for segments, log in logs.items():
                seconds = job(log, chance)
                if turn:  # the first turn opens the files
                    took[segments].append(seconds)
        base = statistics.median(took[1])
        for segments, each in took.items():
            middle = statistics.median(each)
            print(f"{name}, {segments:5} segments: {middle:6.2f} us "
                  f"({min(each):.2f}-{max(each):.2f}), {middle / base:.2f} x one segment")
    log_dir.close()
    shutil.rmtree(root)


if __name__ == "__main__":
    main()

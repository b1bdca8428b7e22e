"""Durable appends per second: group commit against one fdatasync per append.

`python bench/commit.py [DIR]`. Each round appends IN_FLIGHT batches of 1 KiB to every partition, as
clients with their default of five requests in flight do, then waits until all are durable. For
comparison a loop appends the same batches to as many files and syncs each before the next. A B A B.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from appliance.config import LogConfig, StorageConfig
from appliance.data_dir.log_dir import LogDir
from appliance.record import _batch_builder

IN_FLIGHT = 5
SECONDS = 1.5
ROUNDS = 5
PARTITIONS = (1, 16, 64, 256)


def by_loop(directory: Path, partitions: int, batch: bytes) -> float:
    files = [os.open(directory / f"loop-{i}", os.O_RDWR | os.O_CREAT, 0o644)
             for i in range(partitions)]
    done, ends = 0, [0] * partitions
    begin = time.perf_counter()
    while time.perf_counter() - begin < SECONDS:
        i = done % partitions
        os.pwrite(files[i], batch, ends[i])
        os.fdatasync(files[i])
        ends[i] += len(batch)
        done += 1
    rate = done / (time.perf_counter() - begin)
    for i, fd in enumerate(files):
        os.close(fd)
        (directory / f"loop-{i}").unlink()
    return rate


def by_group(directory: Path, partitions: int, batch: bytes, sync: str) -> tuple[float, float]:
    config = StorageConfig(low_water_bytes=0, reserve_bytes=0, sync=sync)
    log_dir = LogDir.open(directory / "group", config)
    settings = LogConfig(flush_ms=600_000, flush_messages=1 << 40)
    logs = [log_dir.create("bench", i, settings) for i in range(partitions)]
    done, rounds = 0, []
    begin = time.perf_counter()
    while time.perf_counter() - begin < SECONDS:
        at = time.perf_counter()
        for log in logs:
            for _ in range(IN_FLIGHT):
                log.append(batch)
        for log in logs:
            log.ask_commit()
        for log in logs:
            log.flush()
        done += partitions * IN_FLIGHT
        rounds.append(time.perf_counter() - at)
    rate = done / (time.perf_counter() - begin)
    for i in range(partitions):
        log_dir.delete("bench", i)
    log_dir.close()
    return rate, statistics.median(rounds) * 1000


def main() -> None:
    parent = sys.argv[1] if len(sys.argv) > 1 else None
    batch = _batch_builder.batch([(0, None, os.urandom(900))])
    with tempfile.TemporaryDirectory(dir=parent) as name:
        directory = Path(name)
        for partitions in PARTITIONS:
            loop: list[float] = []
            group: dict[str, list[tuple[float,
                                        float]]] = {"auto": [], "files": [], "filesystem": []}
            for _ in range(ROUNDS):
                loop.append(by_loop(directory, partitions, batch))
                for sync, rates in group.items():
                    rates.append(by_group(directory, partitions, batch, sync))
            base = statistics.median(loop)
            print(f"{partitions:4} partitions: fdatasync loop {base:8,.0f}/s")
            for sync, rates in group.items():
                rate = statistics.median(r for r, _ in rates)
                low, high = min(r for r, _ in rates), max(r for r, _ in rates)
                print(f"     commit.sync={sync:10} {rate:10,.0f}/s ({low:,.0f} to {high:,.0f}), "
                      f"{rate / base:5.1f} x, "
                      f"commit {statistics.median(m for _, m in rates):.2f} ms")


if __name__ == "__main__":
    main()

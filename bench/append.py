"""Appends 64 KiB batches (check, stamp, write), compared with a bare pwrite loop of the same sizes.

A B A B on the same file system, fresh files each time. `python bench/append.py [DIR]`
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from appliance.config import LogConfig, StorageConfig
from appliance.data_dir.log_dir import LogDir
from appliance.record import _batch_builder

BATCH_BYTES = 65536
BATCHES = 8192  # 512 MiB per run, below the dirty limit of an ordinary machine
ROUNDS = 7


def batch_of(record_bytes: int) -> bytes:
    value = os.urandom(record_bytes)
    count = 1
    while len(_batch_builder.batch([(0, None, value)] * (count + 1))) <= BATCH_BYTES:
        count += 1
    return _batch_builder.batch([(0, None, value)] * count)


def by_pwrite(path: Path, batch: bytes) -> float:
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    begin = time.perf_counter()
    for i in range(BATCHES):
        os.pwrite(fd, batch, i * len(batch))
    took = time.perf_counter() - begin
    os.close(fd)
    return took


def by_log(path: Path, batch: bytes, write_behind: int) -> float:
    config = StorageConfig(low_water_bytes=0, reserve_bytes=0, write_behind_bytes=write_behind,
                           checkpoint_interval_ms=60_000)
    log_dir = LogDir.open(path, config)
    log = log_dir.create("bench", 0, LogConfig(flush_ms=600_000, flush_messages=1 << 40))
    buffer = bytearray(batch)
    begin = time.perf_counter()
    for _ in range(BATCHES):
        log.append_in_place(buffer)
    took = time.perf_counter() - begin
    log_dir.abandon()
    return took


def compare(directory: Path, record_bytes: int, write_behind: int) -> None:
    batch = batch_of(record_bytes)
    bare, ours = [], []
    for _ in range(ROUNDS):
        for take, into in ((by_pwrite, bare), (by_log, ours)):
            path = directory / "run"
            arguments = (path, batch) if take is by_pwrite else (path, batch, write_behind)
            into.append(take(*arguments))  # type: ignore[operator]
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            os.sync()
    size = len(batch) * BATCHES / 1e9
    ratios = [b / o for b, o in zip(bare, ours, strict=True)]
    print(f"{record_bytes:6} B records, write-behind {write_behind >> 20} MiB: "
          f"pwrite {size / statistics.median(bare):.2f} GB/s, "
          f"append {size / statistics.median(ours):.2f} GB/s, "
          f"ratio {statistics.median(ratios):.0%} ({min(ratios):.0%} to {max(ratios):.0%})")


def main() -> None:
    parent = sys.argv[1] if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory(dir=parent) as directory:
        for record_bytes in (100, 1000, 10_000):
            compare(Path(directory), record_bytes, 0)
        compare(Path(directory), 1000, 1 << 20)


if __name__ == "__main__":
    main()

"""The cost of noted durable offsets (`watermarks`) per commit: without, with, and with a sync each.

`python bench/watermark_cost.py [DIR]`. Each round appends IN_FLIGHT batches of 1 KiB to every
partition and waits until all are durable. "synced" adds the cost of a synced journal record: one
write and one fdatasync after every round. A B C A B C, because the disk has other load.
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
SECONDS = 1.0
ROUNDS = 5
PARTITIONS = (1, 16, 256)
VARIANTS = ("without", "with", "synced")


def run(directory: Path, partitions: int, batch: bytes, variant: str) -> float:
    """Rounds per second."""
    directory.mkdir()
    if variant != "with":
        (directory / "watermarks").mkdir()  # a directory of this name prevents notes
    log_dir = LogDir.open(directory, StorageConfig(low_water_bytes=0, reserve_bytes=0))
    settings = LogConfig(flush_ms=600_000, flush_messages=1 << 40)
    logs = log_dir.create_all("bench", range(partitions), settings)
    record = os.open(directory / "record", os.O_RDWR | os.O_CREAT, 0o644)
    os.pwrite(record, bytes(1 << 20), 0)
    os.fsync(record)
    done = 0
    begin = time.perf_counter()
    while time.perf_counter() - begin < SECONDS:
        for log in logs:
            for _ in range(IN_FLIGHT):
                log.append(batch)
        for log in logs:
            log.ask_commit()
        for log in logs:
            log.flush()
        if variant == "synced":
            os.pwrite(record, bytes(64), 64 * (done % 1000))
            os.fdatasync(record)
        done += 1
    rate = done / (time.perf_counter() - begin)
    os.close(record)
    log_dir.close()
    return rate


def main() -> None:
    parent = sys.argv[1] if len(sys.argv) > 1 else None
    batch = _batch_builder.batch([(0, None, os.urandom(900))])
    with tempfile.TemporaryDirectory(dir=parent) as name:
        for partitions in PARTITIONS:
            rates: dict[str, list[float]] = {each: [] for each in VARIANTS}
            for turn in range(ROUNDS):
                for variant in VARIANTS:
                    folder = Path(name) / f"{variant}-{partitions}-{turn}"
                    rates[variant].append(run(folder, partitions, batch, variant))
            for variant, measured in rates.items():
                print(f"{partitions:4} logs, {variant:8}{statistics.median(measured):10,.0f} "
                      f"commits/s  ({min(measured):,.0f} to {max(measured):,.0f})", flush=True)


if __name__ == "__main__":
    main()

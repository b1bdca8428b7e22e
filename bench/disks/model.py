"""The model beside what such disks are known to do, by fio on the bare device.

`python -m bench.disks model [KIND...]`. Rates are in the disk's own time.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from bench.disks.disk import Kind, SimulatedDisk, Told, apart

MEGABYTES = 64 << 10  # sparse
SECONDS = 2.0  # of the disk
JOBS = {
    "linear read, MB/s": ("read", "1M", 4, ()),
    "linear write, MB/s": ("write", "1M", 16, ()),
    "random read 4 KiB, one at a time, 1/s": ("randread", "4k", 1, ()),
    "random read 4 KiB, 32 at a time, 1/s": ("randread", "4k", 32, ()),
    "random write 4 KiB, 32 at a time, 1/s": ("randwrite", "4k", 32, ()),
    "random write 4 KiB, each synced, 1/s": ("randwrite", "4k", 1, ("--fsync=1",)),
    "appended 4 KiB, each synced, 1/s": ("write", "4k", 1, ("--fsync=1",)),
}


def fio(device: str, job: tuple[str, str, int, tuple[str, ...]], seconds: float) -> Told:
    way, block, depth, more = job
    words = ["fio", "--name=job", f"--filename={device}", f"--rw={way}", f"--bs={block}",
             f"--iodepth={depth}", "--ioengine=libaio", "--direct=1", "--time_based",
             f"--runtime={seconds:g}", "--output-format=json", "--randseed=1", *more]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    found: Told = json.loads(done.stdout)["jobs"][0]["read" if "read" in way else "write"]
    return found


def flush(device: str) -> float:
    """The next job finds the disk's cache empty. What is left in it belongs to the rate."""
    began = time.monotonic()
    opened = os.open(device, os.O_RDWR)
    os.fsync(opened)
    os.close(opened)
    return time.monotonic() - began


def figures(kind: Kind, slower: int, rounds: int, place: Path | None
            ) -> Iterator[tuple[str, float]]:
    """Each job in each round, on the same device. What was cached is written between them."""
    with SimulatedDisk(kind, MEGABYTES, slower, place) as disk:
        for _ in range(rounds):
            for name, job in JOBS.items():
                before = disk.told()
                found = fio(disk.device, job, SECONDS * slower)
                took = found["runtime"] / 1000 + flush(disk.device)
                yield name, found["io_bytes"] / took / (1e6 if "MB/s" in name else 4096) * slower
                if "linear" in name:
                    yield f"{name[:-6]} share at the platter", linear(apart(before, disk.told()))


def linear(told: Told) -> float:
    moves = told["platter_reads"], told["platter_writes"]
    whole = sum(each["bytes"] for each in moves)
    return float(sum(each["linear_bytes"] for each in moves) / max(1, whole))


def collected(pairs: Iterable[tuple[str, float]]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found

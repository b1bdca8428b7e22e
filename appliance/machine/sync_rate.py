"""How fast the disk says that a rewritten block is durable, and whether that can be true.

A disk with platters writes one place again when it comes round: once a turn. So rewrites of one
block with a sync after each tell whether the sync waits for the platters. Whoever is faster than
the fastest platters has a cache that confirms. With a battery or flash behind it that is right, and
from here nobody can tell it from a lie.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from appliance.machine import nameless_file
from appliance.machine.disks import Device

SAMPLES = 16
SECONDS_MAX = 3.0  # a disk that is busy with others takes longer for each
BLOCK = 4096

# Platters turn 15,000 times a minute at most: 4 ms, and the block comes round in half of it at the
# earliest, on average.
PLATTERS_MS_MIN = 2.0
USUAL_TURNS = 7200
# Faster than any flash without a capacitor: see cli/bench.py.
FLASH_MS_MIN = 0.02
IN_MEMORY = ("tmpfs", "ramfs")


class SyncRate(NamedTuple):
    samples: int
    median_ms: float
    slowest_ms: float

    @property
    def per_s(self) -> float:
        return 1000 / self.median_ms if self.median_ms else 0.0


def measure(directory: Path, samples: int = SAMPLES, seconds: float = SECONDS_MAX) -> SyncRate:
    """Rewrites one block of a file without a name. OSError: it cannot be written."""
    fd = nameless_file.opened(directory)
    try:
        os.pwrite(fd, bytes(BLOCK), 0)
        os.fsync(fd)  # the block has its place now: no later sync pays for that
        took: list[float] = []
        end = time.perf_counter() + seconds
        while len(took) < samples and (not took or time.perf_counter() < end):
            begin = time.perf_counter()
            os.pwrite(fd, os.urandom(BLOCK), 0)
            os.fdatasync(fd)
            took.append((time.perf_counter() - begin) * 1000)
    finally:
        os.close(fd)
    return SyncRate(len(took), median(took), max(took))


def is_on_platters(devices: Sequence[Device]) -> bool:
    """All of it, with nothing between them and us."""
    disks = [each for each in devices if each.is_disk]
    return bool(disks) and all(each.is_seen and each.is_rotating for each in disks)


def doubt(rate: SyncRate, devices: Sequence[Device]) -> str:
    """Why a sync is too fast to be true; "": it is not, or what is below is not seen."""
    if not is_on_platters(devices) or rate.median_ms >= PLATTERS_MS_MIN:
        return ""
    names = ", ".join(sorted(each.name for each in devices if each.is_disk))
    return (
        f"a sync takes {rate.median_ms:.2f} ms on platters ({names}), {rate.per_s:.0f} a second: "
        f"at {USUAL_TURNS} turns a minute one place comes round {USUAL_TURNS / 60:.0f} times. The "
        "cache confirms what is not on the disk, and a power cut takes it"
    )

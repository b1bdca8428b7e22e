"""The blows by which `torture.py` stops a broker, again and again.

    kill         SIGKILL; the disk keeps what the kernel has
    power cut    the disk stops, the broker dies, and the disk has a random part of the unflushed
                 writes; the file system is mounted again
    full disk    another file takes the last byte, the broker is killed, and starts with 0 bytes
                 free; then there is free space again
"""

from __future__ import annotations

import json
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from tests.crash.bad_disk import bad_disk
from tests.crash.full_disk import fill
from tests.crash.loop_disk import LoopDisk
from tests.support.serving import Serving

FULL_S = 1.0  # the broker serves with a full disk for this time
REFUSED_S = 20.0  # until health reports it: it checks free space once a second
DISK_MEGABYTES = 96


def health(serving: Serving) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"http://{serving.admin}/healthz", timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
    except urllib.error.HTTPError as refused:
        found = json.load(refused)
    return found


class Blow(Protocol):
    data: Path  # the folder of the broker's data
    settings: Mapping[str, object]  # of the broker

    def strike(self, serving: Serving) -> None:
        """Returns when the broker is dead."""
        ...

    def relieve(self, serving: Serving) -> None:
        """Runs after the next start."""
        ...


class Kill:
    def __init__(self, data: Path) -> None:
        self.data = data
        self.settings: Mapping[str, object] = {}

    def strike(self, serving: Serving) -> None:
        serving.stop(signal.SIGKILL)

    def relieve(self, serving: Serving) -> None:
        return


class PowerCut(Kill):
    def __init__(self, disk: Any, seed: int) -> None:
        super().__init__(disk.root / "data")
        self._disk = disk
        self._seed = seed * 1_000_000

    def strike(self, serving: Serving) -> None:
        # The disk dies before the broker, so that no later sync succeeds.
        self._disk.die()
        super().strike(serving)
        self._seed += 1
        self._disk.cut_the_power(self._seed)


class FullDisk(Kill):
    def __init__(self, disk: LoopDisk) -> None:
        super().__init__(disk.root / "data")
        # The reserve has space for a new journal and the other writes of a start.
        self.settings = {"storage.reserve.bytes": 8 << 20, "storage.low.water.bytes": 16 << 20}
        self._disk = disk
        self._neighbour = disk.root / "neighbour"

    def strike(self, serving: Serving) -> None:
        fill(self._neighbour)
        self._await_refusal(serving)
        time.sleep(FULL_S)
        super().strike(serving)
        fill(self._neighbour)
        assert self._disk.free_bytes() == 0

    def relieve(self, serving: Serving) -> None:
        self._await_refusal(serving)
        self._neighbour.unlink()

    def _await_refusal(self, serving: Serving) -> None:
        deadline = time.monotonic() + REFUSED_S
        while "the disk is full" not in str(health(serving)["reasons"]):
            assert time.monotonic() < deadline, health(serving)
            time.sleep(0.05)


@contextmanager
def kill(folder: Path, _: int) -> Iterator[Blow]:
    yield Kill(folder / "data")


@contextmanager
def power_cut_of_ext4(folder: Path, seed: int) -> Iterator[Blow]:
    with bad_disk(folder, "ext4") as disk:
        yield PowerCut(disk, seed)


@contextmanager
def power_cut_of_xfs(folder: Path, seed: int) -> Iterator[Blow]:
    with bad_disk(folder, "xfs") as disk:
        yield PowerCut(disk, seed)


@contextmanager
def full_disk(folder: Path, _: int) -> Iterator[Blow]:
    with LoopDisk(folder, DISK_MEGABYTES) as disk:
        yield FullDisk(disk)


BLOWS = {
    "kill": kill,
    "power-cut-ext4": power_cut_of_ext4,
    "power-cut-xfs": power_cut_of_xfs,
    "full-disk": full_disk,
}

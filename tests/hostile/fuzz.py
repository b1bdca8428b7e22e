"""Sends invalid and unusual requests to a broker for a given time, and reports faults.

    python -m tests.hostile.fuzz [--minutes 30] [--seed 1] [--plain]

The broker is built with the address sanitizer (`tests/sanitizers.py`), or with --plain as it is.
Frames are of four kinds (`generator.py`): requests of every API and version that are valid except
for up to three fields; captured requests of clients with changed bytes; Produce with wrong batches
under a right checksum; and noise. Meanwhile a well-behaved client must get its responses. Every few
minutes the broker stops and starts on its data: an input that prevents a start would be worse than
any crash. Exits with 1 after any fault. A seed repeats the same frames.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import sys
import tempfile
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path

from appliance.protocol import API
from tests import sanitizers
from tests.hostile.conftest import GROWTH_MAX, MIB, SETTINGS
from tests.hostile.generator import (
    Ground,
    cleared,
    framed,
    golden,
    ground,
    hostile_batch,
    hostile_request,
    mutated,
)
from tests.hostile.witness import Witness
from tests.support.serving import Serving
from tests.support.wire_client import WireClient, frame_of, produce_frame

ROUND_S = 300.0  # then the broker starts again
FRAMES_AT_ONCE = 12
CONNECTIONS = 16  # at a time
KINDS = {"request": 70, "mutation": 15, "batch": 12, "noise": 3}  # how often
PARTITIONS_MAX = 10_000  # more than a storm of five minutes creates
ALTER_CLIENT_QUOTAS = 49  # a real quota may delay all clients, with the witness
# The sanitizer keeps freed memory for a while and puts red zones around used memory.
SANITIZED_MAX = 2048 * MIB


@dataclass
class Storm:
    """Frames from one seed, and their results."""

    seed: int
    frames: Counter[str] = field(default_factory=Counter)  # by kind
    requests: Counter[tuple[str, int]] = field(default_factory=Counter)  # by API and version
    answers: int = 0
    closed: int = 0

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        held_back = ALTER_CLIENT_QUOTAS.to_bytes(2, "big")
        self._real = [each for each in golden() if not each.startswith(held_back)]

    def blow(self, address: tuple[str, int], about: Ground, seconds: float, source: str) -> None:
        """Each connection gets frames of one kind, because an invalid frame ends it. Responses are
        read after several more connections have started: some requests have none, and some wait."""
        end, begun = time.monotonic() + seconds, deque[WireClient]()
        while time.monotonic() < end:
            kind = self._chance.choices(list(KINDS), list(KINDS.values()))[0]
            count = self._chance.randint(1, FRAMES_AT_ONCE)
            octets = b"".join(self._frame(kind, about) for _ in range(count))
            with contextlib.suppress(OSError):
                client = WireClient(address, 1.0, source)
                begun.append(client)
                client.socket.sendall(octets)
            if len(begun) > CONNECTIONS:
                self._take(begun.popleft())
        for each in begun:
            self._take(each)

    def _take(self, client: WireClient) -> None:
        client.socket.settimeout(0.01)
        with client:
            try:
                while True:
                    client.receive()
                    self.answers += 1
            except TimeoutError:
                return
            except (EOFError, OSError):
                self.closed += 1

    def _frame(self, kind: str, about: Ground) -> bytes:
        self.frames[kind] += 1
        if kind == "request":
            key, version, asked = hostile_request(about, self._chance)
            self.requests[API[key].name, version] += 1
            return framed(frame_of(asked, key, version))
        if kind == "mutation":
            return framed(mutated(self._chance.choice(self._real), self._chance))
        if kind == "batch":
            self.requests["Produce", 9] += 1
            acks = self._chance.choice([0, 1, -1])
            return produce_frame(hostile_batch(self._chance), acks=acks, topic=about.topic)
        return self._chance.randbytes(self._chance.randint(1, 300))

    def told(self) -> str:
        apis = {name for name, _ in self.requests}
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in self.frames.items())
        return (
            f"seed {self.seed}: {sum(self.frames.values()):,} frames ({kinds}); {len(apis)} APIs "
            f"in {len(self.requests)} versions; {self.answers:,} answers, {self.closed:,} "
            "connections closed"
        )


@dataclass
class Run:
    folder: Path
    environment: dict[str, str]
    memory_max: int
    storm: Storm
    package: Path | None = None  # where the build is
    faults: list[str] = field(default_factory=list)

    def round(self, seconds: float, number: int) -> None:
        settings = {**SETTINGS, "max.partitions.total": PARTITIONS_MAX}
        broker = Serving(self.folder, environment=self.environment, package=self.package,
                         **settings)  # fmt: skip
        try:
            self._blow(broker, seconds, number)
        finally:
            code = broker.stop()
        if code:
            self.faults.append(f"the broker ended with {code}")
        if "Traceback" in broker.log:
            self.faults.append(f"not foreseen: {broker.log.partition('Traceback')[2][:3000]}")

    def _blow(self, broker: Serving, seconds: float, number: int) -> None:
        cleared(broker.kafka)
        about = ground(broker.kafka, f"ground-{number}")
        witness = Witness(broker.kafka, f"witness-{number}")
        end = time.monotonic() + seconds
        peak = 0
        try:
            while time.monotonic() < end and broker.process.poll() is None:
                self.storm.blow(broker.kafka, about, min(2.0, seconds), "127.0.9.9")
                peak = max(peak, broker.peak_bytes if broker.process.poll() is None else 0)
                witness.wait()
        except AssertionError as fault:
            self.faults.append(f"the witness: {fault}")
        witness.close()
        self.faults += witness.faults
        if peak > self.memory_max:
            self.faults.append(f"{peak:,} bytes of memory, wanted at most {self.memory_max:,}")
        slowest = {kind: round(took, 3) for kind, took in witness.slowest.items()}
        said = f"round {number}: at most {peak // MIB} MiB; witness: {witness.answers} answers, "
        print(f"{said}slowest {slowest} s\n  {self.storm.told()}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plain", action="store_true", help="the broker as it is built now")
    parser.add_argument("--built", action="store_true", help="the sanitized build that is there")
    given = parser.parse_args()
    sanitizer = sanitizers.SANITIZERS["address"]
    environment: dict[str, str] = {}
    if not given.plain:
        if not given.built:
            sanitizers.build(sanitizer)
        environment = sanitizers.environment_of(sanitizer)
        environment.pop("APPLIANCE_TESTS_SLOW")  # a variable of tests, not a setting
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    most = GROWTH_MAX + 300 * MIB if given.plain else SANITIZED_MAX
    package = None if given.plain else sanitizer.folder
    run = Run(folder, environment, most, Storm(given.seed), package)
    left, number = given.minutes * 60, 0
    while left > 0 and not run.faults:
        number += 1
        run.round(min(left, ROUND_S), number)
        left -= ROUND_S
    run.faults += [] if given.plain else sanitizers.reports(sanitizer)
    for each in run.faults:
        print(each)
    print(f"{len(run.faults)} faults", *([f"in {folder}"] if run.faults else []))
    if not run.faults:
        shutil.rmtree(folder)
    return int(bool(run.faults))


if __name__ == "__main__":
    sys.exit(main())

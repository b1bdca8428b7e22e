"""Sends invalid and unusual requests to a broker for a given time, and reports faults.

    python -m tests.hostile.fuzz [--minutes 30] [--seed 1] [--plain] [--scene open]

A scene is a listener, and who storms it: `open` and `tls` have no login; `before` has one that
nobody gets through, and gets hostile logins as well; `few` and `many` are users that have logged in
and may read one topic, or do everything. `all` is one scene after the other.

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
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
from tests.hostile.login_frames import half_a_login, hello, hostile_login
from tests.hostile.witness import Witness
from tests.support import doors
from tests.support.certificates import Authority
from tests.support.doors import Door, make_people
from tests.support.serving import Serving
from tests.support.tls_client import trusting
from tests.support.wire_client import WireClient, frame_of, produce_frame

ROUND_S = 300.0  # then the broker starts again
FRAMES_AT_ONCE = 12
CONNECTIONS = 16  # at a time
KINDS = {"request": 70, "mutation": 15, "batch": 12, "noise": 3}  # how often
PARTITIONS_MAX = 10_000  # more than a storm of five minutes creates
ALTER_CLIENT_QUOTAS = 49  # a real quota may delay all clients, with the witness
# The sanitizer keeps freed memory for a while and puts red zones around used memory.
SANITIZED_MAX = 2048 * MIB


SOURCE = "127.0.9.9"
SOURCES = 200  # from which logins fail: an address may fail so often
ADMIN, FEW, MANY = "admin", "few", "many"
EVERYTHING = 2  # of the operations
SASL = {
    "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256,PLAIN,OAUTHBEARER",
    "sasl.secrets.without.encryption": "true",
    "sasl.oauthbearer.jwks.endpoint.url": "file:///dev/null",
    "sasl.oauthbearer.expected.issuer": "https://id.example",
    "sasl.oauthbearer.expected.audience": "kafka",
}


@dataclass(frozen=True)
class Scene:
    protocol: str = "PLAINTEXT"
    user: str = ""  # as whom the storm logs in
    kinds: Mapping[str, int] = field(default_factory=lambda: KINDS)

    @property
    def has_logins(self) -> bool:
        return self.protocol.startswith("SASL")

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    def settings(self, authority: Authority | None) -> dict[str, Any]:
        own = SASL if self.has_logins else {}
        if authority is None:
            return {**SETTINGS, **own}
        return {**SETTINGS, **own, "ssl.keystore.location": authority.issue("server").both}


SCENES = {
    "open": Scene(),
    "tls": Scene("SSL", kinds={**KINDS, "hello": 15}),
    "before": Scene("SASL_PLAINTEXT", kinds={"login": 50, "proof": 15, **KINDS, "request": 15}),
    "few": Scene("SASL_PLAINTEXT", FEW, {**KINDS, "login": 5}),
    "many": Scene("SASL_PLAINTEXT", MANY, {**KINDS, "login": 5}),
}


@dataclass
class Storm:
    """Frames from one seed, and their results."""

    seed: int
    scene: Scene = SCENES["open"]
    frames: Counter[str] = field(default_factory=Counter)  # by kind
    requests: Counter[tuple[str, int]] = field(default_factory=Counter)  # by API and version
    answers: int = 0
    closed: int = 0

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        held_back = ALTER_CLIENT_QUOTAS.to_bytes(2, "big")
        self._real = [each for each in golden() if not each.startswith(held_back)]
        self._hello = hello()

    def blow(self, door: Door, about: Ground, seconds: float, source: str) -> None:
        """Each connection gets frames of one kind, because an invalid frame ends it. Responses are
        read after several more connections have started: some requests have none, and some wait."""
        end, begun = time.monotonic() + seconds, deque[WireClient]()
        while time.monotonic() < end:
            with contextlib.suppress(OSError, EOFError):
                begun.append(self._begun(door, about, source))
            if len(begun) > CONNECTIONS:
                self._take(begun.popleft())
        for each in begun:
            self._take(each)

    def _begun(self, door: Door, about: Ground, source: str) -> WireClient:
        """A connection that has been sent its frames."""
        kinds = self.scene.kinds
        kind = self._chance.choices(list(kinds), list(kinds.values()))[0]
        if kind == "hello":
            self.frames[kind] += 1
            client = Door(door.address).open(1.0, source)
            octets = mutated(self._hello, self._chance)
        else:
            if kind in ("login", "proof"):
                source = f"127.0.10.{self._chance.randint(1, SOURCES)}"
            client = door.open(1.0, source)
            octets = b""
        try:
            client.socket.sendall(octets or self._octets(kind, about, client))
        except (OSError, EOFError):
            client.socket.close()
            raise
        return client

    def _octets(self, kind: str, about: Ground, client: WireClient) -> bytes:
        if kind in ("login", "proof"):
            self.frames[kind] += 1
            is_known = self._chance.random() < 0.5
            if kind == "login":
                return hostile_login(self._chance)
            return half_a_login(client, ADMIN if is_known else "nobody", self._chance)
        count = self._chance.randint(1, FRAMES_AT_ONCE)
        return b"".join(self._frame(kind, about) for _ in range(count))

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
        scene = self.storm.scene
        authority = Authority(self.folder / "authority") if scene.has_tls else None
        if scene.has_logins and number == 1:
            make_people(self.folder / "data", admin="admin", few="none", many="none")
        settings = {**scene.settings(authority), "max.partitions.total": PARTITIONS_MAX}
        broker = Serving(self.folder, environment=self.environment, package=self.package,
                         protocol=scene.protocol, **settings)  # fmt: skip
        tls = None if authority is None else trusting(authority.trust)
        try:
            self._blow(broker, Door(broker.kafka, tls), seconds, number)
        finally:
            code = broker.stop()
        if code:
            self.faults.append(f"the broker ended with {code}")
        if "Traceback" in broker.log:
            self.faults.append(f"not foreseen: {broker.log.partition('Traceback')[2][:3000]}")

    def _blow(self, broker: Serving, door: Door, seconds: float, number: int) -> None:
        scene = self.storm.scene
        trusted = door.of(ADMIN) if scene.has_logins else door
        cleared(trusted)
        about = ground(trusted, f"ground-{number}")
        witness = Witness(trusted, f"witness-{number}")
        end = time.monotonic() + seconds
        peak = 0
        try:
            while time.monotonic() < end and broker.process.poll() is None:
                if scene.user:
                    give_rights(trusted, about.topic)
                self.storm.blow(door.of(scene.user), about, min(2.0, seconds), SOURCE)
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


def give_rights(door: Door, topic: str) -> None:
    """Again and again: one of the users may delete rules."""
    with door.open() as admin:
        doors.allow(admin, FEW, doors.READ, doors.TOPIC, topic)
        doors.allow(admin, FEW, doors.READ, doors.GROUP, "fuzz")
        for kind in (doors.TOPIC, doors.GROUP, doors.TRANSACTIONAL_ID):
            doors.allow(admin, MANY, EVERYTHING, kind, "*")
        doors.allow(admin, MANY, EVERYTHING, doors.CLUSTER, "kafka-cluster")


def storm(given: argparse.Namespace, scene: str) -> int:
    """The number of faults."""
    sanitizer = sanitizers.SANITIZERS["address"]
    environment: dict[str, str] = {}
    if not given.plain:
        environment = sanitizers.environment_of(sanitizer)
    folder = Path(tempfile.mkdtemp(prefix=f"fuzz-{scene}-"))
    most = GROWTH_MAX + 300 * MIB if given.plain else SANITIZED_MAX
    package = None if given.plain else sanitizer.folder
    run = Run(folder, environment, most, Storm(given.seed, SCENES[scene]), package)
    print(f"scene {scene}", flush=True)
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
    return len(run.faults)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30, help="for each scene")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scene", choices=[*SCENES, "all"], default="open")
    parser.add_argument("--plain", action="store_true", help="the broker as it is built now")
    parser.add_argument("--built", action="store_true", help="the sanitized build that is there")
    given = parser.parse_args()
    if not given.plain and not given.built:
        sanitizers.build(sanitizers.SANITIZERS["address"])
    scenes = list(SCENES) if given.scene == "all" else [given.scene]
    return int(any(storm(given, each) for each in scenes))


if __name__ == "__main__":
    sys.exit(main())

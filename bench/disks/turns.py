"""Brokers, or settings of ours, in turns on one simulated disk: A B A B."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.disks import work
from bench.disks.disk import Kind, SimulatedDisk
from bench.peers.brokers import Broker
from bench.peers.running import PEERS

MEGABYTES = 64 << 10  # of the disk; only what is written takes memory
READ_AHEAD_KB = 128  # the kernel's own
SETTLE_S = 1.0
Found = dict[str, dict[str, list[float]]]


@dataclass(frozen=True)
class Contender:
    """A broker with settings, on a device with a read-ahead."""

    peer: str = "appliance"
    topic: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    read_ahead_kb: int = READ_AHEAD_KB


BROKERS = {
    "appliance": Contender(),
    "appliance, commit.sync=files": Contender(settings={"commit.sync": "files"}),
    "kafka": Contender("kafka"),
    "kafka, flush.messages=1": Contender("kafka", {"flush.messages": "1"}),
}
SETTINGS = {
    "read-ahead 128 KiB": Contender(),
    "read-ahead 1 MiB": Contender(read_ahead_kb=1024),
    "read-ahead 4 MiB": Contender(read_ahead_kb=4096),
    "write-behind off": Contender(settings={"write.behind.bytes": "0"}, read_ahead_kb=1024),
    "write-behind 8 MiB": Contender(settings={"write.behind.bytes": str(8 << 20)},
                                    read_ahead_kb=1024),
}


@dataclass(frozen=True)
class Extent:
    """How much is measured: seconds of each part, in the disk's time; of the log before readers."""

    slower: int
    rounds: int
    seconds: float
    megabytes: int
    place: Path | None
    mount: str = ""  # options of the file system


class Turns:
    def __init__(self, disk: SimulatedDisk, contenders: Mapping[str, Contender], extent: Extent
                 ) -> None:
        self._disk, self._contenders = disk, contenders
        self._seconds, self._megabytes = extent.seconds, extent.megabytes
        self._brokers: dict[str, Broker] = {}
        self._count = 0
        self.found: Found = {name: {} for name in contenders}

    @contextmanager
    def _serving(self, each: Contender) -> Iterator[Broker]:
        """Only while it has its turn: Kafka's controller syncs twice a second, also for nothing."""
        key = f"{each.peer} {dict(each.settings)}"
        with self._disk.at_full_speed():
            if key in self._brokers:
                self._brokers[key].start()
            else:
                folder = self._disk.root / f"{each.peer}-{len(self._brokers)}"
                self._brokers[key] = PEERS[each.peer](folder, each.settings)
        try:
            yield self._brokers[key]
        finally:
            with self._disk.at_full_speed():
                self._brokers[key].stop()

    def round(self, parts: Sequence[str]) -> None:
        for name, each in self._contenders.items():
            began = time.monotonic()
            for figure, value in self._turn(each, parts):
                self.found[name].setdefault(figure, []).append(value)
            say(f"{self._disk.kind.name}: {name}: {time.monotonic() - began:.0f} s")

    def _turn(self, each: Contender, parts: Sequence[str]) -> Iterator[tuple[str, float]]:
        self._disk.set("read_ahead_kb", each.read_ahead_kb)
        with self._serving(each) as broker:
            for part in parts:
                yield from getattr(self, part)(broker, each.topic)

    def commits(self, broker: Broker, configs: Mapping[str, str]) -> Iterator[tuple[str, float]]:
        with self._topic(broker, max(work.ONE_AT_A_TIME), configs) as topic:
            yield from work.commits(self._disk, broker, topic, self._seconds).items()

    def flights(self, broker: Broker, configs: Mapping[str, str]) -> Iterator[tuple[str, float]]:
        for connections, depth in work.FLIGHTS:
            with self._topic(broker, work.PARTITIONS, configs) as topic:
                yield from work.flown(self._disk, broker, topic, connections, depth,
                                      self._seconds).items()

    def log(self, broker: Broker, configs: Mapping[str, str]) -> Iterator[tuple[str, float]]:
        with self._topic(broker, work.PARTITIONS, {}) as topic:
            work.fill(self._disk, broker, topic, self._megabytes)
            work.configure(broker, topic, configs)  # with them Kafka would take minutes to fill it
            for part in (work.beside_readers, work.written, work.caught_up):
                self._rest()
                yield from part(self._disk, broker, topic, self._seconds).items()

    @contextmanager
    def _topic(self, broker: Broker, partitions: int, configs: Mapping[str, str]) -> Iterator[str]:
        self._count += 1
        topic = f"disks-{self._count}"
        with self._disk.at_full_speed():
            broker.create_topic(topic, partitions, configs)
        self._rest()
        try:
            yield topic
        finally:
            with self._disk.at_full_speed():
                broker.delete_topic(topic)
            self._rest()

    def _rest(self) -> None:
        """Nothing of the part before is left to be written."""
        self._disk.forget_cache()
        time.sleep(SETTLE_S)


def taken(kind: Kind, contenders: Mapping[str, Contender], extent: Extent,
          parts: Sequence[str]) -> Iterator[Found]:
    """What was found so far, after each round."""
    with SimulatedDisk(kind, MEGABYTES, 1, extent.place) as disk:
        disk.format()
        disk.mount(extent.mount)
        disk.slow_down(extent.slower)
        turns = Turns(disk, contenders, extent)
        try:
            for _ in range(extent.rounds):
                turns.round(parts)
                yield turns.found
        finally:
            keep_logs(disk, extent.place)


def keep_logs(disk: SimulatedDisk, place: Path | None) -> None:
    """What the brokers said, if somebody named a folder."""
    if place:
        for log in disk.root.glob("*.log"):
            shutil.copy(log, place / log.name)


def of_brokers(kind: Kind, names: Sequence[str], extent: Extent) -> Iterator[Found]:
    return taken(kind, {name: BROKERS[name] for name in names}, extent,
                 ("commits", "log"))


def of_flights(kind: Kind, names: Sequence[str], extent: Extent) -> Iterator[Found]:
    return taken(kind, {name: BROKERS[name] for name in names}, extent, ("commits", "flights"))


def of_settings(kind: Kind, names: Sequence[str], extent: Extent) -> Iterator[Found]:
    return taken(kind, {name: SETTINGS[name] for name in names}, extent, ("log",))


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)

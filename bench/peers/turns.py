"""Two brokers take turns at the same job, A B A B, and are told apart by their medians."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from bench.peers.brokers import Appliance, Broker, Floor, Kafka, Mock

Figures = dict[str, float]
Goals = Mapping[str, float]  # by figure: ours as a multiple of the peer's
Job = Callable[[Broker, str], Figures]
Configs = Mapping[str, Mapping[str, str]]
Suites = Mapping[str, Callable[[], Iterator["Case"]]]
Results = dict[str, dict[str, dict[str, list[float]]]]  # by case, figure and broker: each turn
PROBE_BYTES = 100  # of a record in the probe's requests
EMPTY: Mapping[str, str] = MappingProxyType({})
# The same promise on both sides: neither waits for the disk; both have it there when they answer
PAGE_CACHE: Configs = {"appliance": {"visibility": "appended"}}
DURABLE: Configs = {"kafka": {"flush.messages": "1"}}


@dataclass
class Case:
    name: str
    job: Job
    configs: Configs
    partitions: int = 1
    fill: Job | None = None
    peer: str = "kafka"
    goals: Goals = field(default_factory=dict)
    rounds: int | None = None  # of a case too long for as many as the others


def nothing(broker: Broker, topic: str) -> Figures:
    return {}


class Turns:
    """Topics of their own for every turn; the figures of every turn but the first."""

    def __init__(self, brokers: Mapping[str, Broker], rounds: int) -> None:
        self.brokers = brokers
        self.rounds = rounds
        self.results: Results = {}
        self._topics = 0

    def take(self, case: Case) -> None:
        found = self.results.setdefault(case.name, {})
        for turn in range((case.rounds or self.rounds) + 1):
            for name in ("appliance", case.peer):
                for figure, value in self._one(case, self.brokers[name]).items():
                    if turn:  # the first one warms up
                        found.setdefault(figure, {}).setdefault(name, []).append(value)
        for figure, each in found.items():
            print(f"{case.name:34} {figure:18} {told(each)}", flush=True)

    def _one(self, case: Case, broker: Broker) -> Figures:
        settle()
        self._topics += 1
        topic = f"bench-{self._topics}"
        broker.create_topic(topic, case.partitions, case.configs.get(broker.name, {}))
        try:
            (case.fill or nothing)(broker, topic)
            return case.job(broker, topic)
        finally:
            broker.delete_topic(topic)


def settle() -> None:
    """What the turn before left in the page cache is written and, for root, given back. Otherwise
    the disk and the search for free pages are measured, not the broker."""
    os.sync()
    if os.geteuid() == 0:
        Path("/proc/sys/vm/drop_caches").write_text("1")


def told(each: Mapping[str, Sequence[float]]) -> str:
    middles = {name: statistics.median(values) for name, values in each.items()}
    words = [f"{name} {middles[name]:,.5g} ({min(values):,.5g}-{max(values):,.5g})"
             for name, values in each.items()]
    first, *others = middles.values()
    return ", ".join(words + [f"{first / other:.2f} x" for other in others if other])


def arguments(about: str, suites: Suites) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=about.partition("\n")[0])
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="of " + ", ".join(suites))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dir", type=Path, help="on the file system to be measured")
    parser.add_argument("--json", type=Path, help="where every figure goes")
    return parser.parse_args()


@contextmanager
def running(peers: Set[str], directory: Path | None,
            settings: Mapping[str, str]) -> Iterator[dict[str, Broker]]:
    """The appliance and those peers, for as long as the block lasts."""
    root = Path(tempfile.mkdtemp(dir=directory, prefix="side-by-side-"))
    brokers: dict[str, Broker] = {}
    try:
        brokers["appliance"] = Appliance(root / "appliance", settings)
        if "kafka" in peers:
            brokers["kafka"] = Kafka(root / "kafka", settings)
        if "mock" in peers:
            brokers["mock"] = Mock()
        if "floor" in peers:
            brokers["floor"] = Floor(root / "floor", PROBE_BYTES)
        yield brokers
    finally:
        for broker in brokers.values():
            broker.stop()
        shutil.rmtree(root)


def compare(about: str, suites: Suites, settings: Mapping[str, str] = EMPTY) -> None:
    """A command of its own; `settings` are for both."""
    words = arguments(about, suites)
    cases = [case for name in words.suites or suites for case in suites[name]()]
    with running({case.peer for case in cases}, words.dir, settings) as brokers:
        turns = Turns(brokers, words.rounds)
        for case in cases:
            turns.take(case)
    if words.json:
        words.json.write_text(json.dumps(turns.results, indent=1) + "\n")

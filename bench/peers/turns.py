"""Two brokers take turns at the same job, A B A B, and are told apart by their medians."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.extent import Extent
from bench.limits import Limit
from bench.peers.brokers import Broker
from bench.peers.running import Running

Figures = dict[str, float | None]  # None: it could not be measured
Goals = Mapping[str, float]  # by figure: ours as a multiple of the peer's
Job = Callable[[Broker, str], Figures]
Configs = Mapping[str, Mapping[str, str]]
Results = dict[str, dict[str, list[float | None]]]  # of a case, by figure and broker: each turn
PROBE_BYTES = 100  # of a record in the probe's requests
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
    warm_up: bool = True  # False: each turn is with a process of its own
    weight: float = 1  # its share of the time of a run
    settings: Mapping[str, str] = field(default_factory=dict)  # of brokers of their own
    limit: Limit | None = None  # of the machine, for its rate


Suite = Callable[[Extent], Iterator[Case]]
Suites = Mapping[str, Suite]
Told = Callable[[str], None]  # what is being done now


def nothing(broker: Broker, topic: str) -> Figures:
    return {}


class Turns:
    """Topics of their own for every turn; the figures of every turn but the first."""

    def __init__(self, running: Running, rounds: int, say: Told) -> None:
        self._running = running
        self._rounds = rounds
        self._say = say
        self._topics = 0

    def take(self, case: Case, seconds: float) -> Results:
        """A round is left out when it would end behind that time; one is always taken."""
        found: Results = {}
        rounds = case.rounds or self._rounds
        begin = time.monotonic()
        for turn in range(0 if case.warm_up else 1, rounds + 1):
            began = time.monotonic()
            for name in ("appliance", case.peer):
                self._say(f"{case.name}: {f'round {turn} of {rounds}' if turn else 'warm-up'}, "
                          f"{name}")
                for figure, value in self._one(case, name).items():
                    if turn:
                        found.setdefault(figure, {}).setdefault(name, []).append(value)
            now = time.monotonic()
            if turn and now + (now - began) > begin + seconds:
                break
        return found

    def _one(self, case: Case, name: str) -> Figures:
        broker = self._running.broker(name, case.settings)
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


def known(values: Sequence[float | None]) -> list[float]:
    return [each for each in values if each is not None]


def told(each: Mapping[str, Sequence[float | None]]) -> str:
    found = {name: known(values) for name, values in each.items()}
    middles = {name: statistics.median(values) for name, values in found.items() if values}
    words = [f"{name} {middles[name]:,.5g} ({min(values):,.5g}-{max(values):,.5g})"
             if values else f"{name} -" for name, values in found.items()]
    if len(middles) == len(found):
        first, *others = middles.values()
        words += [f"{first / other:.2f} x" for other in others if other]
    return ", ".join(words)

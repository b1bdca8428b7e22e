"""Two brokers run the same job in turns, A B A B, and where a case has one a floor, A B C.
Their medians are compared."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.limits import Limit
from bench.peers.brokers import Broker
from bench.peers.running import Running
from bench.run_size import Extent

Figures = dict[str, float | None]  # None: not measured
Goals = Mapping[str, float]  # by figure: ours as a multiple of the peer's
Job = Callable[[Broker, str], Figures]
Configs = Mapping[str, Mapping[str, str]]
Results = dict[str, dict[str, list[float | None]]]  # of a case: turns by figure, broker
PROBE_BYTES = 100  # the size of a record in the probe's requests
# Both brokers promise the same: acknowledged in the page cache, or acknowledged on disk.
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
    ours: str = "appliance"
    goals: Goals = field(default_factory=dict)
    rounds: int | None = None  # for a long case, which gets fewer
    warm_up: bool = True  # False: each turn starts new processes
    weight: float = 1  # its share of the time of a run
    settings: Mapping[str, str] = field(default_factory=dict)  # of the brokers
    limit: Limit | None = None  # the machine's limit for the rate of the case
    floor: str | None = None  # takes a turn, too: the least of a broker's work

    @property
    def brokers(self) -> Sequence[str]:
        return [self.ours, self.peer, *([self.floor] if self.floor else [])]


Suite = Callable[[Extent], Iterator[Case]]
Suites = Mapping[str, Suite]
Progress = Callable[[str], None]  # gets the name of each step


def nothing(broker: Broker, topic: str) -> Figures:
    return {}


class Turns:
    """Every turn has a new topic. The first turn warms up; its figures do not count."""

    def __init__(self, running: Running, rounds: int, say: Progress) -> None:
        self._running = running
        self._rounds = rounds
        self._say = say
        self._topics = 0
        self.failed: dict[str, str] = {}  # floors, by case: it has its figures without them

    def take(self, case: Case, seconds: float) -> Results:
        """Leaves out rounds that would end after this time; one round always runs."""
        results: Results = {}
        rounds = case.rounds or self._rounds
        begin = time.monotonic()
        for turn in range(0 if case.warm_up else 1, rounds + 1):
            began = time.monotonic()
            for name in case.brokers if turn else case.brokers[:2]:
                self._say(f"{case.name}: {f'round {turn} of {rounds}' if turn else 'warm-up'}, "
                          f"{name}")
                figures = self._of_floor(case) if name == case.floor else self._one(case, name)
                for figure, value in figures.items():
                    if turn:
                        results.setdefault(figure, {}).setdefault(name, []).append(value)
            now = time.monotonic()
            if turn and now + (now - began) > begin + seconds:
                break
        return results

    def _of_floor(self, case: Case) -> Figures:
        """Without a warm-up: it has nothing that becomes warm."""
        assert case.floor is not None
        try:
            return self._one(case, case.floor)
        except Exception as error:  # noqa: BLE001 - told beside the figures of the others
            self.failed[f"{case.name}, {case.floor}"] = f"{type(error).__name__}: {error}"
            return {}

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
    """Writes the dirty pages of the last turn and, as root, drops the page cache. Otherwise the
    figures would include the disk and the search for free pages."""
    os.sync()
    if os.geteuid() == 0:
        Path("/proc/sys/vm/drop_caches").write_text("1")


def known(values: Sequence[float | None]) -> list[float]:
    return [each for each in values if each is not None]


def summary(turns: Mapping[str, Sequence[float | None]]) -> str:
    measured = {name: known(values) for name, values in turns.items()}
    middles = {name: statistics.median(values) for name, values in measured.items() if values}
    words = [f"{name} {middles[name]:,.5g} ({min(values):,.5g}-{max(values):,.5g})"
             if values else f"{name} -" for name, values in measured.items()]
    if len(middles) == len(measured):
        first, *others = middles.values()
        words += [f"{first / other:.2f} x" for other in others if other]
    return ", ".join(words)

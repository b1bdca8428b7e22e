"""A file of results: figures, the machine, and the goals."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isnan
from pathlib import Path

from appliance import __version__
from bench.peers.turns import Case, Results, known
from tests.interop import kafka_jars

CONGESTION = Path("/proc/sys/net/ipv4/tcp_congestion_control")  # BBR paces even on loopback
# The shares of a core that client and broker had explain a rate: neither more nor less is better.
EXPLAINING = ("client's core", "client's cores", "broker's cores")
MORE_IS_BETTER = ("records/s", "requests/s", "commits/s", "heartbeats/s",
                  "transactions/s", "MB/s", "GB/s")


@dataclass
class Comparison:
    """A figure of a case: every turn of both brokers."""

    suite: str
    case: str
    figure: str
    peer: str
    ours: list[float]
    theirs: list[float]
    goal: float | None  # ours as a multiple of theirs
    floor: list[float] = field(default_factory=list)  # of the least of a broker's work

    @property
    def ratio(self) -> float:
        if not self.ours or not self.theirs:
            return float("nan")
        theirs = statistics.median(self.theirs)
        return statistics.median(self.ours) / theirs if theirs else float("nan")

    @property
    def floor_ratio(self) -> float:
        """What the least of a broker's work is to the peer; nan: nobody measured it."""
        if not self.floor or not self.theirs or not statistics.median(self.theirs):
            return float("nan")
        return statistics.median(self.floor) / statistics.median(self.theirs)

    @property
    def spread(self) -> tuple[float, float]:
        """The lowest and the highest ratio of a turn; both brokers had the same other load."""
        ratios = [ours / theirs for ours, theirs in self.turns if theirs]
        return (min(ratios), max(ratios)) if ratios else (float("nan"), float("nan"))

    @property
    def turns(self) -> list[tuple[float, float]]:
        """Empty if one broker was not measured in every turn."""
        is_whole = len(self.ours) == len(self.theirs)
        return list(zip(self.ours, self.theirs, strict=True)) if is_whole else []

    @property
    def is_more_better(self) -> bool:
        return self.figure.rpartition(", ")[2] in MORE_IS_BETTER

    @property
    def is_met(self) -> bool | None:
        """None: no goal, or not measured."""
        if self.goal is None or isnan(self.ratio):
            return None
        return self.ratio >= self.goal if self.is_more_better else self.ratio <= self.goal

    @property
    def is_explaining(self) -> bool:
        """It tells why other figures are as they are: nobody can be ahead of it."""
        return self.figure in EXPLAINING

    @property
    def is_won(self) -> bool:
        return self.ratio >= 1 if self.is_more_better else self.ratio <= 1


@dataclass
class Run:
    machine: dict[str, str]
    rounds: int
    comparisons: list[Comparison] = field(default_factory=list)
    limits: dict[str, list[float]] = field(default_factory=dict)
    instructions: dict[str, int] = field(default_factory=dict)
    resident_mb: dict[str, float] = field(default_factory=dict)  # peak by broker
    scripts: dict[str, dict[str, list[float]]] = field(default_factory=dict)  # figures by script
    failed: dict[str, str] = field(default_factory=dict)  # reason by case
    minutes: float = 0  # duration

    def add(self, suite: str, case: Case, results: Results) -> None:
        for figure, each in results.items():
            ours, theirs = measured_turns(each[case.ours], each[case.peer])
            self.comparisons.append(Comparison(suite, case.name, figure, case.peer, ours, theirs,
                                               case.goals.get(figure),
                                               known(each.get(case.floor or "", []))))

    def save(self, file: Path) -> None:
        file.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, file: Path) -> Run:
        kept = json.loads(file.read_text())
        rows = [Comparison(**row) for row in kept.pop("comparisons")]
        return cls(comparisons=rows, **kept)


def measured_turns(
    ours: Sequence[float | None], theirs: Sequence[float | None]
) -> tuple[list[float], list[float]]:
    """Those in which both were; where one never was, what there is of the other."""
    if not known(ours) or not known(theirs):
        return known(ours), known(theirs)
    both = [(one, other) for one, other in zip(ours, theirs, strict=True)
            if one is not None and other is not None]
    return [one for one, _ in both], [other for _, other in both]


def machine(directory: Path) -> dict[str, str]:
    """Facts of the machine that affect the figures."""
    memory = next(line for line in Path("/proc/meminfo").read_text().splitlines())
    return {
        "processor": processor(), "cores": str(os.cpu_count()),
        "memory": f"{int(memory.split()[1]) / (1 << 20):.0f} GiB",
        "kernel": platform.release(), "file system": file_system(directory),
        "congestion control": CONGESTION.read_text().strip(),
        "python": platform.python_version(), "appliance": f"{__version__} {commit()}".strip(),
        "kafka": kafka_jars.version(),
    }


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(": ")[2]
    return platform.machine()


def file_system(directory: Path) -> str:
    words = ["findmnt", "--noheadings", "--output", "FSTYPE", "--target", str(directory)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def commit() -> str:
    """The commit, or an empty text without a repository."""
    words = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True).stdout.strip()


def middle_and_ends(values: Sequence[float]) -> tuple[float, float, float]:
    return statistics.median(values), min(values), max(values)


def by_suite(run: Run) -> Mapping[str, list[Comparison]]:
    suites: dict[str, list[Comparison]] = {}
    for each in run.comparisons:
        suites.setdefault(each.suite, []).append(each)
    return suites

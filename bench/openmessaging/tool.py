"""A built OpenMessaging Benchmark: its jars, one run of it against a broker, and what it found."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import mean
from typing import Any

from bench import client_limit
from bench.openmessaging import workloads
from bench.openmessaging.workloads import Minutes, Workload
from bench.peers.brokers import CPUCLOCK_SCHED, Broker
from bench.peers.cost import measured
from bench.peers.turns import Figures
from tests.interop import kafka_jars
from tests.interop.kafka_broker import wait_until

MAIN = "io.openmessaging.benchmark.Benchmark"
FLAGS = ("-server", "-Xms4g", "-Xmx4g", "-XX:+UseG1GC")  # those of its own start script
NEEDED = ("benchmark-framework", "driver-api", "driver-kafka", "kafka-clients")
# The tool says these on its standard output: the test begins, a part of it has ended, the result is
# about to be written, and an exception is in the next line.
BEGINS, ENDED = "Starting benchmark traffic", "Aggregated Pub Latency"
WRITES, FAILS = "Writing test result", "Failed to run the workload"
DRAINED = re.compile(r"Completed backlog draining in (\S+) s")
LINES_KEPT = 40  # lines of a run that failed
# What a run takes besides its minutes: starts, topics, consumers that join, the stop.
STARTS_S, BACKLOG_S = 240, 600
WRITTEN_S = 60
CUTS = {"p50": "50pct", "p99": "99pct", "p99.9": "999pct"}


class NotBuilt(ValueError):
    """The folder has not all jars of the tool."""


class ToolFailed(RuntimeError):
    """The tool has no result, or lost records."""


def jars(folder: Path) -> Path:
    """The folder itself, or its `lib`, as in the tool's own package."""
    for place in (folder, folder / "lib"):
        absent = [name for name in NEEDED if not jar(place, name)]
        if not absent:
            return place
        if len(absent) < len(NEEDED):
            raise NotBuilt(f"{place} has no jar of {', '.join(absent)}")
    raise NotBuilt(f"wanted the jars of a built OpenMessaging Benchmark, found none in {folder} "
                   f"or its lib: {', '.join(f'{name}-*.jar' for name in NEEDED)}")


def jar(place: Path, name: str) -> Path | None:
    return next(iter(sorted(place.glob(f"{name}-[0-9]*.jar"))), None)


def version(folder: Path) -> str:
    """Of the tool, with its commit if it lies where it was built, and of its client."""
    framework, client = (jar(jars(folder), name) for name in (NEEDED[0], NEEDED[-1]))
    assert framework is not None
    assert client is not None
    number = framework.stem.removeprefix(f"{NEEDED[0]}-")
    return " ".join([number, *commit(folder), f"with {client.stem}"])


def commit(folder: Path) -> list[str]:
    """Empty without a repository, or in one that is not the tool's."""
    words = ["git", "-C", str(folder), "rev-parse", "--show-toplevel", "--short", "HEAD"]
    said = subprocess.run(words, capture_output=True, text=True).stdout.split()
    return said[1:] if said and (Path(said[0]) / "driver-kafka").is_dir() else []


def command(place: Path, workload: Path, driver: Path, result: Path) -> list[str]:
    return [kafka_jars.java(), *FLAGS, "-cp", f"{place}/*", MAIN, "--drivers", str(driver),
            "--output", str(result), str(workload)]


def turn(place: Path, workload: Workload, minutes: Minutes, broker: Broker,
         folder: Path) -> Figures:
    """One run of the tool. What broker and tool cost is that of the test, without its warm-up."""
    asked, driver, result = (folder / name for name in ("workload.yaml", "driver.yaml",
                                                        "result.json"))
    workloads.write_yaml(asked, workloads.of_workload(workload, minutes))
    workloads.write_yaml(driver, workloads.of_driver(workload, broker.name, broker.address))
    seconds = STARTS_S + 60 * (minutes.warm_up + minutes.test) + BACKLOG_S * bool(
        workload.backlog_gb)
    with running(command(place, asked, driver, result), folder, seconds) as tool:
        tool.read_until(BEGINS)
        begin, spent = time.monotonic(), tool.cpu_seconds()
        with measured(broker) as cost:
            said = tool.read_until(ENDED)
            took, spent = time.monotonic() - begin, tool.cpu_seconds() - spent
        tool.read_until(WRITES)
        found = figures(written(result), workload, said)
    moved = round((found["MB/s"] or 0) * 1e6 * took)
    return {**found, **cost.per_byte(moved), "client's cpu s/GB": spent / (moved / 1e9),
            **client_limit.figures(spent, cost.cpu_seconds, took, False)}


class Tool:
    """The process of a run, whose lines are read as it says them."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._last: deque[str] = deque(maxlen=LINES_KEPT)

    def read_until(self, mark: str) -> str:
        """All lines to the one with the mark."""
        assert self._process.stdout is not None
        said = []
        for line in self._process.stdout:
            said.append(line)
            self._last.append(line)
            if mark in line:
                return "".join(said)
            if FAILS in line:
                raise ToolFailed(line + self._process.stdout.readline())
        raise ToolFailed(f"it ended, or was ended, before it said {mark!r}:\n"
                         + "".join(self._last))

    def cpu_seconds(self) -> float:
        return time.clock_gettime(~self._process.pid << 3 | CPUCLOCK_SCHED)


@contextmanager
def running(words: Sequence[str], folder: Path, seconds: float) -> Iterator[Tool]:
    """Killed at the end, and after these seconds: a thread of its driver outlives its work, and so
    it never ends. It logs into the folder."""
    with subprocess.Popen(words, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True) as process:
        guard = threading.Timer(seconds, process.kill)
        guard.start()
        try:
            yield Tool(process)
        finally:
            guard.cancel()
            process.kill()


def written(result: Path) -> Any:
    """Nothing says when the result is whole: it is when it can be read."""
    found: list[Any] = []

    def is_whole() -> bool:
        try:
            found.append(json.loads(result.read_text()))
        except (FileNotFoundError, json.JSONDecodeError):
            return False
        return True

    wait_until(is_whole, f"the tool's result in {result.name}", WRITTEN_S)
    return found[0]


def figures(result: Mapping[str, Any], workload: Workload, said: str) -> Figures:
    """What the tool found: rates are means of the test, latencies of all its records."""
    errors = sum(result["publishErrorRate"])
    if errors:
        raise ToolFailed(f"records were not published, {errors:,.1f}/s in one of its periods")
    published = mean(result["publishRate"])
    found: Figures = {"records/s": published, "MB/s": published * workload.record_bytes / 1e6}
    if workload.backlog_gb:
        found["consumed at most, records/s"] = max(result["consumeRate"])
        found["drained in s"] = drained(said)
    else:
        found["consumed, records/s"] = mean(result["consumeRate"])
    for stage, key in (("publish", "Publish"), ("end to end", "EndToEnd")):
        for cut, name in CUTS.items():
            found[f"{stage} {cut} ms"] = result[f"aggregated{key}Latency{name}"]
    found["backlog at most, records"] = max(result["backlog"])
    return found


def drained(said: str) -> float:
    """Seconds from the moment when the consumers may read to the one when nothing is left."""
    found = DRAINED.search(said)
    if found is None:
        raise ToolFailed("it does not say when the backlog was drained")
    return float(found[1])

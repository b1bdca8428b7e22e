"""All partitions in numbers, at most a second old: read once, however many pages are open.

It is read in slices of about a millisecond, between which the event loop serves others.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

from appliance.admin.broker_process import Process
from appliance.native._histogram import TIME_BOUNDS_NS
from appliance.network._data_plane import DataPlane
from appliance.process.detached_tasks import outcome
from appliance.storage._log_metrics import LogFacts, log_facts
from appliance.topics.topic import Topic

FRESH_SECONDS = 1.0
SLICE_LOGS = 1000
TIMED = (0, 1)  # the keys of Produce and Fetch

# Rates count from the oldest of a few surveys. Without requests the oldest is long ago, and a mean
# since then would hide present changes.
RATE_SECONDS_MIN, RATE_SECONDS_MAX = 4.0, 30.0


Made = TypeVar("Made")


class Traffic(NamedTuple):
    """Of one topic: counts since the process began, or rates per second."""

    bytes_in: float = 0
    records_in: float = 0
    bytes_out: float = 0


class Latency(NamedTuple):
    """99 of 100 requests took at most this time; None: there were none lately."""

    produce_ms: float | None
    fetch_ms: float | None  # of fetches that did not wait for data


class Taken(NamedTuple):
    at: float  # of time.monotonic()
    facts: Mapping[str, list[LogFacts]]  # by topic, of open partitions, in order
    traffic: Mapping[str, Traffic]
    rates: Mapping[str, Traffic]
    latency: Latency
    version: Hashable = None

    def all(self) -> list[LogFacts]:
        return [each for own in self.facts.values() for each in own]


class Past(NamedTuple):
    at: float
    traffic: Mapping[str, Traffic]
    times: Mapping[int, list[int]]  # number of requests by duration, by API


class Survey:
    def __init__(self, process: Process) -> None:
        self._process = process
        self._past: deque[Past] = deque(maxlen=8)
        self._last: Taken | None = None
        self._derived: dict[str, Any] = {}  # from the last survey
        self._taking: asyncio.Task[Taken] | None = None
        self._taking_version: Hashable = None
        self._changes = 0

    @property
    def version(self) -> Hashable:
        """A survey of another version does not count, however young it is."""
        broker = self._process.broker
        return self._changes, broker.topics.version if broker else 0

    def forget(self) -> None:
        self._changes += 1

    async def take(self) -> Taken:
        """A survey of now, or at most a second old."""
        version, last = self.version, self._last
        is_young = last is not None and time.monotonic() - last.at < FRESH_SECONDS
        if last is not None and is_young and last.version == version:
            return last
        taking = self._taking
        if taking is None or taking.done() or self._taking_version != version:
            taking = asyncio.get_running_loop().create_task(self._take(version))
            self._taking, self._taking_version = taking, version
        return await outcome(taking)

    def derived(self, taken: Taken, name: str, make: Callable[[Taken], Made]) -> Made:
        """Computes a result from a survey once for all requests."""
        if taken is not self._last:
            return make(taken)
        if name not in self._derived:
            self._derived[name] = make(taken)
        made: Made = self._derived[name]
        return made

    async def _take(self, version: Hashable) -> Taken:
        facts: dict[str, list[LogFacts]] = {}
        traffic: dict[str, Traffic] = {}
        broker, data_plane = self._process.broker, self._process.data_plane
        for topics in slices(list(broker.topics.values()) if broker else []):
            found = log_facts([log for each in topics for log in each.open_logs])
            for each in topics:
                count = len(each.open_logs)
                own, found = found[:count], found[count:]
                counts = data_plane.topic_counts(each.name) if data_plane else None
                facts[each.name] = own
                traffic[each.name] = Traffic(
                    sum(one.bytes_of_clients for one in own),
                    sum(one.records_of_clients for one in own),
                    counts[0] if counts else 0,
                )
            await asyncio.sleep(0)
        now, times = time.monotonic(), request_times(data_plane)
        before = self._before(now)
        seconds = max(now - before.at, FRESH_SECONDS)
        if not self._past or now - self._past[-1].at >= RATE_SECONDS_MIN:
            self._past.append(Past(now, traffic, times))
        none = Traffic()
        rates = {
            name: Traffic(*(
                max(0.0, a - b) / seconds
                for a, b in zip(own, before.traffic.get(name, none), strict=True)
            ))
            for name, own in traffic.items()
        }  # fmt: skip
        took = [percentile(times.get(key, []), before.times.get(key, [])) for key in TIMED]
        self._derived = {}
        self._last = Taken(now, facts, traffic, rates, Latency(*took), version)
        return self._last

    def _before(self, now: float) -> Past:
        """The survey from which rates count."""
        while self._past and now - self._past[0].at > RATE_SECONDS_MAX:
            self._past.popleft()
        return self._past[0] if self._past else Past(self._process.started, {}, {})


def request_times(data_plane: DataPlane | None) -> dict[int, list[int]]:
    found = data_plane.request_times() if data_plane else []
    return {key: counts for key, counts, _, waited in found if key is not None and not waited}


def percentile(counts: list[int], before: list[int], share: float = 0.99) -> float | None:
    """In milliseconds: the upper bound for 99 of 100 of the requests since then."""
    own = [now - then for now, then in zip(counts, before or [0] * len(counts), strict=True)]
    wanted = sum(own) * share
    if wanted <= 0:
        return None
    for bound, reached in zip(TIME_BOUNDS_NS, accumulate(own), strict=False):
        if reached >= wanted:
            return bound / 1e6
    return TIME_BOUNDS_NS[-1] / 1e6


def slices(topics: list[Topic]) -> Iterator[list[Topic]]:
    """Slices with about as many logs as can be read in a millisecond."""
    found: list[Topic] = []
    logs = 0
    for each in topics:
        found.append(each)
        logs += len(each.logs)
        if logs >= SLICE_LOGS or len(found) == SLICE_LOGS // 4:
            yield found
            found, logs = [], 0
    if found:
        yield found

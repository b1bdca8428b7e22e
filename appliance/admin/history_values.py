"""What the history is told: numbers of the broker every ten seconds, of topics and groups a minute.

    broker/in_bytes_per_s    what clients produced; out_bytes_per_s what they fetched
    broker/produces_per_s    requests; fetches_per_s
    broker/produce_p50_ms    what they took; produce_p99_ms, fetch_p50_ms, fetch_p99_ms, as bounds
    broker/commit_p50_ms     what the syncs of one group commit took; commit_p99_ms
    broker/connections       of clients
    broker/processors        processor seconds per second; memory_bytes
    broker/logs_bytes        all partitions; free_bytes of the disk
    broker/lag_records       of the group that is most behind; lag_seconds
    topic/NAME/...           in_bytes_per_s, out_bytes_per_s, size_bytes
    group/NAME/...           lag_records, lag_seconds

A value that is not known, such as the duration of requests while there are none, is left out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from appliance.admin.broker_process import Process
from appliance.admin.partition_snapshot import Taken, Traffic, percentile, request_times
from appliance.broker.broker import Broker
from appliance.network._data_plane import DataPlane

PRODUCE, FETCH = 0, 1
COMMIT = -1  # beside the keys of APIs
TIMED = {"produce": PRODUCE, "fetch": FETCH, "commit": COMMIT}
COUNTED = {
    "in_bytes_per_s": "produced_bytes",
    "out_bytes_per_s": "fetched_bytes",
    "produces_per_s": "produce_requests",
    "fetches_per_s": "fetch_requests",
}
SHARES = {"p50": 0.5, "p99": 0.99}

Values = dict[str, float]


class Counts(NamedTuple):
    """Since the start of the process."""

    at: float  # of time.monotonic()
    processor_s: float
    counters: Mapping[str, int]
    times: Mapping[int, list[int]]


class Measures:
    """Differences to the last time, at first to the start of the process; so each of the two is
    asked at one interval."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._last: Counts | None = None
        self._last_traffic: tuple[float, Mapping[str, Traffic]] | None = None

    def of_broker(self) -> Values:
        """Nothing while there is no broker."""
        broker, plane = self._process.broker, self._process.data_plane
        if broker is None or plane is None:
            self._last = None
            return {}
        now = counts_of(broker, plane)
        last = self._last or Counts(self._process.started, now.processor_s, {}, {})
        self._last = now
        found: Values = {
            "connections": now.counters["connections_open"],
            "free_bytes": broker.log_dir.free_bytes,
        }
        if resident := self._process.watch.machine.memory.resident_bytes:
            found["memory_bytes"] = resident
        found |= {**rates(now, last), **durations(now, last)}
        return {f"broker/{name}": value for name, value in found.items()}

    def of_names(self, taken: Taken) -> Values:
        broker = self._process.broker
        found = dict(self._of_topics(taken))
        found["broker/logs_bytes"] = sum(each.size for each in taken.all())
        return {**found, **of_groups(broker)} if broker else found

    def _of_topics(self, taken: Taken) -> Iterator[tuple[str, float]]:
        last, self._last_traffic = self._last_traffic, (taken.at, taken.traffic)
        for name, facts in taken.facts.items():
            yield f"topic/{name}/size_bytes", sum(each.size for each in facts)
            before = last[1].get(name) if last else None
            if last is None or before is None:
                continue
            took, now = max(taken.at - last[0], 1e-3), taken.traffic[name]
            # the topic may have been made anew
            yield f"topic/{name}/in_bytes_per_s", max(0, now.bytes_in - before.bytes_in) / took
            yield f"topic/{name}/out_bytes_per_s", max(0, now.bytes_out - before.bytes_out) / took


def counts_of(broker: Broker, plane: DataPlane) -> Counts:
    times = {**request_times(plane), COMMIT: list(broker.log_dir.commit_times()[0])}
    return Counts(time.monotonic(), time.process_time(), plane.counters(), times)


def rates(now: Counts, last: Counts) -> Values:
    took = max(now.at - last.at, 1e-3)
    found = {
        name: (now.counters[key] - last.counters.get(key, 0)) / took
        for name, key in COUNTED.items()
    }
    found["processors"] = (now.processor_s - last.processor_s) / took
    return found


def durations(now: Counts, last: Counts) -> Values:
    found: Values = {}
    for what, key in TIMED.items():
        for name, share in SHARES.items():
            value = percentile(now.times.get(key, []), last.times.get(key, []), share)
            if value is not None:
                found[f"{what}_{name}_ms"] = value
    return found


def of_groups(broker: Broker) -> Values:
    found: Values = {}
    groups = broker.lag.snapshot().groups
    for each in groups:
        if each.unknown_partitions:
            continue  # what is known alone looks as if the group had caught up
        found[f"group/{each.group}/lag_records"] = each.records
        if each.seconds is not None:
            found[f"group/{each.group}/lag_seconds"] = each.seconds
    if groups:
        whole = [each.records for each in groups if not each.unknown_partitions]
        if whole:
            found["broker/lag_records"] = max(whole)
        known = [each.seconds for each in groups if each.seconds is not None]
        if known:
            found["broker/lag_seconds"] = max(known)
    return found

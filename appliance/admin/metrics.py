"""`/metrics`: the page that Prometheus reads, in its text format.

Most numbers are counters that the data plane and the logs keep anyway (`_histogram.pxd`); reading
them stops nobody. A page of ten thousand topics takes a fraction of a second to write all the same,
so it is written on the event loop in slices of about a millisecond: between two of them whoever
waits for the loop, a heartbeat for example, has its turn. A thread would be worse: it keeps the GIL
for five milliseconds at a time.

One page is written at a time. Whoever asks meanwhile gets the same page.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator

from prometheus_client import CONTENT_TYPE_LATEST, ProcessCollector, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from appliance.admin import (
    metrics_of_alerts,
    metrics_of_broker,
    metrics_of_exports,
    metrics_of_groups,
    metrics_of_listeners,
    metrics_of_machine,
    metrics_of_replicas,
    metrics_of_topics,
)
from appliance.admin.broker_process import Process
from appliance.bulk.reader_threads import Reading
from appliance.process.detached_tasks import outcome

CONTENT_TYPE = CONTENT_TYPE_LATEST


class One(Collector):
    """A family as the registry of one, which is what the library writes."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        return [self._family]


class Metrics:
    def __init__(self, process: Process, reading: Reading) -> None:
        self._process = process
        self._reading = reading
        self._own = ProcessCollector(registry=None)
        self._writing: asyncio.Task[bytes] | None = None

    async def page(self) -> bytes:
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write())
        # one who goes away takes the page from nobody else
        return await outcome(self._writing)

    async def _write(self) -> bytes:
        begin = time.perf_counter()
        parts: list[bytes] = []
        last = ""
        for family in self._families():
            if family is not None:
                text = generate_latest(One(family))
                # the library heads each slice of a family, and Prometheus wants one head
                parts.append(text.split(b"\n", 2)[2] if family.name == last else text)
                last = family.name
            await asyncio.sleep(0)
        took = metrics_of_broker.gauge("metrics_page_seconds", "What this page took to write.")
        took.add_metric([], time.perf_counter() - begin)
        return b"".join([*parts, generate_latest(One(took))])

    def _families(self) -> Iterator[Metric | None]:
        """None: nothing yet, but a slice of work is done."""
        yield from self._own.collect()
        yield from metrics_of_broker.families(self._process)
        yield from metrics_of_listeners.families(self._process)
        if self._process.alerts is not None:
            yield from metrics_of_alerts.families(self._process.alerts)
        if self._process.cluster is not None:
            yield from metrics_of_replicas.families(self._process.cluster)
        broker, data_plane = self._process.broker, self._process.data_plane
        yield from metrics_of_machine.families(self._process.watch.machine, broker)
        if broker is not None and data_plane is not None:
            partitions_max = self._process.config.metrics_partitions_max
            yield from metrics_of_topics.families(broker, data_plane, partitions_max)
            yield from metrics_of_groups.families(broker)
            yield from metrics_of_exports.families(broker, self._reading)

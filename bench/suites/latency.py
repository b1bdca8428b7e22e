"""Latency from the time when a record is due until its reader has it: at a low rate, and at shares
of the highest rate of the slower broker."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench.peers import clients
from bench.peers.brokers import Broker, DurableFloor, Floor
from bench.peers.turns import DURABLE, PAGE_CACHE, PROBE_BYTES, Case, Figures, Goals
from bench.run_size import Extent

RATE, SECONDS = 1000, 6.0
SHARES = (25, 50, 75, 90)  # percent of saturation
SEARCHED = (500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000,
            256_000)  # records a second
SECONDS_LEAST = 3.0  # fewer give no p99.9
KEEPS_UP_US = 20_000
GOALS: Goals = {f"{stage} {cut} us": 1 / 2 for stage in ("ack", "end to end")
                for cut in ("p50", "p99", "p99.9")}


def seconds_of(extent: Extent) -> float:
    return max(SECONDS_LEAST, extent.seconds(SECONDS))


def at_rate(broker: Broker, topic: str, acks: int, rate: int, seconds: float) -> Figures:
    count = round(rate * (1 + seconds))  # the probe leaves the first second out
    probe = clients.probe_latency(broker.address, topic, PROBE_BYTES, acks, rate, count)
    return {name.replace("_", " "): value for name, value in probe.items() if name != "records"}


class Saturation:
    """The highest rates that `search` measured, for the cases after it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._rates: dict[str, int] = {}

    def search(self, broker: Broker, topic: str) -> Figures:
        """The highest rate at which half of the records arrive in time."""
        reached = 0
        for each, rate in enumerate(SEARCHED):
            own = f"{topic}-{each}"
            broker.create_topic(own, 1, PAGE_CACHE.get(broker.name, {}))
            probe = clients.probe_latency(broker.address, own, PROBE_BYTES, 1, rate, 2 * rate)
            broker.delete_topic(own)
            if probe["end_to_end_p50_us"] > KEEPS_UP_US:
                break
            reached = rate
        self._rates[broker.name] = max(reached, self._rates.get(broker.name, 0))
        return {"records/s": reached}

    def at_share(self, broker: Broker, topic: str, percent: int) -> Figures:
        if len(self._rates) < 2:
            raise RuntimeError("the saturation is unknown: its case failed")
        slower = min(self._rates, key=lambda name: self._rates[name])
        rate = self._rates[slower] * percent // 100
        if not rate:
            raise RuntimeError(f"{slower} does not keep up with {SEARCHED[0]:,} records/s")
        return at_rate(broker, topic, 1, rate, self._seconds)


def latencies(extent: Extent) -> Iterator[Case]:
    """A thousand records a second, one per request; in the page cache, and durable on both."""
    at = {"rate": RATE, "seconds": seconds_of(extent)}
    yield Case(f"{RATE} records/s, page cache", partial(at_rate, acks=1, **at), PAGE_CACHE,
               goals=GOALS, floor=Floor.name)
    yield Case(f"{RATE} records/s, durable", partial(at_rate, acks=-1, **at), DURABLE, goals=GOALS,
               floor=DurableFloor.name)


def loaded_latencies(extent: Extent) -> Iterator[Case]:
    """At 25, 50, 75 and 90 % of the saturation rate of the slower broker."""
    saturation = Saturation(seconds_of(extent))
    yield Case("saturation, one connection", saturation.search, PAGE_CACHE, rounds=2, weight=2)
    for percent in SHARES:
        yield Case(f"{percent} % of saturation", partial(saturation.at_share, percent=percent),
                   PAGE_CACHE, goals=GOALS, floor=Floor.name)

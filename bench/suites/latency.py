"""From the moment a record is due until its reader has it: at a calm rate, and at shares of what
the slower broker can do at all."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial

from bench.peers import clients
from bench.peers.brokers import Broker
from bench.peers.turns import DURABLE, PAGE_CACHE, PROBE_BYTES, Case, Figures, Goals

RATE, SECONDS = 1000, 6
SHARES = (25, 50, 75, 90)  # percent of saturation
SEARCHED = (2_000, 4_000, 8_000, 16_000, 32_000, 64_000)  # records a second
KEEPS_UP_US = 20_000
GOALS: Goals = {f"{stage} {cut} us": 1 / 2 for stage in ("ack", "end to end")
                for cut in ("p50", "p99", "p99.9")}


def at_rate(broker: Broker, topic: str, acks: int, rate: int) -> Figures:
    told = clients.probe_latency(broker.address, topic, PROBE_BYTES, acks, rate, rate * SECONDS)
    return {name.replace("_", " "): value for name, value in told.items() if name != "records"}


def at_share(broker: Broker, topic: str, percent: int) -> Figures:
    return at_rate(broker, topic, 1, saturation() * percent // 100)


_saturations: dict[str, int] = {}


def search(broker: Broker, topic: str) -> Figures:
    """The highest of the rates at which half of all records still arrive in time."""
    reached = 0
    for each, rate in enumerate(SEARCHED):
        own = f"{topic}-{each}"
        broker.create_topic(own, 1, PAGE_CACHE.get(broker.name, {}))
        told = clients.probe_latency(broker.address, own, PROBE_BYTES, 1, rate, rate * 2)
        broker.delete_topic(own)
        if told["end_to_end_p50_us"] > KEEPS_UP_US:
            break
        reached = rate
    _saturations[broker.name] = reached
    return {"records/s": reached}


@cache
def saturation() -> int:
    return min(_saturations.values())


def latencies() -> Iterator[Case]:
    """A thousand records a second, one in a request; from the page cache, and durable on both."""
    yield Case(f"{RATE} records/s, page cache", partial(at_rate, acks=1, rate=RATE), PAGE_CACHE,
               goals=GOALS)
    yield Case(f"{RATE} records/s, durable", partial(at_rate, acks=-1, rate=RATE), DURABLE,
               goals=GOALS)


def loaded_latencies() -> Iterator[Case]:
    """At 25, 50, 75 and 90 % of the rate at which the slower of both no longer keeps up."""
    yield Case("saturation, one connection", search, PAGE_CACHE)
    for percent in SHARES:
        yield Case(f"{percent} % of saturation", partial(at_share, percent=percent), PAGE_CACHE,
                   goals=GOALS)

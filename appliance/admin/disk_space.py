"""The disk, and the time until it is full at the present rate.

A broker with retention does not fill for ever: a topic grows until retention deletes as much as is
written. So there are two figures: the final size of all topics at present rates, and, if that
exceeds the disk, the time until the disk is full. Rates count from the process's start; there are
none in the first minute.
"""

from __future__ import annotations

from typing import TypedDict

from appliance.admin.broker_process import Process
from appliance.admin.partition_snapshot import Survey, Taken
from appliance.broker.broker import Broker
from appliance.topics.topic import Topic

RATE_SECONDS_MIN = 60.0


class Storage(TypedDict):
    total_bytes: int
    free_bytes: int
    low_water_bytes: int
    reserve_bytes: int
    is_full: bool
    logs_bytes: int
    written_bytes_per_s: float | None  # None: too early
    steady_bytes: int | None  # final size of the logs; None: too early, or without limit
    full_in_s: float | None  # None: never at this rate


async def storage_of(broker: Broker, process: Process, survey: Survey) -> Storage:
    taken = await survey.take()
    return survey.derived(taken, "storage", lambda _: storage_at(broker, process, taken))


def storage_at(broker: Broker, process: Process, taken: Taken) -> Storage:
    config, free = broker.log_dir.config, broker.log_dir.free_bytes
    seconds = taken.at - process.started
    sizes = {name: sum(each.size for each in own) for name, own in taken.facts.items()}
    size = sum(sizes.values())
    rate, steady = None, None
    if seconds >= RATE_SECONDS_MIN:
        rates = {name: each.bytes_in / seconds for name, each in taken.traffic.items()}
        rate = sum(rates.values())
        steady = steady_bytes(broker, rates, sizes)
    room = max(0, free - config.low_water_bytes)
    is_filling = rate is not None and rate > 0 and (steady is None or steady > size + room)
    return {
        "total_bytes": broker.log_dir.total_bytes(),
        "free_bytes": free,
        "low_water_bytes": config.low_water_bytes,
        "reserve_bytes": config.reserve_bytes,
        "is_full": broker.log_dir.is_full,
        "logs_bytes": size,
        "written_bytes_per_s": rate,
        "steady_bytes": steady,
        "full_in_s": room / rate if is_filling and rate else None,
    }


def steady_bytes(
    broker: Broker, rates: dict[str, float], sizes: dict[str, int]
) -> int | None:
    found = 0.0
    for name, rate in rates.items():
        topic = broker.topics.get(name)
        limit = size_max(broker, topic, rate) if topic else 0.0
        if limit is None:
            if rate > 0:
                return None
            limit = sizes[name]
        found += max(limit, 0.0) if rate > 0 else sizes[name]
    return round(found)


def size_max(broker: Broker, topic: Topic, rate: float) -> float | None:
    """The size to which retention lets the topic grow; None: without limit."""
    if "delete" not in broker.configs.of_topic(topic.name, "cleanup.policy").split(","):
        return None
    retention_ms = int(broker.configs.of_topic(topic.name, "retention.ms"))
    retention_bytes = int(broker.configs.of_topic(topic.name, "retention.bytes"))
    limits = [rate * retention_ms / 1000] if retention_ms >= 0 else []
    if retention_bytes >= 0:
        limits.append(float(retention_bytes) * len(topic.open_logs))
    return min(limits, default=None)

"""What health says after a look at every log: ranges that refuse readers, records of the future."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

from appliance.broker.broker import Broker
from appliance.broker.finding import Finding, first_of
from appliance.process.spoken import duration, some
from appliance.repair._hole_repair import holes
from appliance.storage._log_metrics import log_facts

FUTURE_MS = 3_600_000  # what message.timestamp.after.max.ms lets in unless it is set otherwise
SLICE_LOGS = 500  # looked at in about a millisecond


async def of_holes(broker: Broker) -> list[Finding]:
    """That somebody has seen a loss lets no reader pass it."""
    found: list[str] = []
    logs = list(broker.log_dir.logs().values())
    for begin in range(0, len(logs), SLICE_LOGS):
        for each in logs[begin : begin + SLICE_LOGS]:
            found += [
                f"{each.name}: readers are refused at offsets {hole.first_offset} to "
                f"{hole.end_offset - 1}, which are lost or damaged: `appliance log repair "
                f"{each.name} --skip` lets them pass"
                for hole in holes(each)
                if not hole.is_skipped and hole.end_offset > each.log_start_offset
            ]
        await asyncio.sleep(0)
    return [*first_of("degraded", "logs", found, "ranges at which readers are refused")]


async def of_timestamps(broker: Broker, now_ms: float) -> list[Finding]:
    """Of the topics that delete by time, the one whose records are farthest ahead."""
    largest: dict[str, int] = {}
    logs = [log for topic in list(broker.topics.values()) for log in topic.open_logs]
    for begin in range(0, len(logs), SLICE_LOGS):
        own = logs[begin : begin + SLICE_LOGS]
        for each, facts in zip(own, log_facts(own), strict=True):
            last = max(facts.largest_timestamp, largest.get(each.topic, -1))
            largest[each.topic] = last
        await asyncio.sleep(0)
    return from_the_future(largest, lambda name: expires(broker, name), now_ms)


def from_the_future(
    largest: Mapping[str, int], does_expire: Callable[[str], bool], now_ms: float
) -> list[Finding]:
    found = [
        (last, name)
        for name, last in largest.items()
        if last > now_ms + FUTURE_MS and does_expire(name)
    ]
    if not found:
        return []
    last, name = max(found)
    written = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(last / 1000))
    more = f", and of {some(len(found) - 1, 'other topic')}" if len(found) > 1 else ""
    text = (
        f"{name} has a record of {written}, {duration((last - now_ms) / 1000)} ahead of the "
        f"clock{more}: retention by time keeps its segment until then"
    )
    return [Finding("degraded", "clock", text)]


def expires(broker: Broker, name: str) -> bool:
    if name not in broker.topics:
        return False
    deletes = "delete" in broker.configs.of_topic(name, "cleanup.policy").split(",")
    return deletes and int(broker.configs.of_topic(name, "retention.ms")) >= 0

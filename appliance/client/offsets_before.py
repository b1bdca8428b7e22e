"""Offsets by time: a request to the broker of a partition."""

from __future__ import annotations

from appliance.client.connection import Connection
from appliance.client.consumer_config import READ_COMMITTED, FetchConfig
from appliance.client.errors import BrokerRefused
from appliance.client.range_assignor import TopicPartition
from appliance.protocol.messages.list_offsets import API as LIST_OFFSETS
from appliance.protocol.messages.list_offsets import ListOffsetsRequest

LATEST, EARLIEST = -1, -2
NONE = -1  # the broker's answer if no record is as new


def ask_offset(
    connection: Connection, config: FetchConfig, of: TopicPartition, time: int
) -> int | None:
    """The offset of the first record not older than `time`; None: all are older."""
    row = ListOffsetsRequest.ListOffsetsPartition(of.partition.partition, timestamp=time)
    topic = ListOffsetsRequest.ListOffsetsTopic(of.topic, [row])
    isolation = int(config.isolation_level == READ_COMMITTED)
    request = ListOffsetsRequest(-1, isolation, [topic], config.socket_timeout_ms)
    (answered,) = connection.ask(LIST_OFFSETS, request).topics
    (part,) = answered.partitions
    if part.error_code:
        raise BrokerRefused(part.error_code, f"{of}: the offset at time {time}").at(of)
    offset: int = part.offset
    return None if offset == NONE else offset


def spread(first: int, last: int, count: int) -> list[int]:
    """At most `count` offsets from `last` down to `first`, evenly spread."""
    if count < 2 or first == last:
        return [last][:count]
    steps = min(count - 1, last - first)
    return [last - (last - first) * step // steps for step in range(steps + 1)]

"""The assignment of partitions in a group: the original rebalancing algorithm, as pure functions.

For each topic, every consumer of the group computes the same table from the same data:

1. sort the partitions, so that those of one broker stand together;
2. sort the streams: by consumer, then by their number within it;
3. N = ceil(partitions / streams); the stream at index i reads partitions i * N to (i + 1) * N - 1.

The last streams may get fewer than N, or none. Each consumer computes the table itself; the owner's
node in ZooKeeper keeps two consumers with different data from reading the same partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

from appliance.client.broker_partition import BrokerPartition

Item = TypeVar("Item")


class StreamId(NamedTuple):
    consumer: str
    number: int

    def __str__(self) -> str:
        return f"{self.consumer}-{self.number}"


class TopicPartition(NamedTuple):
    topic: str
    partition: BrokerPartition

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


Table = dict[TopicPartition, StreamId]
Streams = Mapping[str, int]  # number of streams by topic


def block(items: list[Item], index: int, count: int) -> list[Item]:
    """The share of stream `index` of `count`."""
    size = -(-len(items) // count)
    return items[index * size : (index + 1) * size]


def assign(topics: Mapping[str, Iterable[BrokerPartition]], group: Mapping[str, Streams]) -> Table:
    """The table of the whole group. `group` has the streams of each consumer. The table leaves out
    topics that nobody reads."""
    table: Table = {}
    for topic in sorted(topics):
        partitions = sorted(topics[topic])
        streams = [
            StreamId(consumer, number)
            for consumer in sorted(group)
            for number in range(group[consumer].get(topic, 0))
        ]
        for index, stream in enumerate(streams):
            for partition in block(partitions, index, len(streams)):
                table[TopicPartition(topic, partition)] = stream
    return table

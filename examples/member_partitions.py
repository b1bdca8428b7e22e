"""Semantic partitioning by member id: all that a member does is in one place, in its order.

    python examples/member_partitions.py

A partitioner of our own sends each member's events to the partition of his id, over the partitions
of all brokers. So whoever reads a partition has all that its members do, and keeps what it counts
in a plain dict: no other reader ever needs it, there is nothing to lock and nothing to merge. Here
a reader for each partition cuts its members' clicks into sessions, which needs them in order.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from brokers import arguments, brokers

from appliance.client import (
    BrokerPartition,
    FetchConfig,
    Partitioner,
    Producer,
    ProducerConfig,
    SimpleConsumer,
)

CLICKS = "clicks"
MEMBERS = 500
SESSION_GAP_S = 1800  # who is silent for so long has left


class ByMemberId(Partitioner):
    """Ids are given out one after the other, so the remainder spreads them evenly: better than a
    hash would."""

    def partition(self, key: bytes, count: int) -> int:
        return int(key) % count


@dataclass
class Member:
    sessions: int = 0
    last_s: int = -SESSION_GAP_S

    def click(self, second: int) -> None:
        if second < self.last_s:
            raise RuntimeError(f"a click of second {second} after one of {self.last_s}")
        if second - self.last_s >= SESSION_GAP_S:
            self.sessions += 1
        self.last_s = second


def clicks(count: int) -> Iterator[tuple[bytes, bytes]]:
    """Member and second, in the order in which they happen."""
    chance, second = random.Random(3), 0
    for _ in range(count):
        second += chance.randrange(60)
        yield b"%d" % chance.randrange(MEMBERS), b"%d" % second


def read(broker_list: str, partition: BrokerPartition, members: dict[int, Member]) -> None:
    """One reader, with a dict that is its own."""
    with SimpleConsumer(FetchConfig(broker_list=broker_list)) as consumer:
        offset = 0
        while (messages := consumer.fetch(CLICKS, partition, offset)).next_offset > offset:
            offset = messages.next_offset
            for message in messages:
                member = members.setdefault(int(message.key or b""), Member())
                member.click(int(message.value or b""))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--clicks", type=int, default=20_000)
    words = parser.parse_args()
    with brokers(words.broker_list, count=2, partitions=2) as broker_list:
        config = ProducerConfig(broker_list=broker_list)
        with Producer(config, partitioner=ByMemberId()) as producer:
            outcomes = producer.send(CLICKS, list(clicks(words.clicks)))
            partitions = producer.cluster.partitions(CLICKS)
        print(f"{sum(len(each.records) for each in outcomes)} clicks of {MEMBERS} members")
        found: list[dict[int, Member]] = [{} for _ in partitions]
        readers = [
            threading.Thread(target=read, args=(broker_list, partition, members))
            for partition, members in zip(partitions, found, strict=True)
        ]
        for each in readers:
            each.start()
        for each in readers:
            each.join()
        for partition, members in zip(partitions, found, strict=True):
            sessions = sum(each.sessions for each in members.values())
            print(f"partition {partition}: {len(members)} members, {sessions} sessions")
        distinct = set().union(*found)
        print(f"{sum(map(len, found)) - len(distinct)} members are in more than one partition")


if __name__ == "__main__":
    main()

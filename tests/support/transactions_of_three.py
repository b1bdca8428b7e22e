"""Three brokers that each lead a partition of everything, for transactions across them: producers,
and what readers of committed records see."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from appliance.api.handlers.list_offsets import LATEST, READ_COMMITTED
from appliance.protocol import ErrorCode
from appliance.protocol.messages.describe_producers import DescribeProducersRequest
from appliance.protocol.messages.list_offsets import ListOffsetsRequest
from appliance.zookeeper.server import ZooKeeperServer
from tests.support.cluster_control import ClusterControl
from tests.support.three_brokers import DEADLINE_S, Brokers, brokers

PARTITIONS = 3  # of the topic, and of the internal ones
SETTINGS = {
    "transaction.state.log.num.partitions": PARTITIONS, "offsets.topic.num.partitions": PARTITIONS,
}  # fmt: skip
ALL = (1, 2, 3)
READ_UNCOMMITTED = 0


@contextmanager
def three_brokers(server: ZooKeeperServer, test: str, folder: Path) -> Iterator[Brokers]:
    """With the topic t. `test`: whose path in ZooKeeper it is."""
    with brokers(server, "/tests/" + re.sub(r"\W", "-", test), folder) as found:
        found.start(*ALL, **SETTINGS)
        make_topic(found)
        yield found


def make_topic(cluster: Brokers) -> None:
    """Each broker leads a partition."""
    cluster.create("t", partitions=PARTITIONS, min_insync_replicas="2")
    found = [cluster.until("t", lambda each: len(each.isrs) == len(ALL), number)
             for number in range(PARTITIONS)]  # fmt: skip
    assert {each.leader for each in found} == {*ALL}


def producer(cluster: Brokers, name: str = "id", **given: object) -> Producer:
    made = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": name, **given})
    made.init_transactions(DEADLINE_S)
    return made


def write(own: Producer, value: str) -> None:
    """To each partition."""
    for number in range(PARTITIONS):
        own.produce("t", value, partition=number)


def committed(cluster: Brokers) -> list[list[str]]:
    """What a reader of committed records sees of each partition, once nothing is open there."""
    return [read(cluster, number) for number in range(PARTITIONS)]


def read(cluster: Brokers, partition: int, topic: str = "t") -> list[str]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "nobody",
                         "enable.auto.commit": False, "isolation.level": "read_committed",
                         "enable.partition.eof": True})  # fmt: skip
    try:
        end = time.monotonic() + DEADLINE_S
        while not is_stable(cluster, partition, topic):
            assert time.monotonic() < end, f"a transaction is open in partition {partition}"
            time.sleep(0.05)
        consumer.assign([TopicPartition(topic, partition, 0)])
        found: list[str] = []
        while time.monotonic() < end:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error() is not None:
                return found  # the end
            found.append(message.value().decode())
        raise AssertionError("no end was reached")
    finally:
        consumer.close()


def is_stable(cluster: Brokers, partition: int, topic: str) -> bool:
    """Nothing is open, and followers have the markers: before, nobody reads what ended."""
    if any(each[2] >= 0 for each in producers_of(cluster, partition, topic)):
        return False
    stable = end_of(cluster, partition, topic, READ_COMMITTED)
    return 0 <= stable == end_of(cluster, partition, topic, READ_UNCOMMITTED)


def end_of(cluster: Brokers, partition: int, topic: str, isolation: int) -> int:
    """-1: who was asked does not lead it any more."""
    rows = [ListOffsetsRequest.ListOffsetsPartition(partition, timestamp=LATEST)]
    asked = ListOffsetsRequest(-1, isolation, [ListOffsetsRequest.ListOffsetsTopic(topic, rows)])
    with closing(ClusterControl(cluster)) as control:
        at = control.at(control.leader(topic, partition))
        (found,) = at.ask(asked, 6).topics
        return int(found.partitions[0].offset)


def producers_of(
    cluster: Brokers, partition: int, topic: str = "t"
) -> list[tuple[int, int, int]]:
    """As the leader remembers them: id, epoch, and where its open transaction begins, or -1."""
    control = ClusterControl(cluster)
    rows = [DescribeProducersRequest.TopicRequest(topic, [partition])]
    end = time.monotonic() + DEADLINE_S
    try:
        while True:
            at = control.at(control.leader(topic, partition))
            (found,) = at.ask(DescribeProducersRequest(rows), 0).topics
            (answer,) = found.partitions
            if answer.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                break
            assert time.monotonic() < end, answer  # who leads may not have heard of it yet
            time.sleep(0.05)
        assert answer.error_code == 0, answer
        return [(each.producer_id, each.producer_epoch, each.current_txn_start_offset)
                for each in answer.active_producers]  # fmt: skip
    finally:
        control.close()


def committed_offset(cluster: Brokers, group: str, topic: str = "t") -> int:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    try:
        (at,) = consumer.committed([TopicPartition(topic, 0)], DEADLINE_S)
        return int(at.offset)
    finally:
        consumer.close()

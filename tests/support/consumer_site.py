"""One broker below a path of its own in ZooKeeper, and what a group's consumers read there."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from appliance.client.consumer_config import ConsumerConfig
from appliance.client.consumer_connector import ConsumerConnector
from appliance.client.errors import ConsumerTimeout
from appliance.client.stream import Stream
from appliance.testing import RunningBroker
from appliance.zookeeper.server import ZooKeeperServer
from tests.support.zookeeper import DEADLINE_S, eventually

SESSION_MS = 10_000  # nobody waits for the end of one
QUIET_MS = 1500  # nothing more comes after so long, on a machine with much to do, too


class Site:
    """One broker, below a path of its own in ZooKeeper."""

    def __init__(self, server: ZooKeeperServer, root: str, broker: RunningBroker) -> None:
        self.server, self.connect, self.broker = server, f"{server.address}{root}", broker
        self.producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        self.admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        self.look = KazooClient(self.connect, timeout=SESSION_MS / 1000)
        self.look.start(DEADLINE_S)

    def create(self, topic: str, partitions: int) -> None:
        self.admin.create_topics([NewTopic(topic, partitions)])[topic].result(DEADLINE_S)
        eventually(lambda: bool(self.look.exists(f"/brokers/topics/{topic}/1")))

    def make_anew(self, topic: str, partitions: int, count: int) -> None:
        self.admin.delete_topics([topic])[topic].result(DEADLINE_S)
        self.admin.create_topics([NewTopic(topic, partitions)])[topic].result(DEADLINE_S)
        eventually(lambda: bool(self.look.exists(f"/brokers/topics/{topic}/1")))
        self.produce(topic, 0, *range(100, 100 + count))

    def produce(self, topic: str, partition: int, *values: int) -> None:
        for value in values:
            self.producer.produce(topic, b"%d" % value, partition=partition)
        self.producer.flush(DEADLINE_S)

    def consumer(self, **settings: Any) -> ConsumerConnector:
        own = {"zk_connect": self.connect, "group_id": "g", "zk_session_timeout_ms": SESSION_MS}
        return ConsumerConnector(ConsumerConfig(**{**own, **settings}))

    def reader(self, topic: str = "t", **settings: Any) -> tuple[ConsumerConnector, Stream]:
        connector = self.consumer(**{"consumer_timeout_ms": QUIET_MS, **settings})
        return connector, connector.create_message_streams({topic: 1})[topic][0]

    def node(self, path: str) -> str | None:
        try:
            data, _ = self.look.get(f"/consumers/g/{path}")
        except NoNodeError:
            return None
        return str(data or b"", "utf-8")

    def names(self, path: str) -> list[str]:
        try:
            return sorted(self.look.get_children(f"/consumers/g/{path}"))
        except NoNodeError:
            return []

    def owners(self, topic: str) -> dict[str, str | None]:
        return {each: self.node(f"owners/{topic}/{each}") for each in self.names(f"owners/{topic}")}


def until_quiet(stream: Stream, count: int = 0) -> list[int]:
    """The values that come until nothing more does. So many have to, however late."""
    found = take(stream, count)
    values = (int(message.value or b"") for message in stream)
    with pytest.raises(ConsumerTimeout, match=f"nothing to read in {QUIET_MS} ms"):
        found.extend(values)
    return found


def take(stream: Stream, count: int) -> list[int]:
    end = time.monotonic() + DEADLINE_S
    found: list[int] = []
    while len(found) < count:
        try:
            found.append(int(next(stream).value or b""))
        except ConsumerTimeout:
            if time.monotonic() > end:
                raise
    return found


def has_begun(connector: ConsumerConnector, partitions: int) -> bool:
    """It knows from where it reads each of them."""
    claims = [*connector._claims.values()]
    return len(claims) == partitions and all(each.offset is not None for each in claims)


def owned(connector: ConsumerConnector) -> list[str]:
    return sorted(map(str, connector.owned))


def session_of(connector: ConsumerConnector) -> int:
    identity = connector.zookeeper.client_id
    return identity[0] if identity else 0

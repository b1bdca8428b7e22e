"""Brokers of one cluster, each a process of its own, and a client that knows all of them."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import (
    Consumer,
    ElectionType,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from appliance.client.config import ClientConfig
from appliance.client.connection import Address, Connection
from appliance.protocol import ErrorCode
from appliance.protocol.messages.alter_partition_reassignments import API as ALTER
from appliance.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from appliance.protocol.messages.incremental_alter_configs import API as ALTER_CONFIGS
from appliance.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from appliance.protocol.messages.list_partition_reassignments import API as LIST
from appliance.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from appliance.topics.internal_topic import partition_of
from appliance.topics.topic import OFFSETS
from appliance.zookeeper.server import ZooKeeperServer
from loadtest.ports import lasting_port
from tests.support.serving import Serving

DEADLINE_S = 30.0
SESSION_MS = 4000  # a busy machine ends none by itself
BROKER = 4  # the kind of a resource with configs
ASK_S = 5  # one lost answer must not take the whole time


def _told(admin: AdminClient) -> set[int]:
    """None of a broker that has just closed the connection."""
    with contextlib.suppress(KafkaException):
        return {*admin.list_topics(timeout=ASK_S).brokers}
    return set()


class Brokers:
    def __init__(self, server: ZooKeeperServer, root: str, folder: Path) -> None:
        self.zookeeper = f"{server.address}{root}"
        self._folder = folder
        self.running: dict[int, Serving] = {}
        self._ports: dict[int, int] = {}

    def start(self, *nodes: int, **settings: object) -> None:
        for node in nodes:
            self.running[node] = found = Serving(
                self._folder / str(node),
                port=self._ports.get(node) or lasting_port(),  # it comes back there
                **{
                    "node.id": node,
                    "zookeeper.connect": self.zookeeper,
                    "zookeeper.session.timeout.ms": SESSION_MS,
                    **settings,
                },
            )  # type: ignore[arg-type]
            self._ports[node] = found.kafka[1]
        for node in self.running:
            if "zookeeper.connect" not in settings:
                self._until_it_knows(node, {*nodes})

    def _until_it_knows(self, node: int, nodes: set[int]) -> None:
        """Each hears of the others by itself."""
        admin = AdminClient({"bootstrap.servers": self.address(node)})
        end = time.monotonic() + DEADLINE_S
        while nodes - _told(admin):
            assert time.monotonic() < end, f"{node} has not heard of all of {sorted(nodes)}"
            time.sleep(0.05)

    def stop(self, node: int, number: signal.Signals = signal.SIGTERM) -> None:
        self.running.pop(node).stop(number)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    # A client

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap})

    def create(self, topic: str, partitions: int = 1, factor: int = 3, **configs: str) -> None:
        wanted = NewTopic(topic, partitions, factor, config={
            name.replace("_", "."): value for name, value in configs.items()})  # fmt: skip
        admin, end = self.admin(), time.monotonic() + DEADLINE_S  # held: it answers while it lives
        while True:
            (done,) = admin.create_topics([wanted]).values()
            try:
                done.result(DEADLINE_S)
                return
            except KafkaException as error:  # a broker begins another life just now
                is_factor = error.args[0].code() == KafkaError.INVALID_REPLICATION_FACTOR
                if not is_factor or factor > len(self.running) or time.monotonic() > end:
                    raise
            time.sleep(0.1)

    def partition(self, topic: str, partition: int = 0) -> Any:
        """As Metadata tells it: leader, replicas, isrs."""
        found = self.admin().list_topics(topic, DEADLINE_S).topics[topic]
        if found.error is not None:  # the broker that was asked may not have heard of it yet
            raise KafkaException(found.error)
        return found.partitions[partition]

    def until(self, topic: str, is_so: Callable[[Any], bool], partition: int = 0) -> Any:
        """Whoever is asked may not have heard of it yet."""
        end, found = time.monotonic() + DEADLINE_S, None
        while True:
            with contextlib.suppress(KafkaException):
                known = self.admin().list_topics(topic, DEADLINE_S).topics[topic]
                found = known.partitions.get(partition)
                if found is not None and is_so(found):
                    return found
            assert time.monotonic() < end, f"not so: {found and vars(found)}"
            time.sleep(0.1)

    def delete(self, topic: str) -> None:
        admin = self.admin()
        for done in admin.delete_topics([topic], operation_timeout=DEADLINE_S).values():
            done.result(DEADLINE_S)

    def extend(self, topic: str, total: int) -> None:
        admin = self.admin()
        for done in admin.create_partitions([NewPartitions(topic, total)]).values():
            done.result(DEADLINE_S)

    def configure(self, topic: str, node: int = 0, **configs: str) -> None:
        """`node`: the broker that is asked first."""
        address = self.address(node) if node else self.bootstrap
        admin = AdminClient({"bootstrap.servers": address})
        wanted = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in configs.items()
        ])  # fmt: skip
        for done in admin.incremental_alter_configs([wanted]).values():
            done.result(DEADLINE_S)

    def configure_all(self, name: str, value: str, node: int) -> None:
        """As `kafka-configs --entity-type brokers --entity-default`, at this broker."""
        alter = IncrementalAlterConfigsRequest  # librdkafka refuses a resource without a name
        configs = [alter.AlterableConfig(name, 0, value)]
        wanted = alter([alter.AlterConfigsResource(BROKER, "", configs)])
        (told,) = self._ask(ALTER_CONFIGS, wanted, node).responses
        assert told.error_code == 0, told

    def configs(self, topic: str, node: int) -> dict[str, str]:
        """As that broker tells them."""
        admin = AdminClient({"bootstrap.servers": self.address(node)})
        wanted = ConfigResource(ConfigResource.Type.TOPIC, topic)
        found = [done.result(DEADLINE_S) for done in admin.describe_configs([wanted]).values()]
        return {name: entry.value for name, entry in found[0].items()}

    def reassign(self, topic: str, wanted: dict[int, list[int] | None]) -> dict[int, Any]:
        """By partition, as kafka-reassign-partitions does; the errors."""
        alter = AlterPartitionReassignmentsRequest
        partitions = [alter.ReassignablePartition(*each) for each in wanted.items()]
        told = self._ask(ALTER, alter(topics=[alter.ReassignableTopic(topic, partitions)]))
        return {each.partition_index: ErrorCode(each.error_code)
                for each in told.responses[0].partitions if each.error_code}  # fmt: skip

    def moving(self) -> dict[tuple[str, int], Any]:
        told = self._ask(LIST, ListPartitionReassignmentsRequest(topics=None))
        return {(topic.name, each.partition_index): each
                for topic in told.topics for each in topic.partitions}  # fmt: skip

    def _ask(self, api: Any, request: Any, node: int = 0) -> Any:
        """That one, or any that runs."""
        address = Address.parse(self.address(node or next(iter(self.running))))
        with Connection(address, ClientConfig(broker_list=str(address))) as client:
            return client.ask(api, request)

    def elect_preferred(self, topic: str, partition: int) -> None:
        """The controller may not have heard yet that it is in sync."""
        wanted, end = TopicPartition(topic, partition), time.monotonic() + DEADLINE_S
        admin = self.admin()
        while True:
            found = admin.elect_leaders(ElectionType.PREFERRED, [wanted]).result(DEADLINE_S)
            error = found[wanted]
            if error is None:
                return
            assert "PREFERRED_LEADER_NOT_AVAILABLE" in str(error), error
            assert time.monotonic() < end, error
            time.sleep(0.1)

    def address(self, node: int) -> str:
        return f"127.0.0.1:{self._ports[node]}"

    def produce(
        self,
        topic: str,
        values: list[str],
        partition: int = 0,
        node: int = 0,
        deadline_s: float = DEADLINE_S,
        **given: object,
    ) -> None:
        """All are acknowledged when this returns. `node`: the broker that is asked first."""
        address = self.address(node) if node else self.bootstrap
        config = {"bootstrap.servers": address, "acks": "all",
                  "message.timeout.ms": 1000 * int(deadline_s), **given}  # fmt: skip
        producer, faults = Producer(config), []
        for value in values:
            producer.produce(
                topic, value, partition=partition,
                on_delivery=lambda error, _: faults.append(error) if error else None,
            )  # fmt: skip
        assert producer.flush(deadline_s) == 0
        assert faults == []

    def consume(
        self, topic: str, count: int, partition: int = 0, wait_s: float = DEADLINE_S
    ) -> list[str]:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "nobody",
                             "enable.auto.commit": False})  # fmt: skip
        consumer.assign([TopicPartition(topic, partition, 0)])
        found: list[str] = []
        end = time.monotonic() + wait_s
        while len(found) < count and time.monotonic() < end:
            found += [each.value().decode() for each in consumer.consume(count, 0.5)
                      if each.error() is None]  # fmt: skip
        consumer.close()
        return found

    def everything(self, topic: str, partition: int = 0) -> list[str]:
        """All values up to the high watermark of now."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "nobody",
                             "enable.auto.commit": False})  # fmt: skip
        place = TopicPartition(topic, partition, 0)
        _, watermark = consumer.get_watermark_offsets(place, DEADLINE_S)
        consumer.assign([place])
        found: list[str] = []
        end = time.monotonic() + DEADLINE_S
        while watermark > 0 and (at := consumer.position([place])[0].offset) < watermark:
            assert time.monotonic() < end, f"read up to {at}, the high watermark is {watermark}"
            found += [each.value().decode() for each in consumer.consume(10_000, 0.5)
                      if each.error() is None]  # fmt: skip
        consumer.close()
        return found

    # Groups

    def member(self, group: str, topic: str, **given: object) -> GroupMember:
        return GroupMember(self.bootstrap, group, topic, given)

    def coordinator(self, group: str) -> int:
        end = time.monotonic() + DEADLINE_S
        while True:
            admin = self.admin()
            with contextlib.suppress(KafkaException):
                found = admin.describe_consumer_groups([group])[group].result(DEADLINE_S)
                if found.coordinator is not None:
                    return int(found.coordinator.id)
            assert time.monotonic() < end, f"nobody coordinates {group}"
            time.sleep(0.1)

    def place_of(self, group: str) -> int:
        """The partition of `__consumer_offsets` that all of it stands in."""
        return partition_of(group, len(self.admin().list_topics(
            OFFSETS, DEADLINE_S).topics[OFFSETS].partitions))  # fmt: skip

    def folder(self, node: int) -> Path:
        return self._folder / str(node)

    def until_equal(self, topic: str, *nodes: int, partition: int = 0) -> None:
        """The files of these replicas. Who was away for a moment gets the rest later."""
        end = time.monotonic() + DEADLINE_S
        while True:
            found = {self.files(node, topic, partition) for node in nodes}
            if len(found) == 1 and found != {b""}:
                return
            assert time.monotonic() < end, [len(each) for each in found]
            time.sleep(0.05)

    def files(self, node: int, topic: str, partition: int = 0) -> bytes:
        """Nothing while they are replaced, or go."""
        folder = self._folder / str(node) / "data" / f"{topic}-{partition}"
        with contextlib.suppress(FileNotFoundError):
            return b"".join(each.read_bytes() for each in sorted(folder.glob("*.log")))
        return b""


class GroupMember:
    def __init__(
        self, bootstrap: str, group: str, topic: str, given: dict[str, object]
    ) -> None:
        self._consumer = Consumer({
            "bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False,
            "auto.offset.reset": "earliest", "session.timeout.ms": 10000, **given,
        })  # fmt: skip
        self._consumer.subscribe([topic])

    def take(self, count: int) -> list[Any]:
        found: list[Any] = []
        end = time.monotonic() + DEADLINE_S
        while len(found) < count:
            assert time.monotonic() < end, f"{len(found)} of {count} messages came"
            found += [each for each in self._consumer.consume(count - len(found), 0.5)
                      if each.error() is None]  # fmt: skip
        return found

    def commit(self) -> None:
        """Of all that was taken; asked again while no coordinator is known."""
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            with contextlib.suppress(KafkaException):
                self._consumer.commit(asynchronous=False)
                return
            time.sleep(0.2)
        self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


@contextlib.contextmanager
def brokers(server: ZooKeeperServer, root: str, folder: Path) -> Iterator[Brokers]:
    found = Brokers(server, root, folder)
    try:
        yield found
    finally:
        for each in [*found.running.values()]:
            each.stop(signal.SIGKILL)

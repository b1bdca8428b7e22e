"""Clusters of three brokers on one machine, compared like brokers: ours with a ZooKeeper, Kafka's
with three controllers among them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from confluent_kafka.admin import NewTopic

from appliance.zookeeper.server import ZooKeeperServer
from bench.peers.brokers import ANSWER_S, KAFKA_FLAGS, KAFKA_SETTINGS, Appliance, Broker, Kafka
from loadtest.ports import lasting_ports
from tests.interop.kafka_broker import KafkaBroker, wait_until

NODES = 3
SESSION_MS = 6000
LEAST_IN_SYNC = "2"


class Cluster(Broker):
    """Of the processes of all its nodes."""

    def __init__(self) -> None:
        self.nodes: list[Broker] = []

    @property
    def pids(self) -> Sequence[int]:
        return [each.pid for each in self.nodes if each.pid]

    def joined(self) -> None:
        """Waits until each node knows of the others."""
        self.address = ",".join(each.address for each in self.nodes)
        for node in self.nodes:
            wait_until(lambda node=node: knows_all(node), "three brokers")  # type: ignore[misc]

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        wanted = NewTopic(topic, partitions, NODES,
                          config={"min.insync.replicas": LEAST_IN_SYNC, **configs})
        admin = self._admin()  # held: it answers while it lives
        admin.create_topics([wanted])[topic].result(ANSWER_S)
        self.wait_for_leaders(topic, partitions)

    def leader_of(self, topic: str, partition: int = 0) -> Broker:
        found = self._admin().list_topics(topic, ANSWER_S).topics[topic].partitions[partition]
        return self.nodes[found.leader - 1]

    def is_alive(self) -> bool:
        return all(each.is_alive() for each in self.nodes)

    def stop(self) -> None:
        for each in self.nodes:
            each.stop()

    def kill(self) -> None:
        for each in self.nodes:
            if each.is_alive():
                each.kill()


def knows_all(node: Broker) -> bool:
    return len(node._admin().list_topics(timeout=ANSWER_S).brokers) == NODES


class Appliances(Cluster):
    """The processor time of the ZooKeeper counts, too."""

    name = "three-appliances"

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        super().__init__()
        directory.mkdir()
        self.directory = directory
        self._settings = settings
        self._zookeeper = ZooKeeperServer(directory / "zookeeper", lasting_ports(1)[0])
        self.start()

    def start(self) -> float:
        begin = time.perf_counter()
        self._zookeeper.stop()
        with open(self.directory / "zookeeper.log", "ab") as output:
            self._zookeeper.output = output
            self._zookeeper.start()
        try:
            self._zookeeper.wait_until_serving()
            self.kill()
            self.nodes = []
            for number in range(1, NODES + 1):
                self.nodes.append(self._node(number))
            self.joined()
        except BaseException:  # nobody else knows of them yet
            self.kill()
            self._zookeeper.stop()
            raise
        return time.perf_counter() - begin

    def _node(self, number: int) -> Appliance:
        return Appliance(self.directory / str(number), {
            "node.id": str(number), "zookeeper.connect": str(self._zookeeper.address),
            "zookeeper.format": "cluster", "zookeeper.session.timeout.ms": str(SESSION_MS),
            **self._settings,
        })  # fmt: skip

    @property
    def pids(self) -> Sequence[int]:
        zookeeper = self._zookeeper.process
        return [*super().pids, *([zookeeper.pid] if zookeeper else [])]

    def stop(self) -> None:
        super().stop()
        self._zookeeper.stop()


class KafkaNode(Kafka):
    """At ports that its cluster decided before."""

    def __init__(self, directory: Path, settings: Mapping[str, str], ports: Sequence[int],
                 number: int) -> None:
        self.directory = directory
        self._node = OneOfThree(directory, settings, ports, number)
        self._node.format()


class OneOfThree(KafkaBroker):
    def __init__(self, directory: Path, settings: Mapping[str, str], ports: Sequence[int],
                 number: int) -> None:
        super().__init__(directory, settings, KAFKA_FLAGS)
        self._ports, self._number = ports, number

    def write_properties(self) -> Path:
        self.directory.mkdir(parents=True, exist_ok=True)
        brokers, controllers = self._ports[:NODES], self._ports[NODES:]
        voters = (f"{node}@127.0.0.1:{port}" for node, port in enumerate(controllers, 1))
        self.address = f"127.0.0.1:{brokers[self._number - 1]}"
        controller = f"CONTROLLER://127.0.0.1:{controllers[self._number - 1]}"
        lines = {
            **self._settings, "node.id": self._number,
            "controller.quorum.voters": ",".join(voters),
            "listeners": f"PLAINTEXT://{self.address},{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.address}", "log.dirs": self.log_dir,
        }
        path = self.directory / "server.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        return path


class Kafkas(Cluster):
    name = "three-kafkas"

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        super().__init__()
        directory.mkdir()
        self.directory = directory
        replicated = {name: str(NODES) if name.endswith("replication.factor") else value
                      for name, value in KAFKA_SETTINGS.items()}
        ours = {**replicated, "broker.session.timeout.ms": str(SESSION_MS), **settings}
        ports = lasting_ports(2 * NODES)
        self.nodes = [KafkaNode(directory / str(number), ours, ports, number)
                      for number in range(1, NODES + 1)]
        self.start()

    def start(self) -> float:
        """At once: none is ready before a majority of controllers is there."""
        begin = time.perf_counter()
        with ThreadPoolExecutor(NODES) as pool:
            [*pool.map(lambda node: node.start(), self.nodes)]
        self.joined()
        return time.perf_counter() - begin

    def stop(self) -> None:
        """The last of them would wait for a majority of controllers that is gone."""
        self.kill()

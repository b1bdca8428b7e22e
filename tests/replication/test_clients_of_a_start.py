"""A broker that comes, or comes back, lets clients in when it knows the cluster: who is told that a
topic is unknown gives up what it was to send there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from appliance.client.config import ClientConfig
from appliance.client.connection import Address, Connection
from appliance.errors import ApplianceError
from appliance.protocol import ErrorCode
from appliance.protocol.messages.metadata import API, MetadataRequest, MetadataResponse
from appliance.zookeeper.server import ZooKeeperServer
from loadtest.ports import lasting_ports
from tests.support.embedded_cluster import embedded_cluster, eventually
from tests.support.zookeeper import serving_zookeeper_in

LONG_SESSION_MS = "10000"
TOPICS = [f"t{number}" for number in range(20)]


class Asking(threading.Thread):
    """For the metadata of all topics, at a port where nobody may listen yet."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.answers: list[MetadataResponse] = []
        self.is_over = threading.Event()
        self._address = Address("127.0.0.1", port)
        self.start()

    def run(self) -> None:
        topics = [MetadataRequest.MetadataRequestTopic(name=each) for each in TOPICS]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        config = ClientConfig(broker_list=str(self._address))
        while not self.is_over.wait(0.001):
            try:
                with Connection(self._address, config) as connection:
                    self.answers.append(connection.ask(API, request))
            except (OSError, ApplianceError):
                continue

    def end(self) -> None:
        self.is_over.set()
        self.join()

    def check(self) -> None:
        assert self.answers
        for answer in self.answers:
            assert {each.error_code for each in answer.topics} == {ErrorCode.NONE}
            assert len(answer.brokers) == 2


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Callable[[int], Asking]]:
    asking: list[Asking] = []

    def ask(port: int) -> Asking:
        asking.append(Asking(port))
        return asking[-1]

    yield ask
    for each in asking:
        each.end()


def listeners(ports: list[int]) -> str:
    return f"PLAINTEXT://127.0.0.1:{ports[0]},SASL_PLAINTEXT://127.0.0.1:{ports[1]}"


def test_a_broker_with_an_empty_disk_says_of_no_topic_that_it_is_unknown(
    server: ZooKeeperServer, tmp_path: Path, asked: Callable[[int], Asking]
) -> None:
    with embedded_cluster(server, "/empty-disk", tmp_path) as cluster:
        cluster.start(1)
        for each in TOPICS:
            cluster.create(1, each)
        ports = lasting_ports(2)
        asking = asked(ports[0])
        cluster.start(2, listeners=listeners(ports))
        eventually(lambda: len(asking.answers) >= 3)
        asking.end()
        asking.check()


def test_a_start_while_zookeeper_is_away_lets_nobody_in_until_it_answers(
    tmp_path: Path, asked: Callable[[int], Asking]
) -> None:
    with (
        serving_zookeeper_in(tmp_path / "zookeeper") as server,
        embedded_cluster(server, "/away", tmp_path / "cluster") as cluster,
    ):
        # its session outlasts a slow start of ZooKeeper: it stays one of the brokers
        cluster.start(1, zookeeper_session_timeout_ms=LONG_SESSION_MS)
        ports = lasting_ports(2)
        cluster.start(2, listeners=listeners(ports))
        cluster.stop(2)
        cluster.until_known()
        for each in TOPICS:
            cluster.create(1, each)
        server.stop()
        asking = asked(ports[0])
        cluster.start(2, listeners=listeners(ports), zookeeper_connection_timeout_ms="500")
        time.sleep(0.2)
        assert asking.answers == []
        server.start()
        server.wait_until_serving()
        eventually(lambda: len(asking.answers) >= 3)
        asking.end()
        asking.check()


def test_a_cluster_without_topics_is_known_when_it_was_read(tmp_path: Path) -> None:
    """Nothing of it changes then that would have to be taken over."""
    with (
        serving_zookeeper_in(tmp_path / "zookeeper") as server,
        embedded_cluster(server, "/no-topics", tmp_path / "cluster") as cluster,
    ):
        server.stop()
        cluster.start(1, zookeeper_connection_timeout_ms="500")
        server.start()
        server.wait_until_serving()
        cluster.create(1, "first")

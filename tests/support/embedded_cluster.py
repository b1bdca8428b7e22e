"""Brokers of one cluster in this process, with a listener for logins beside the first one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from appliance.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from appliance.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from appliance.testing import RunningBroker
from appliance.zookeeper.server import ZooKeeperServer
from loadtest.ports import lasting_port
from tests.support.kafka_login import log_in
from tests.support.scram_client import salted
from tests.support.wire_client import WireClient, frame_of

DEADLINE_S = 20.0
SESSION_MS = 6000  # a busy machine ends none by itself
LONG_SESSION_MS = "10000"  # of brokers whose end nobody waits for
SETTINGS = {
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "sasl.secrets.without.encryption": "true",
    "connection.failed.authentication.delay.ms": "1",
    "super.users": "User:ANONYMOUS",  # at the first listener
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "connections.max.reauth.ms": "0",
}
LOGIN = "broker:zookeeper-password"


class EmbeddedCluster:
    def __init__(self, server: ZooKeeperServer, root: str, folder: Path) -> None:
        self.zookeeper, self.folder = f"{server.address}{root}", folder
        self.running: dict[int, RunningBroker] = {}
        folder.mkdir(exist_ok=True)
        self.login_file = folder / "login"
        self.login_file.write_text(LOGIN)
        self.login_file.chmod(0o600)
        self.logs_in = True  # brokers, to ZooKeeper
        self._listeners: dict[int, str] = {}  # a broker comes back where it was

    def in_cluster(self) -> dict[str, str]:
        auth = {"zookeeper.auth.file": str(self.login_file)} if self.logs_in else {}
        return {
            "zookeeper.connect": self.zookeeper,
            "zookeeper.session.timeout.ms": str(SESSION_MS),
            **auth,
        }  # fmt: skip

    def start(self, node: int, is_one_box: bool = False, **more: str) -> RunningBroker:
        zookeeper = {} if is_one_box else self.in_cluster()
        named = {name.replace("_", "."): value for name, value in more.items()}
        path = self.folder / str(node)
        path.mkdir(exist_ok=True)
        if node not in self._listeners:
            names = ("PLAINTEXT", "SASL_PLAINTEXT")
            self._listeners[node] = ",".join(f"{each}://127.0.0.1:{lasting_port()}"
                                             for each in names)  # fmt: skip
        named.setdefault("listeners", self._listeners[node])
        self.running[node] = RunningBroker(
            path, {**SETTINGS, "node.id": str(node), **zookeeper, **named}
        )
        return self.running[node]

    def stop(self, *nodes: int) -> None:
        for node in nodes:
            self.running.pop(node).stop()

    def admin(self, node: int) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.running[node].bootstrap})

    def until_known(self) -> None:
        """Each hears by itself of who came and who is gone."""

        def know_all() -> bool:
            told = [self.admin(each).list_topics(timeout=DEADLINE_S) for each in self.running]
            return all({*each.brokers} == {*self.running} for each in told)

        eventually(know_all)

    def create(self, node: int, topic: str, factor: int = 1) -> None:
        if factor > 1:
            self.until_known()
        admin = self.admin(node)
        admin.create_topics([NewTopic(topic, 1, factor)])[topic].result(DEADLINE_S)

    def make_user(self, node: int, name: str, password: str, iterations: int = 4096) -> None:
        salt = b"0123456789"
        upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
            name, 1, iterations, salt, salted("sha256", password, salt, iterations)
        )
        (found,) = self.ask(node, AlterUserScramCredentialsRequest(upsertions=[upsertion]),
                            AlterUserScramCredentialsResponse, 51, 0).results  # fmt: skip
        assert found.error_code == 0, found.error_message

    def ask(self, node: int, request: Any, response: type, key: int, version: int) -> Any:
        """Of that broker, whichever a client's library would have chosen."""
        host, port = self.running[node].bootstrap.rsplit(":", 1)
        with WireClient((host, int(port))) as client:
            client.send(frame_of(request, key, version))
            return client.answer(response, key, version)

    def login(self, node: int, name: str, password: str, **more: Any) -> dict[str, Any]:
        """Settings of a client that may come in."""
        return {
            "bootstrap.servers": self.running[node].addresses["SASL_PLAINTEXT"],
            "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": name, "sasl.password": password, **more,
        }  # fmt: skip

    def may_log_in(self, node: int, name: str, password: str) -> bool:
        host, port = self.running[node].addresses["SASL_PLAINTEXT"].rsplit(":", 1)
        with WireClient((host, int(port))) as client:
            return bool(log_in(client, name, password).error_code == 0)

    def iterations(self, node: int, name: str) -> list[int]:
        """Of the credentials that this broker knows."""
        wanted = [DescribeUserScramCredentialsRequest.UserName(name)]
        (found,) = self.ask(node, DescribeUserScramCredentialsRequest(wanted),
                            DescribeUserScramCredentialsResponse, 50, 0).results  # fmt: skip
        return [each.iterations for each in found.credential_infos]

    def produce(self, node: int, topic: str, values: list[str], **more: Any) -> list[Any]:
        """The errors."""
        faults: list[Any] = []
        settings = {"bootstrap.servers": self.running[node].bootstrap, "acks": "all",
                    "message.timeout.ms": round(1000 * DEADLINE_S), **more}  # fmt: skip
        producer = Producer(settings)
        for value in values:
            producer.produce(topic, value, on_delivery=lambda error, _: (
                faults.append(error) if error else None))  # fmt: skip
        producer.flush(2 * DEADLINE_S)
        return faults

    def consumer(self, node: int, group: str, **more: Any) -> Consumer:
        return Consumer({
            "bootstrap.servers": self.running[node].bootstrap, "group.id": group,
            "auto.offset.reset": "earliest", "enable.auto.commit": False, **more,
        })  # fmt: skip

    def values(self, node: int, topic: str, count: int) -> list[str]:
        consumer = self.consumer(node, "nobody")
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[str] = []
        end = time.monotonic() + DEADLINE_S
        while len(found) < count and time.monotonic() < end:
            found += [each.value().decode() for each in consumer.consume(count, 0.2)
                      if each.error() is None]  # fmt: skip
        consumer.close()
        return found


def eventually(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


@contextlib.contextmanager
def embedded_cluster(
    server: ZooKeeperServer, root: str, folder: Path
) -> Iterator[EmbeddedCluster]:
    found = EmbeddedCluster(server, root, folder)
    try:
        yield found
    finally:
        for each in [*found.running.values()]:
            each.stop()

"""Real clients log in to a real broker, by every mechanism, and with a wrong password."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import aiokafka
import aiokafka.errors
import confluent_kafka
import kafka
import kafka.errors
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from appliance.access.user_rows import UserRows
from appliance.admin.users import make_user
from appliance.catalog.catalog import NAME, Catalog
from appliance.testing import RunningBroker, running_broker
from tests.interop.kafka_tools import KafkaTools
from tests.support.release import gate_has

PASSWORD = "correct horse battery"
MECHANISMS = ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"]
DEADLINE_S = 20.0
REFUSED = confluent_kafka.KafkaError._AUTHENTICATION
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "sasl.secrets.without.encryption": "true",
}


def make_people(path: Path) -> None:
    """Ada may do everything; nobody has said what app may do."""
    path.mkdir(exist_ok=True)
    catalog = Catalog.open(path / NAME)
    for name, role in (("ada", "admin"), ("app", "none")):
        make_user(UserRows(catalog), name, role, PASSWORD)
    catalog.close()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    path = tmp_path_factory.mktemp("logins") / "data"
    make_people(path)
    with running_broker(path, SETTINGS) as running:
        yield running


@pytest.fixture(autouse=True)
def _what_clients_leave_open() -> Iterator[None]:
    """kafka-python does not close all of its sockets, whether it was refused or not."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


class Who(NamedTuple):
    broker: str
    mechanism: str
    user: str = "ada"
    password: str = PASSWORD

    @property
    def librdkafka(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.broker, "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": self.mechanism, "sasl.username": self.user,
            "sasl.password": self.password, "log_level": 0,
        }  # fmt: skip

    @property
    def of_python(self) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.broker, "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": self.mechanism, "sasl_plain_username": self.user,
            "sasl_plain_password": self.password,
        }  # fmt: skip


# Each sends a record to a topic and reads it back, or raises `Refused`.


class Refused(Exception):
    pass


def by_librdkafka(who: Who, topic: str) -> bytes:
    errors: list[confluent_kafka.KafkaError] = []
    producer = confluent_kafka.Producer({**who.librdkafka, "error_cb": errors.append})
    producer.produce(topic, b"by librdkafka")
    for _ in range(int(DEADLINE_S * 10)):
        left = producer.flush(0.1)
        refused = [one for one in errors if one.code() == REFUSED]
        if not left or refused:
            break
    if refused:
        raise Refused(refused[0].str())
    assert left == 0
    consumer = confluent_kafka.Consumer(
        {**who.librdkafka, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    message = consumer.poll(DEADLINE_S)
    consumer.close()
    assert message is not None
    assert message.error() is None
    return bytes(message.value() or b"")


def by_kafka_python(who: Who, topic: str) -> bytes:
    why = ""
    try:
        # it tries again until then, whatever it is refused for
        producer = kafka.KafkaProducer(**who.of_python, bootstrap_timeout_ms=5000)
    except kafka.errors.KafkaError as error:
        why = str(error)  # without its trace, which keeps what the client left open
    if why:
        raise Refused(why)
    with closing(producer):
        producer.send(topic, b"by kafka-python").get(DEADLINE_S)
    consumer = kafka.KafkaConsumer(
        topic, **who.of_python, auto_offset_reset="earliest", group_id=None,
        consumer_timeout_ms=int(DEADLINE_S * 1000),
    )  # fmt: skip
    with closing(consumer):
        return bytes(next(consumer).value)


def by_aiokafka(who: Who, topic: str) -> bytes:
    async def run() -> bytes:
        producer = aiokafka.AIOKafkaProducer(**who.of_python)
        try:
            await producer.start()
        except aiokafka.errors.KafkaError as error:
            raise Refused(str(error)) from error
        finally:
            if not producer._sender._sender_task:
                await producer.stop()
        await producer.send_and_wait(topic, b"by aiokafka")
        await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(
            topic, **who.of_python, auto_offset_reset="earliest", group_id=None
        )
        await consumer.start()
        message = await asyncio.wait_for(consumer.getone(), DEADLINE_S)
        await consumer.stop()
        return bytes(message.value)

    return asyncio.run(run())


CLIENTS: dict[str, Callable[[Who, str], bytes]] = {
    "librdkafka": by_librdkafka, "kafka-python": by_kafka_python, "aiokafka": by_aiokafka,
}  # fmt: skip


# Each client and each mechanism once; releases have all pairs.
PAIRS = [(client, mechanism) for client in CLIENTS for mechanism in MECHANISMS]
ONCE = list(zip(CLIENTS, MECHANISMS, strict=True))


@pytest.mark.parametrize(
    ("client", "mechanism"), gate_has(ONCE, "the gate has each client and mechanism once", PAIRS)
)
def test_a_client_logs_in_and_is_served(
    broker: RunningBroker, client: str, mechanism: str
) -> None:
    topic = f"{client}-{mechanism}"
    who = Who(broker.bootstrap, mechanism)
    admin = AdminClient(who.librdkafka)
    admin.create_topics([NewTopic(topic, 1)])[topic].result(DEADLINE_S)
    assert CLIENTS[client](who, topic) == f"by {client}".encode()


@pytest.mark.parametrize(
    ("client", "mechanism"), gate_has(ONCE[:1], "the gate has one client", PAIRS)
)
def test_a_wrong_password_is_refused(broker: RunningBroker, client: str, mechanism: str) -> None:
    who = Who(broker.bootstrap, mechanism, "app", "wrong")
    with pytest.raises(Refused):
        CLIENTS[client](who, "none")


JAVA = """security.protocol=SASL_PLAINTEXT
sasl.mechanism={mechanism}
sasl.jaas.config=org.apache.kafka.common.security.{module} required \\
  username="{user}" password="{password}";
"""


def of_java(path: Path, user: str, mechanism: str, password: str = PASSWORD) -> tuple[str, str]:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    file = path / f"{user}-{mechanism}-{len(password)}.properties"
    file.write_text(
        JAVA.format(mechanism=mechanism, module=module, user=user, password=password)
    )
    return "--command-config", str(file)


def test_kafkas_own_tools_log_in_and_make_users(broker: RunningBroker, tmp_path: Path) -> None:
    tools = KafkaTools(broker.bootstrap, tmp_path / "tools")
    try:
        for mechanism in MECHANISMS:
            tools.must("kafka-topics", "--list", *of_java(tmp_path, "ada", mechanism))
        wrong = of_java(tmp_path, "ada", "SCRAM-SHA-512", "wrong password")
        assert "Authentication failed" in tools.refused("kafka-topics", "--list", *wrong)
        made = "SCRAM-SHA-256=[iterations=4096,password=made by kafka]"
        tools.must("kafka-configs", "--alter", "--add-config", made, "--entity-type", "users",
                   "--entity-name", "jim", *of_java(tmp_path, "ada", "SCRAM-SHA-256"))  # fmt: skip
        jim = of_java(tmp_path, "jim", "SCRAM-SHA-256", "made by kafka")
        tools.must("kafka-topics", "--list", *jim)
        # who may do nothing makes no users
        words = ("--alter", "--add-config", made, "--entity-type", "users", "--entity-name", "ada")
        assert "authoriz" in tools.refused("kafka-configs", *words, *jim).lower()
    finally:
        tools.close()

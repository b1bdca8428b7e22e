"""The Apache Kafka of these tests with logins, TLS and rights: foreign clients log in to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from tests.interop.kafka_broker import KafkaBroker
from tests.interop.kafka_security import PROTOCOLS, Security, unsigned_token
from tests.support.certificates import Authority

ACLS = "org.apache.kafka.tools.AclCommand"

pytestmark = pytest.mark.release(
    "logins of Apache Kafka itself, which tests/interop/test_client_security.py also needs")


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    folder = tmp_path_factory.mktemp("kafka")
    users = {"admin": "admin-secret", "alice": "alice secret", "bob": "bob-secret"}
    security = Security(PROTOCOLS, users, ("User:admin",), authority=Authority(folder / "tls"))
    with KafkaBroker(folder / "node", security=security) as broker:
        broker.create_topic("theirs")
        broker.create_topic("hers")
        broker.tool(ACLS, "--add", "--allow-principal", "User:alice", "--operation", "Read",
                    "--topic", "hers")
        yield broker


def topics(kafka: KafkaBroker, protocol: str, mechanism: str, user: str, password: str) -> set[str]:
    assert kafka.security is not None
    assert kafka.security.authority is not None
    settings = {"bootstrap.servers": kafka.addresses[protocol], "security.protocol": protocol,
                "ssl.ca.location": str(kafka.security.authority.trust), "sasl.mechanism": mechanism,
                "sasl.username": user, "sasl.password": password}
    failures: list[KafkaError] = []
    admin = AdminClient({**settings, "error_cb": failures.append})
    try:
        return set(admin.list_topics(timeout=10).topics)
    except KafkaException:
        admin.poll(1)
        raise AssertionError(str(failures)) from None


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"])
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_users_log_in_and_see_what_they_may(kafka: KafkaBroker, protocol: str,
                                            mechanism: str) -> None:
    assert topics(kafka, protocol, mechanism, "alice", "alice secret") == {"hers"}
    assert topics(kafka, protocol, mechanism, "admin", "admin-secret") >= {"hers", "theirs"}


def test_a_wrong_password_is_refused(kafka: KafkaBroker) -> None:
    with pytest.raises(AssertionError, match="_AUTHENTICATION"):
        topics(kafka, "SASL_SSL", "SCRAM-SHA-256", "alice", "bob-secret")


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_who_needs_no_login_may_nothing(kafka: KafkaBroker, protocol: str) -> None:
    assert topics(kafka, protocol, "PLAIN", "", "") == set()


def test_an_unsigned_token_is_a_login(kafka: KafkaBroker) -> None:
    client = AdminClient({
        "bootstrap.servers": kafka.addresses["SASL_PLAINTEXT"],
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (unsigned_token("alice"), 2_000_000_000.0)})
    client.poll(0)
    assert set(client.list_topics(timeout=10).topics) == {"hers"}

"""Our client library logs in to Apache Kafka, over TLS and without, and says why it cannot."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from appliance.client import (
    CallbackHandler,
    FetchConfig,
    Outcome,
    Producer,
    ProducerConfig,
    SimpleConsumer,
)
from appliance.client.config import ClientConfig
from appliance.client.connection import Address, Connection
from appliance.client.errors import (
    BrokerUnavailable,
    ConfigInvalid,
    ConnectionLost,
    LoginFailed,
    TlsFailed,
)
from appliance.client.outcome import SendFailed
from appliance.client.security_config import OAUTHBEARER
from appliance.protocol.messages.metadata import API as METADATA
from appliance.protocol.messages.metadata import MetadataRequest
from tests.interop.kafka_broker import KafkaBroker
from tests.interop.kafka_security import (
    HASHES,
    MECHANISMS,
    PROTOCOLS,
    Security,
    listener,
    unsigned_token,
)
from tests.support.certificates import Authority, Certificate
from tests.support.release import gate_has

WITH_LOGIN, ENCRYPTED = ("SASL_PLAINTEXT", "SASL_SSL"), ("SSL", "SASL_SSL")
SESSION_MS = 1500  # of the listener SASL_SSL; Kafka renews no session twice in a second
TOPIC = "t"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def alice(authority: Authority) -> Certificate:
    return authority.issue("alice", hosts=(), password="key-secret")


@pytest.fixture(scope="module")
def kafka(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    sessions = listener("SASL_SSL", {"connections.max.reauth.ms": str(SESSION_MS)})
    needs = listener("SSL", {"ssl.client.auth": "required"})
    security = Security(PROTOCOLS, {"alice": "alice-secret"}, is_authorized=False,
                        authority=authority, settings={**sessions, **needs})
    with KafkaBroker(tmp_path_factory.mktemp("kafka"), security=security) as broker:
        broker.create_topic(TOPIC)
        yield broker


@pytest.fixture
def password_file(tmp_path: Path) -> str:
    path = tmp_path / "password"
    path.write_text("alice-secret\n")
    return str(path)


class Told(CallbackHandler):
    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def after_send(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)


def settings(kafka: KafkaBroker, protocol: str, mechanism: str = HASHES[0],
             **more: Any) -> dict[str, Any]:
    assert kafka.security is not None
    assert kafka.security.authority is not None
    made: dict[str, Any] = {"broker_list": kafka.addresses[protocol], "security_protocol": protocol}
    if protocol in ENCRYPTED:
        made["ssl_ca_location"] = str(kafka.security.authority.trust)
    if protocol in WITH_LOGIN:
        made["sasl_mechanism"] = mechanism
        if mechanism == OAUTHBEARER:
            made["sasl_oauthbearer_token"] = lambda: unsigned_token("alice")
        else:
            made |= {"sasl_username": "alice", "sasl_password": "alice-secret"}
    return {**made, **more}


def own(certificate: Certificate, folder: Path) -> dict[str, Any]:
    path = folder / "key-password"
    path.write_text(certificate.password)
    return {"ssl_certificate_location": str(certificate.certificate),
            "ssl_key_location": str(certificate.key), "ssl_key_password_file": str(path)}


def connected(made: dict[str, Any]) -> Connection:
    return Connection(Address.parse(made["broker_list"]), ClientConfig(**made))


def sent_and_read(made: dict[str, Any], values: list[bytes]) -> None:
    with Producer(ProducerConfig(**made)) as producer:
        begin = producer.send(TOPIC, values)[0].base_offset
    read: list[bytes | None] = []
    with SimpleConsumer(FetchConfig(**made)) as consumer:
        (partition,) = consumer.cluster.partitions(TOPIC)
        while len(read) < len(values):
            found = consumer.fetch(TOPIC, partition, begin + len(read))
            read += [message.value for message in found]
    assert read == values


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    gate_has([("SASL_SSL", "SCRAM-SHA-512"), ("SASL_PLAINTEXT", "PLAIN")], "the gate has two ways",
             [(protocol, each) for protocol in WITH_LOGIN for each in MECHANISMS]))
def test_records_go_through_each_login(kafka: KafkaBroker, protocol: str, mechanism: str) -> None:
    values = [b"%d" % number * 100 for number in range(1000)]
    sent_and_read(settings(kafka, protocol, mechanism), values)


def test_records_go_through_tls_with_the_clients_own_certificate(
    kafka: KafkaBroker, alice: Certificate, tmp_path: Path
) -> None:
    made = settings(kafka, "SSL", **own(alice, tmp_path))
    sent_and_read(made, [bytes([number]) * 300_000 for number in range(20)])


def test_secrets_come_from_files_and_the_environment(
    kafka: KafkaBroker, password_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = settings(kafka, "SASL_PLAINTEXT")
    del made["sasl_password"]
    connected({**made, "sasl_password_file": password_file}).close()
    monkeypatch.setenv("ALICES", "alice-secret")
    connected({**made, "sasl_password_env": "ALICES"}).close()
    monkeypatch.setenv("ALICES", "")
    with pytest.raises(ConfigInvalid, match="environment variable ALICES is empty"):
        connected({**made, "sasl_password_env": "ALICES"})
    token = tmp_path / "token"
    token.write_text(unsigned_token("alice"))
    made = settings(kafka, "SASL_PLAINTEXT", OAUTHBEARER)
    del made["sasl_oauthbearer_token"]
    connected({**made, "sasl_oauthbearer_token_file": str(token)}).close()


@pytest.mark.parametrize("mechanism", gate_has(
    ["SCRAM-SHA-512"], "the gate has one mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"]))
def test_a_wrong_password_says_user_and_mechanism_and_is_not_tried_again(
    kafka: KafkaBroker, mechanism: str
) -> None:
    made = settings(kafka, "SASL_PLAINTEXT", mechanism, sasl_password="not-hers")
    begun = time.monotonic()
    with Producer(ProducerConfig(**made)) as producer, pytest.raises(SendFailed) as caught:
        producer.send(TOPIC, b"never")
    assert time.monotonic() - begun < 10  # and not delivery_timeout_ms
    (outcome,) = caught.value.outcomes
    assert isinstance(outcome.error, LoginFailed)
    assert "user 'alice'" in str(outcome.error)
    assert mechanism in str(outcome.error)
    assert "not-hers" not in repr(outcome) + repr(caught.value) + repr(producer.config)
    assert not outcome.may_be_written


def test_a_queue_of_records_is_given_up_with_the_login(
    kafka: KafkaBroker, password_file: str
) -> None:
    """Metadata came in time, and then the password changed."""
    told = Told()
    made = settings(kafka, "SASL_PLAINTEXT", sasl_password="", sasl_password_file=password_file)
    config = ProducerConfig(**made, producer_type="async", queue_time=1)
    with Producer(config, callback_handler=told) as producer:
        assert producer.cluster.partitions(TOPIC)
        Path(password_file).write_text("not-hers")
        producer.send(TOPIC, [b"never"] * 10)
        producer.flush()
    assert {type(each.error) for each in told.outcomes} == {LoginFailed}


def test_an_expired_token_is_refused(kafka: KafkaBroker) -> None:
    made = settings(kafka, "SASL_PLAINTEXT", OAUTHBEARER,
                    sasl_oauthbearer_token=lambda: unsigned_token("alice", -60))
    with pytest.raises(LoginFailed, match="login of a token by OAUTHBEARER failed"):
        connected(made)


def test_a_function_that_finds_no_token_may_find_one_later(kafka: KafkaBroker) -> None:
    def raises() -> str:
        raise OSError("https://secret@tokens")

    made = settings(kafka, "SASL_PLAINTEXT", OAUTHBEARER, sasl_oauthbearer_token=raises)
    with pytest.raises(BrokerUnavailable, match=r"sasl_oauthbearer_token raised OSError$"):
        connected(made)
    made["sasl_oauthbearer_token"] = lambda: b"bytes"
    with pytest.raises(ConfigInvalid, match="returned bytes, wanted a token"):
        connected(made)


def test_a_session_is_renewed_on_its_connection_among_other_requests(kafka: KafkaBroker) -> None:
    with connected(settings(kafka, "SASL_SSL")) as connection:
        port = connection._socket.getsockname()[1]
        end = time.monotonic() + 3 * SESSION_MS / 1000
        asked: list[int] = []
        while time.monotonic() < end:
            asked.append(connection.send(METADATA, MetadataRequest(topics=[])))
            if len(asked) == 5:
                got, answer = connection.receive()
                assert got == asked.pop(0)
                assert answer.brokers
        assert connection.in_flight == 4
        assert [connection.receive()[0] for _ in range(4)] == asked
        assert connection._socket.getsockname()[1] == port


def test_a_session_that_is_not_renewed_ends(
    kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the test above shows something."""
    monkeypatch.setattr("appliance.client.login.RENEWED_FROM", 1e6)
    monkeypatch.setattr("appliance.client.login.RENEWED_TO", 1e6)
    end = time.monotonic() + 20
    with connected(settings(kafka, "SASL_SSL")) as connection:
        while connection.is_open and time.monotonic() < end:
            with suppress(ConnectionLost):
                connection.ask(METADATA, MetadataRequest(topics=[]))
        assert not connection.is_open


def test_a_producer_with_much_in_flight_renews_its_session(kafka: KafkaBroker) -> None:
    config = ProducerConfig(**settings(kafka, "SASL_SSL"), batch_size=1000,
                            producer_type="async", queue_time=1)
    end = time.monotonic() + 2 * SESSION_MS / 1000
    count = 0
    with Producer(config) as producer:
        while time.monotonic() < end:
            producer.send(TOPIC, [b"%d" % number * 50 for number in range(2000)])
            count += 2000
        producer.flush()
    assert count


# TLS


def test_an_authority_that_is_not_trusted_is_named(kafka: KafkaBroker, tmp_path: Path) -> None:
    other = Authority(tmp_path, "Somebody else")
    made = settings(kafka, "SASL_SSL", ssl_ca_location=str(other.trust))
    with pytest.raises(TlsFailed, match=f"ssl_ca_location, {other.trust}"):
        connected(made)
    with pytest.raises(TlsFailed, match="the authorities of the system"):
        connected({**made, "ssl_ca_location": ""})


def test_a_certificate_for_another_host_is_refused(kafka: KafkaBroker) -> None:
    made = settings(kafka, "SASL_SSL")
    port = made["broker_list"].rpartition(":")[2]
    with pytest.raises(TlsFailed, match=r"not for '127\.1'"):
        connected({**made, "broker_list": f"127.1:{port}"})
    made["ssl_endpoint_identification_algorithm"] = "none"
    connected({**made, "broker_list": f"127.1:{port}"}).close()


def test_a_broker_that_wants_a_certificate_gets_one_named(
    kafka: KafkaBroker, alice: Certificate, tmp_path: Path
) -> None:
    made = settings(kafka, "SSL")
    with pytest.raises((TlsFailed, BrokerUnavailable), match="ssl_certificate_location is empty"):
        connected(made)
    stranger = Authority(tmp_path / "other").issue("stranger", hosts=())
    named = {"ssl_certificate_location": str(stranger.both)}
    with pytest.raises((TlsFailed, BrokerUnavailable), match="ssl_certificate_location is /"):
        connected({**made, **named})
    connected({**made, **own(alice, tmp_path)}).close()


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ({"ssl_ca_location": "/nowhere"}, "ssl_ca_location: cannot read /nowhere"),
        ({"ssl_ca_location": __file__}, "ssl_ca_location: .* has no certificate in PEM"),
        ({"ssl_certificate_location": "/nowhere"}, "ssl_certificate_location: cannot read"),
        ({"ssl_certificate_location": __file__}, "no certificate and key in PEM"),
        ({"ssl_key_location": "/nowhere"}, "ssl_key_location: cannot read"),
        ({"ssl_key_password_file": ""}, "the key is encrypted, ssl_key_password_file is not set"),
        ({"ssl_key_password_file": __file__}, "ssl_key_password_file: .* longer than 1024 bytes"),
        ({"ssl_key_password_file": "/proc/sys/kernel/ostype"}, "file has another password"),
    ],
)
def test_a_file_that_does_not_fit_is_named(
    kafka: KafkaBroker, alice: Certificate, tmp_path: Path, change: dict[str, str], fact: str
) -> None:
    with pytest.raises(ConfigInvalid, match=fact):
        connected({**settings(kafka, "SSL"), **own(alice, tmp_path), **change})


def test_a_key_of_another_certificate_is_named(
    kafka: KafkaBroker, authority: Authority, alice: Certificate
) -> None:
    bob = authority.issue("bob", hosts=())
    named = {"ssl_certificate_location": str(alice.certificate), "ssl_key_location": str(bob.key)}
    with pytest.raises(ConfigInvalid, match="the key is not that of"):
        connected({**settings(kafka, "SSL"), **named})


# another protocol than that of the listener


@pytest.mark.parametrize(
    ("ours", "theirs", "fact"),
    [
        ("PLAINTEXT", "SSL", "security_protocol is PLAINTEXT"),
        ("PLAINTEXT", "SASL_PLAINTEXT", "may want a login: security_protocol is PLAINTEXT"),
        ("SASL_PLAINTEXT", "PLAINTEXT", "this listener takes no logins"),
        ("SSL", "PLAINTEXT", "security_protocol is SSL"),
        ("SASL_PLAINTEXT", "SASL_SSL", "security_protocol is SASL_PLAINTEXT"),
        ("SASL_SSL", "SASL_PLAINTEXT", "security_protocol is SASL_SSL"),
    ],
)
def test_another_protocol_than_the_listeners_is_named(
    kafka: KafkaBroker, ours: str, theirs: str, fact: str
) -> None:
    made = settings(kafka, ours, broker_list=kafka.addresses[theirs], connect_timeout_ms=3000)
    with pytest.raises((TlsFailed, LoginFailed, BrokerUnavailable), match=fact):
        connected(made).ask(METADATA, MetadataRequest(topics=[]))

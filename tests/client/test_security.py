"""Our client library logs in to our own broker over TLS, by every mechanism and by a certificate,
and says why it cannot. tests/interop/test_client_security.py has Apache Kafka in its place."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jwt
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from cryptography.hazmat.primitives.asymmetric import ec

from appliance.client import (
    ConsumerConfig,
    ConsumerConnector,
    FetchConfig,
    Producer,
    ProducerConfig,
    SimpleConsumer,
    login,
)
from appliance.client.config import ClientConfig
from appliance.client.connection import Address, Connection
from appliance.client.errors import BrokerRefused, BrokerUnavailable, LoginFailed, TlsFailed
from appliance.client.outcome import SendFailed
from appliance.protocol import ErrorCode
from appliance.protocol.messages.metadata import API as METADATA
from appliance.protocol.messages.metadata import MetadataRequest
from appliance.testing import Login, RunningBroker, running_broker
from appliance.zookeeper.server import ZooKeeperServer
from tests.support.certificates import Authority, Certificate
from tests.support.producing import Heard, numbered
from tests.support.release import gate_has

ADA = Login("ada", "correct horse battery")
FEED = Login("feed", "battery horse correct", "operator")
BOB = Login("bob", "horse battery correct", "none")
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER")
ISSUER, AUDIENCE = "https://id.example", "appliance"
KEY = ec.generate_private_key(ec.SECP256R1())
SESSION_MS = 10_000
TOPIC, ROOT = "t", "/secured"


def settings_of(authority: Authority, server: ZooKeeperServer, keys: Path) -> dict[str, str]:
    known = {**json.loads(jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key())), "kid": "a"}
    keys.write_text(json.dumps({"keys": [known]}))
    protocols = ("SASL_SSL", "SSL", "SASL_PLAINTEXT", "PLAINTEXT")
    names = (*protocols, "SESSIONS")
    return {
        "listeners": ",".join(f"{each}://127.0.0.1:0" for each in names),
        "listener.security.protocol.map": ",".join(
            [*(f"{each}:{each}" for each in protocols), "SESSIONS:SASL_SSL"]
        ),
        "listener.name.sessions.connections.max.reauth.ms": str(SESSION_MS),
        "listener.name.ssl.ssl.client.auth": "required",
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}",
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "ssl.keystore.location": str(authority.keystore()),
        "ssl.truststore.location": str(authority.trust),
        "super.users": "User:CN=carl",
        "zookeeper.format": "original",
        "zookeeper.connect": f"{server.address}{ROOT}",
    }


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def carl(authority: Authority) -> Certificate:
    return authority.issue("carl", hosts=())


@pytest.fixture(scope="module")
def broker(
    authority: Authority, server: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    folder = tmp_path_factory.mktemp("secured")
    settings = settings_of(authority, server, folder / "keys.json")
    with running_broker(folder / "data", settings, logins=[ADA, FEED, BOB]) as made:
        yield made


@pytest.fixture(scope="module")
def ada(broker: RunningBroker, authority: Authority) -> AdminClient:
    """The administrator."""
    trust = {"ssl.ca.location": str(authority.trust)}
    return AdminClient({**broker.client_settings("ada"), **trust, "log_level": 0})


@pytest.fixture(scope="module")
def topic(ada: AdminClient) -> None:
    ada.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(20)


@pytest.fixture
def config(broker: RunningBroker, authority: Authority, topic: None) -> ClientConfig:
    """Of the one who may write and read."""
    return ClientConfig(
        broker_list=broker.bootstrap, security_protocol="SASL_SSL",
        ssl_ca_location=str(authority.trust), sasl_username=FEED.user, sasl_password=FEED.password,
    )  # fmt: skip


def token(**more: Any) -> str:
    now = int(time.time())
    facts = {"sub": FEED.user, "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 300}
    return jwt.encode({**facts, **more}, KEY, "ES256", {"kid": "a"})


def by_token(config: ClientConfig, text: str) -> ClientConfig:
    return replace(config, sasl_mechanism="OAUTHBEARER", sasl_username="", sasl_password="",
                   sasl_oauthbearer_token=lambda: text)  # fmt: skip


def connected(config: ClientConfig) -> Connection:
    return Connection(Address.parse(config.broker_list), config)


def produce(config: ClientConfig, values: list[bytes | None]) -> int:
    settings = ProducerConfig.secured(config, broker_list=config.broker_list)
    with Producer(settings) as producer:
        return producer.send(TOPIC, values)[0].base_offset


def consume(config: ClientConfig, offset: int, count: int) -> list[bytes | None]:
    read: list[bytes | None] = []
    settings = FetchConfig.secured(config, broker_list=config.broker_list)
    with SimpleConsumer(settings) as consumer:
        (partition,) = consumer.cluster.partitions(TOPIC)
        while len(read) < count:
            found = consumer.fetch(TOPIC, partition, offset + len(read))
            read += [message.value for message in found]
    return read


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_records_go_through_each_login(config: ClientConfig, mechanism: str) -> None:
    is_token = mechanism == "OAUTHBEARER"
    way = by_token(config, token()) if is_token else replace(config, sasl_mechanism=mechanism)
    values = numbered(1000)
    assert consume(way, produce(way, values), 1000) == values


def test_large_records_go_through_tls_with_the_clients_own_certificate(
    broker: RunningBroker, config: ClientConfig, carl: Certificate
) -> None:
    way = ClientConfig(
        broker_list=broker.addresses["SSL"], security_protocol="SSL",
        ssl_ca_location=config.ssl_ca_location, ssl_certificate_location=str(carl.both),
    )  # fmt: skip
    values: list[bytes | None] = [bytes([number]) * 300_000 for number in range(10)]
    assert consume(way, produce(way, values), 10) == values


def test_a_group_finds_its_broker_in_zookeeper_and_reads_over_tls(
    server: ZooKeeperServer, config: ClientConfig
) -> None:
    begin = produce(config, numbered(100))
    security = ConsumerConfig.secured(
        config, zk_connect=f"{server.address}{ROOT}", group_id="g", autooffset_reset="smallest"
    )
    with ConsumerConnector(security) as connector:
        (stream,) = connector.create_message_streams({TOPIC: 1})[TOPIC]
        while (message := next(stream)).offset < begin:
            pass
        assert [message.value, *(next(stream).value for _ in range(99))] == numbered(100)


def test_a_session_is_renewed_on_its_connection_among_other_requests(
    broker: RunningBroker, config: ClientConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    # early, so that it outlives a client that is kept from the processors for seconds
    for name, part in (("RENEWED_FROM", 0.03), ("RENEWED_TO", 0.05)):
        monkeypatch.setattr(login, name, part)
    with connected(replace(config, broker_list=broker.addresses["SESSIONS"])) as connection:
        port, due = connection._socket.getsockname()[1], {connection._login_due}
        asked: list[int] = []
        while len(due) < 3:
            asked.append(connection.send(METADATA, MetadataRequest(topics=[])))
            if len(asked) == 5:
                got, answer = connection.receive()
                assert got == asked.pop(0)
                assert answer.brokers
            due.add(connection._login_due)
        assert [connection.receive()[0] for _ in range(len(asked))] == asked
        assert connection._socket.getsockname()[1] == port


# What keeps a client out


@pytest.mark.parametrize(
    "mechanism",
    gate_has(["SCRAM-SHA-512", "PLAIN"], "one with a proof, one without", MECHANISMS[:3]),
)
def test_a_wrong_password_says_user_and_mechanism_and_is_not_tried_again(
    config: ClientConfig, mechanism: str
) -> None:
    wrong = replace(config, sasl_mechanism=mechanism, sasl_password="not the one of feed")
    begin = time.monotonic()
    with pytest.raises(SendFailed) as caught:
        produce(wrong, [b"never"])
    assert time.monotonic() - begin < 10  # and not delivery_timeout_ms
    (outcome,) = caught.value.outcomes
    assert isinstance(outcome.error, LoginFailed)
    assert f"login of user 'feed' by {mechanism} failed" in str(outcome.error)
    assert "not the one" not in repr(outcome) + repr(caught.value)
    assert not outcome.may_be_written


@pytest.mark.parametrize("guess", ["password", "e"])
def test_an_answer_with_the_letters_of_the_password_does_not_confirm_it(
    config: ClientConfig, guess: str
) -> None:
    with pytest.raises(LoginFailed) as caught:
        connected(replace(config, sasl_password=guess))
    assert "the answer has the letters of the secret in it, and is not shown" in str(caught.value)


@pytest.mark.parametrize("claims", [{"exp": 1}, {"iss": "https://other.example"}, {"aud": "x"}])
def test_a_token_that_is_not_good_is_refused(config: ClientConfig, claims: dict[str, Any]) -> None:
    with pytest.raises(LoginFailed, match="login of a token by OAUTHBEARER failed") as caught:
        connected(by_token(config, token(**claims)))
    assert token(**claims) not in str(caught.value)


def test_a_mechanism_that_is_not_offered_is_named_with_those_that_are(
    broker: RunningBroker, config: ClientConfig
) -> None:
    plain = replace(config, broker_list=broker.addresses["SASL_PLAINTEXT"], ssl_ca_location="",
                    security_protocol="SASL_PLAINTEXT")  # fmt: skip
    with pytest.raises(LoginFailed, match=r"sasl_mechanism: this listener offers SCRAM-SHA-256$"):
        connected(plain)
    connected(replace(plain, sasl_mechanism="SCRAM-SHA-256")).close()


def test_an_authority_that_is_not_trusted_is_named(config: ClientConfig, tmp_path: Path) -> None:
    other = Authority(tmp_path, "Somebody else")
    with pytest.raises(TlsFailed, match=f"nobody in ssl_ca_location, {other.trust}"):
        connected(replace(config, ssl_ca_location=str(other.trust)))


def test_a_certificate_for_another_host_is_refused(config: ClientConfig) -> None:
    elsewhere = config.broker_list.replace("127.0.0.1", "127.0.0.2")
    wrong = replace(config, broker_list=elsewhere)
    with pytest.raises(BrokerUnavailable):  # nobody listens there: so it is the name below
        connected(wrong)
    port = config.broker_list.rpartition(":")[2]
    with pytest.raises(TlsFailed, match=r"its certificate is not for '127\.1'"):
        connected(replace(config, broker_list=f"127.1:{port}"))


def test_a_broker_that_wants_a_certificate_gets_the_setting_named(
    broker: RunningBroker, config: ClientConfig, tmp_path: Path
) -> None:
    way = ClientConfig(broker_list=broker.addresses["SSL"], security_protocol="SSL",
                       ssl_ca_location=config.ssl_ca_location)  # fmt: skip
    with pytest.raises(TlsFailed, match=r"wants a certificate .*location is empty"):
        connected(way)
    stranger = Authority(tmp_path / "other").issue("stranger", hosts=())
    with pytest.raises(TlsFailed, match=f"ssl_certificate_location is {stranger.both}"):
        connected(replace(way, ssl_certificate_location=str(stranger.both)))


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
    broker: RunningBroker, config: ClientConfig, ours: str, theirs: str, fact: str
) -> None:
    given: dict[str, Any] = {"broker_list": broker.addresses[theirs], "connect_timeout_ms": 3000}
    if ours.startswith("SASL"):
        given |= {"sasl_username": FEED.user, "sasl_password": FEED.password,
                  "sasl_mechanism": "SCRAM-SHA-256"}  # fmt: skip
    if ours.endswith("SSL"):
        given["ssl_ca_location"] = config.ssl_ca_location
    wrong = ClientConfig(security_protocol=ours, **given)
    with pytest.raises((TlsFailed, LoginFailed, BrokerUnavailable), match=fact):
        connected(wrong).ask(METADATA, MetadataRequest(topics=[]))


# What a client may not do


def test_who_may_nothing_is_told_the_topic_and_the_error(config: ClientConfig) -> None:
    nobody = replace(config, sasl_username=BOB.user, sasl_password=BOB.password)
    with pytest.raises(SendFailed) as caught:
        produce(nobody, [b"never"])
    (outcome,) = caught.value.outcomes
    assert isinstance(outcome.error, BrokerRefused)
    assert outcome.error.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert str(outcome.error) == "topic 't': TOPIC_AUTHORIZATION_FAILED"
    with pytest.raises(BrokerRefused, match="'t': TOPIC_AUTHORIZATION_FAILED"):
        consume(nobody, 0, 1)


def test_a_right_that_is_withdrawn_ends_what_is_queued(
    ada: AdminClient, config: ClientConfig
) -> None:
    """At the next look at the topic, which says that there is none that this user may see: not
    after all the time that a delivery may take, and nobody waits for ever."""
    rule = AclBinding(ResourceType.TOPIC, TOPIC, ResourcePatternType.LITERAL, "User:bob", "*",
                      AclOperation.WRITE, AclPermissionType.ALLOW)  # fmt: skip
    ada.create_acls([rule])[rule].result(20)
    given = replace(config, sasl_username=BOB.user, sasl_password=BOB.password)
    settings = ProducerConfig.secured(
        given, broker_list=given.broker_list, producer_type="async", queue_time=1,
        metadata_max_age_ms=1,
    )  # fmt: skip
    heard = Heard()
    with Producer(settings, callback_handler=heard) as producer:
        producer.send(TOPIC, numbered(10))
        flushed(producer)
        assert len(heard.values(acknowledged=True)) == 10
        same = AclBindingFilter(*astuple_of(rule))
        assert ada.delete_acls([same])[same].result(20) == [rule]
        producer.send(TOPIC, numbered(10))
        flushed(producer)
    assert len(heard.values(acknowledged=False)) == 10
    codes = {each.error.code for each in heard.outcomes if isinstance(each.error, BrokerRefused)}
    assert codes == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}


def flushed(producer: Producer) -> None:
    """Within the time of a test, not that of a delivery."""
    thread = threading.Thread(target=producer.flush, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "flush waits"


def astuple_of(rule: AclBinding) -> tuple[Any, ...]:
    return (rule.restype, rule.name, rule.resource_pattern_type, rule.principal, rule.host,
            rule.operation, rule.permission_type)  # fmt: skip

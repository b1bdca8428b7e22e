"""Real clients over TLS 1.2 and 1.3, by logins and by certificates, with rights that Kafka's own
tools gave them; and what keeps them out."""

from __future__ import annotations

import gc
import json
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import confluent_kafka
import jwt
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from cryptography.hazmat.primitives.asymmetric import ec

from appliance.access.user_rows import UserRows
from appliance.admin.users import make_user
from appliance.catalog.catalog import NAME, Catalog
from appliance.testing import RunningBroker, running_broker
from tests.interop.kafka_tools import KafkaTools
from tests.interop.secure_clients import (
    CLIENTS,
    DEADLINE_S,
    OAUTHBEARER,
    PLAIN,
    VALUES,
    ByJava,
    Refused,
    Way,
)
from tests.support.certificates import Authority
from tests.support.release import gate_has

PASSWORD, MADE_BY_KAFKA = "correct horse battery", "made by kafka-configs"
CERTIFICATE = "certificate"
WAYS = ("SCRAM-SHA-512", CERTIFICATE, "SCRAM-SHA-256", PLAIN, OAUTHBEARER)
TLS_1_2, TLS_1_3 = "TLSv1.2", "TLSv1.3"
VERSIONS = {"12": TLS_1_2, "13": TLS_1_3}
NAMES = (*CLIENTS, "java")
WRONG = ("another authority", "another name", "no certificate")

# Who may write to topics `t-...` and read them in groups `g-...`. The certificate's name is that
# of its subject, as Kafka writes it.
SUBJECT, PRINCIPAL = "/O=Box/CN=carl", "CN=carl,O=Box"
PEOPLE = ("scram", "plain", "token", PRINCIPAL)
USERS = {PLAIN: "plain", OAUTHBEARER: "token"}  # all others: scram
ISSUER, AUDIENCE = "https://id.example", "appliance"
KEY = ec.generate_private_key(ec.SECP256R1())

# What the gate has one of; releases have all of them.
CAN = [
    (client, way, version)
    for client, way, version in product(NAMES, WAYS, VERSIONS)
    if way != OAUTHBEARER or client not in ("kcat", "java")
]  # these want a server for tokens
ONE_EACH = [
    ("librdkafka", CERTIFICATE, "12"), ("kafka-python", "SCRAM-SHA-512", "13"),
    ("aiokafka", CERTIFICATE, "13"), ("kcat", "SCRAM-SHA-512", "12"), ("java", CERTIFICATE, "13"),
]  # fmt: skip
REFUSED_ONCE = [
    ("librdkafka", "another authority", "13"), ("kafka-python", "another name", "12"),
    ("aiokafka", "no certificate", "12"), ("kcat", "no certificate", "13"),
    ("java", "another name", "13"),
]  # fmt: skip


def settings_of(authority: Authority, folder: Path) -> dict[str, str]:
    """Two listeners for each version, one with logins, one with certificates, and one whose
    certificate is for somewhere else."""
    names = [f"{kind}{version}" for version in VERSIONS for kind in ("LOGIN", "CERT", "ELSEWHERE")]
    protocols = {each: "SASL_SSL" if each.startswith("LOGIN") else "SSL" for each in names}
    keys = folder / "keys.json"
    known = {**json.loads(jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key())), "kid": "a"}
    keys.write_text(json.dumps({"keys": [known]}))
    made = {
        "listeners": ",".join(f"{each}://127.0.0.1:0" for each in names),
        "listener.security.protocol.map": ",".join(map(":".join, protocols.items())),
        "sasl.enabled.mechanisms": ",".join(each for each in WAYS if each != CERTIFICATE),
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}",
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "ssl.keystore.location": str(authority.issue("server").both),
        "ssl.truststore.location": str(authority.trust),
    }
    elsewhere = authority.issue("elsewhere", hosts=("elsewhere.example",))
    for number, version in VERSIONS.items():
        for kind in ("LOGIN", "CERT", "ELSEWHERE"):
            made[f"listener.name.{kind.lower()}{number}.ssl.enabled.protocols"] = version
        made[f"listener.name.cert{number}.ssl.client.auth"] = "required"
        own = f"listener.name.elsewhere{number}.ssl.keystore.location"
        made[own] = str(elsewhere.both)
    return made


def make_people(path: Path) -> None:
    path.mkdir(exist_ok=True)
    catalog = Catalog.open(path / NAME)
    for name, role in (("ada", "admin"), ("plain", "none")):
        make_user(UserRows(catalog), name, role, PASSWORD)
    catalog.close()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def broker(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    path = tmp_path_factory.mktemp("tls-clients") / "data"
    make_people(path)
    with running_broker(path, settings_of(authority, path.parent)) as running:
        yield running


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ByJava]:
    folder = tmp_path_factory.mktemp("java")
    tools = KafkaTools("", folder / "tools")
    yield ByJava(tools, folder)
    tools.close()


@pytest.fixture(autouse=True)
def _what_clients_leave_open() -> Iterator[None]:
    """kafka-python and aiokafka do not close all of their sockets when they are kept out."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


WayOf = Callable[[str, str], Way]


@pytest.fixture(scope="module")
def way_of(broker: RunningBroker, authority: Authority, java: ByJava) -> WayOf:
    """What a client comes in by: Kafka's tools have made the users, and said what they may do."""
    ada = Way(broker.addresses["LOGIN13"], authority.trust, "SCRAM-SHA-512", "ada", PASSWORD)
    for each in ("SCRAM-SHA-256", "SCRAM-SHA-512"):  # Kafka takes one at a time
        made = f"{each}=[iterations=4096,password={MADE_BY_KAFKA}]"
        java.run(ada, "kafka-configs", "--alter", "--add-config", made, "--entity-type", "users",
                 "--entity-name", "scram")  # fmt: skip
    people = [word for each in PEOPLE for word in ("--allow-principal", f"User:{each}")]
    both = ("--add", "--resource-pattern-type", "prefixed", "--topic", "t-", *people)
    java.run(ada, "kafka-acls", *both, "--producer")
    java.run(ada, "kafka-acls", *both, "--consumer", "--group", "g-")
    admin = AdminClient(ada.of_confluent)
    topics = [NewTopic(topic_of(*each), 1) for each in CAN] + [NewTopic("secret", 1)]
    for each in admin.create_topics(topics).values():
        each.result(DEADLINE_S)
    carl = authority.issue("carl", hosts=(), subject=SUBJECT)

    def found(way: str, version: str) -> Way:
        if way == CERTIFICATE:
            return Way(broker.addresses[f"CERT{version}"], authority.trust, certificate=carl)
        address = broker.addresses[f"LOGIN{version}"]
        if way == OAUTHBEARER:
            return Way(address, authority.trust, OAUTHBEARER, token=token())
        user = USERS.get(way, "scram")
        password = PASSWORD if way == PLAIN else MADE_BY_KAFKA
        return Way(address, authority.trust, way, user, password)

    return found


def token() -> str:
    now = int(time.time())
    facts = {"sub": "token", "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 300}
    return jwt.encode(facts, KEY, "ES256", {"kid": "a"})


def topic_of(client: str, way: str, version: str) -> str:
    return f"t-{client}-{way}-{version}"


@pytest.fixture
def clients(java: ByJava) -> dict[str, Callable[[Way, str], list[bytes]]]:
    return {**CLIENTS, "java": java}


Clients = dict[str, Callable[[Way, str], list[bytes]]]


@pytest.mark.parametrize(
    ("client", "way", "version"),
    gate_has(ONE_EACH, "each client by one of the ways, each way over one of the versions", CAN),
)
def test_a_client_writes_and_reads_in_a_group(
    way_of: WayOf, clients: Clients, client: str, way: str, version: str
) -> None:
    topic = topic_of(client, way, version)
    assert clients[client](way_of(way, version), topic) == VALUES


@pytest.mark.parametrize(
    ("client", "wrong", "version"),
    gate_has(
        REFUSED_ONCE, "each client is kept out by one of these", product(NAMES, WRONG, VERSIONS)
    ),
)
def test_a_client_is_kept_out(
    way_of: WayOf, broker: RunningBroker, authority: Authority, clients: Clients, tmp_path: Path,
    client: str, wrong: str, version: str,
) -> None:  # fmt: skip
    right = way_of(CERTIFICATE, version)
    if wrong == "another authority":
        way = Way(
            right.address, Authority(tmp_path, "another").trust, certificate=right.certificate
        )
    elif wrong == "another name":
        way = Way(broker.addresses[f"ELSEWHERE{version}"], right.trust)
    else:
        way = Way(right.address, right.trust)
    with pytest.raises(Refused, match=r"(?i)ssl|certificate|handshake|bootstrap"):
        clients[client](way, "t-nothing")


@pytest.mark.parametrize(
    ("way", "version"),
    gate_has(
        [(CERTIFICATE, "12"), ("SCRAM-SHA-512", "13")],
        "one login and one certificate",
        product(WAYS, VERSIONS),
    ),
)
def test_what_no_rule_allows_is_refused(way_of: WayOf, way: str, version: str) -> None:
    """So what the others do is what they may."""
    producer = confluent_kafka.Producer(way_of(way, version).of_confluent)
    told: list[confluent_kafka.KafkaError | None] = []
    producer.produce("secret", b"x", on_delivery=lambda error, _: told.append(error))
    producer.flush(DEADLINE_S)
    assert [each and each.code() for each in told] == [
        confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED
    ]

"""The mirror between clusters of which each has its own logins, TLS and rights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pytest
from click.testing import CliRunner, Result
from confluent_kafka.admin import AdminClient, NewTopic

from appliance.cli.main import main
from appliance.client.config import ClientConfig
from appliance.testing import RunningBroker, running_broker
from tests.interop.kafka_broker import KafkaBroker
from tests.interop.kafka_security import Security
from tests.support.certificates import Authority
from tests.support.mirror_load import held

ACLS = "org.apache.kafka.tools.AclCommand"
PARTITIONS, RECORDS = 3, 3000

# What docs/mirror.md says that a mirror needs in a target and in a source.
RIGHTS = [
    ["--topic", "t", *(word for each in ("Create", "Alter", "AlterConfigs", "DescribeConfigs",
                                         "Write", "Read")
                       for word in ("--operation", each))],
    ["--topic", "mirror.mirror.", "--resource-pattern-type", "prefixed",
     *(word for each in ("Create", "DescribeConfigs", "Write", "Read")
       for word in ("--operation", each))],
    ["--transactional-id", "mirror", "--resource-pattern-type", "prefixed",
     "--operation", "Write"],
]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    folder = tmp_path_factory.mktemp("kafka")
    security = Security(("SASL_SSL", "SASL_PLAINTEXT"), {"mirror": "mirror-secret"},
                        authority=Authority(folder / "tls"))
    with KafkaBroker(folder / "node", security=security) as broker:
        for each in RIGHTS:
            broker.tool(ACLS, "--add", "--allow-principal", "User:mirror", *each)
        yield broker


@pytest.fixture
def source(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "source") as broker:
        asked = AdminClient({"bootstrap.servers": broker.bootstrap})
        asked.create_topics([NewTopic("t", PARTITIONS)])["t"].result(30)
        producer = ck.Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(RECORDS):
            producer.produce("t", f"value {number}", partition=number % PARTITIONS)
        assert producer.flush(30) == 0
        yield broker


def words_of(side: str, settings: dict[str, str]) -> list[str]:
    return [word for name, text in settings.items() for word in ("--set", f"{side}.{name}={text}")]


def login(kafka: KafkaBroker, protocol: str, folder: Path, password: str = "mirror-secret",
          mechanism: str = "SCRAM-SHA-512") -> dict[str, str]:
    path = folder / "password"
    path.write_text(password)
    assert kafka.security is not None
    assert kafka.security.authority is not None
    trust = {"ssl.ca.location": str(kafka.security.authority.trust)}
    return {"security.protocol": protocol, "sasl.mechanism": mechanism, "sasl.username": "mirror",
            "sasl.password.file": str(path), **(trust if protocol == "SASL_SSL" else {})}


def mirrored(source: str, target: str, *words: str) -> Result:
    return CliRunner().invoke(main, ["mirror", "--from", source, "--to", target, "--topics", "t",
                                     "--once", "--json", *words])


def test_there_and_back_with_only_the_documented_rights(
    kafka: KafkaBroker, source: RunningBroker, tmp_path: Path
) -> None:
    encrypted = login(kafka, "SASL_SSL", tmp_path)
    there = mirrored(source.bootstrap, kafka.addresses["SASL_SSL"], *words_of("target", encrypted))
    assert there.exit_code == 0, there.output
    row = json.loads(there.stdout.splitlines()[-1])
    assert (row["records"], row["lag"], row["refused"]) == (RECORDS, 0, {})
    settings: dict[str, Any] = {name.replace(".", "_"): text for name, text in encrypted.items()}
    config = ClientConfig(broker_list=kafka.addresses["SASL_SSL"], **settings)
    assert held(config, "t", with_offsets=False) == held(source.bootstrap, "t", with_offsets=False)
    asked = ["mirror", "translate", "--to", kafka.addresses["SASL_SSL"], "--topic", "t",
             "--offset", "5", *words_of("target", encrypted)]
    translated = CliRunner().invoke(main, asked)
    assert translated.stdout.strip().isdecimal(), translated.output
    with running_broker(tmp_path / "back") as back:
        plain = login(kafka, "SASL_PLAINTEXT", tmp_path, mechanism="SCRAM-SHA-256")
        done = mirrored(kafka.addresses["SASL_PLAINTEXT"], back.bootstrap,
                        *words_of("source", plain))
        assert done.exit_code == 0, done.output
        assert held(back.bootstrap, "t", True) == held(config, "t", True)


def test_a_wrong_password_ends_the_mirror(
    kafka: KafkaBroker, source: RunningBroker, tmp_path: Path
) -> None:
    wrong = login(kafka, "SASL_SSL", tmp_path, "not-its-own")
    done = mirrored(source.bootstrap, kafka.addresses["SASL_SSL"], *words_of("target", wrong))
    assert done.exit_code != 0
    told = f"{done.output} {done.exception}"
    assert "login of user 'mirror' by SCRAM-SHA-512 failed" in told
    assert "not-its-own" not in told


def test_an_authority_that_is_not_the_targets_ends_the_mirror(
    kafka: KafkaBroker, source: RunningBroker, tmp_path: Path
) -> None:
    other = Authority(tmp_path / "tls", "Somebody else")
    wrong = {**login(kafka, "SASL_SSL", tmp_path), "ssl.ca.location": str(other.trust)}
    done = mirrored(source.bootstrap, kafka.addresses["SASL_SSL"], *words_of("target", wrong))
    assert done.exit_code != 0
    assert f"nobody in ssl_ca_location, {other.trust}" in f"{done.output} {done.exception}"

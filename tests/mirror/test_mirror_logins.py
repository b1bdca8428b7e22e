"""The mirror from and to our own broker behind logins and TLS, with only the rights that
docs/mirror.md names. tests/interop/test_mirror_security.py has Apache Kafka in its place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka as ck
import pytest
from click.testing import CliRunner, Result
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from appliance.cli.main import main
from appliance.client.config import ClientConfig
from appliance.process.exit_codes import REFUSED
from appliance.testing import Login, RunningBroker, running_broker
from tests.support.certificates import Authority
from tests.support.mirror_load import held
from tests.support.mirroring import make, produce

ADA = Login("ada", "correct horse battery")
READER = Login("reader", "battery horse correct", "none")
WRITER = Login("writer", "horse battery correct", "none")
LISTER = Login("lister", "staple battery horse", "none")
OPERATION, KIND = AclOperation, ResourceType
IN_BOTH = (OPERATION.CREATE, OPERATION.ALTER, OPERATION.ALTER_CONFIGS, OPERATION.DESCRIBE_CONFIGS,
           OPERATION.WRITE)  # fmt: skip
RIGHTS = {
    "reader": [
        (KIND.TOPIC, "t", False, (OPERATION.READ, OPERATION.DESCRIBE_CONFIGS)),
        (KIND.GROUP, "g", False, (OPERATION.DESCRIBE,)),  # with --groups
    ],
    "lister": [(KIND.TOPIC, "t", False, (OPERATION.DESCRIBE, OPERATION.DESCRIBE_CONFIGS))],
    "writer": [
        (KIND.TOPIC, "t", False, IN_BOTH),
        (KIND.TOPIC, "mirror.mirror.", True, (*IN_BOTH, OPERATION.READ)),
        (KIND.TRANSACTIONAL_ID, "mirror-mirror", True, (OPERATION.WRITE,)),
        # with --groups
        (KIND.TOPIC, "t", False, (OPERATION.READ,)),
        (KIND.GROUP, "g", False, (OPERATION.READ,)),
    ],
}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    folder = tmp_path_factory.mktemp("secured") / "data"
    with running_broker(folder, logins=[ADA, READER, WRITER, LISTER], tls=True) as broker:
        rules = [
            AclBinding(
                kind, name, ResourcePatternType.PREFIXED if is_prefix else
                ResourcePatternType.LITERAL, f"User:{user}", "*", operation,
                AclPermissionType.ALLOW,
            )
            for user, rows in RIGHTS.items()
            for kind, name, is_prefix, operations in rows
            for operation in operations
        ]  # fmt: skip
        admin = AdminClient(broker.client_settings("ada"))
        for each in admin.create_acls(rules).values():
            each.result(20)
        yield broker


def words_of(
    side: str, broker: RunningBroker, login: Login, folder: Path, **other: str
) -> list[str]:
    path = folder / f"{login.user}.password"
    path.write_text(login.password)
    settings = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": broker.ca_file,
        "sasl.username": login.user,
        "sasl.password.file": str(path),
        **{name.replace("_", "."): text for name, text in other.items()},
    }
    return [word for name, text in settings.items() for word in ("--set", f"{side}.{name}={text}")]


def mirrored(source: RunningBroker, target: RunningBroker, *words: str) -> Result:
    ends = ["--from", source.bootstrap, "--to", target.bootstrap]
    given = ["mirror", *ends, "--topics", "t", "--groups", "g", "--once", "--json", *words]
    return CliRunner().invoke(main, given)


def commit(broker: RunningBroker, offset: int) -> None:
    consumer = ck.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    consumer.commit(offsets=[ck.TopicPartition("t", 0, offset)], asynchronous=False)
    consumer.close()


def committed(broker: RunningBroker) -> int:
    consumer = ck.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    (found,) = consumer.committed([ck.TopicPartition("t", 0)], 20)
    consumer.close()
    return int(found.offset)


def test_there_and_back_with_only_the_documented_rights(
    secured: RunningBroker, source: RunningBroker, target: RunningBroker, tmp_path: Path
) -> None:
    make(source, "t", 3)
    for partition in range(3):
        produce(source, *(f"{partition} {number}" for number in range(300)), partition=partition)
    commit(source, 7)
    there = mirrored(source, secured, *words_of("target", secured, WRITER, tmp_path))
    assert there.exit_code == 0, there.output
    row = json.loads(there.stdout.splitlines()[-1])
    assert (row["records"], row["lag"], row["refused"]) == (900, 0, {})
    ada = ClientConfig(
        broker_list=secured.bootstrap, security_protocol="SASL_SSL",
        ssl_ca_location=secured.ca_file, sasl_username=ADA.user, sasl_password=ADA.password,
    )  # fmt: skip
    assert held(ada, "t", with_offsets=True) == held(source.bootstrap, "t", with_offsets=True)
    back = mirrored(secured, target, *words_of("source", secured, READER, tmp_path))
    assert back.exit_code == 0, back.output
    assert held(target.bootstrap, "t", with_offsets=True) == held(ada, "t", with_offsets=True)
    assert committed(target) == 7


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_login_or_an_authority_that_is_refused_ends_the_mirror(
    secured: RunningBroker, source: RunningBroker, tmp_path: Path, side: str
) -> None:
    ends = (secured, source) if side == "source" else (source, secured)
    make(source, "t")
    wrong = Login("writer", "not its own one")
    done = mirrored(*ends, *words_of(side, secured, wrong, tmp_path))
    assert done.exit_code != 0
    told = f"{done.output} {done.exception}"
    assert "login of user 'writer' by SCRAM-SHA-512 failed" in told
    assert wrong.password not in told
    other = Authority(tmp_path / "tls", "Somebody else").trust
    done = mirrored(*ends, *words_of(side, secured, WRITER, tmp_path, ssl_ca_location=str(other)))
    assert done.exit_code != 0
    assert f"nobody in ssl_ca_location, {other}" in f"{done.output} {done.exception}"


def test_a_right_that_is_missing_is_named_with_its_topic(
    secured: RunningBroker, source: RunningBroker, tmp_path: Path
) -> None:
    make(source, "t")
    produce(source, "x")
    done = mirrored(source, secured, *words_of("target", secured, READER, tmp_path))
    assert done.exit_code != 0
    told = "User:reader may not create topic mirror.mirror.probe: TOPIC_AUTHORIZATION_FAILED"
    assert told in f"{done.output} {done.exception}"


def test_a_source_that_may_be_seen_and_not_read_ends_it(
    secured: RunningBroker, target: RunningBroker, tmp_path: Path
) -> None:
    """The cluster answers all that it is asked before the first fetch."""
    words = words_of("source", secured, LISTER, tmp_path)
    done = mirrored(secured, target, *words)
    told = " ".join(done.output.split())
    assert done.exit_code == REFUSED, told
    assert "fetch of t-0 at offset 0: TOPIC_AUTHORIZATION_FAILED" in told

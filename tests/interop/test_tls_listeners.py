"""Unmodified clients over TLS: confluent-kafka, kafka-python, aiokafka, kcat."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing

import aiokafka
import aiokafka.helpers
import confluent_kafka
import kafka
import pytest

from appliance.testing import RunningBroker, running_broker
from tests.support.certificates import Authority, Certificate
from tests.support.tls_client import ssl_settings

COUNT = 200
VALUES = [b"%d" % each * 300 for each in range(COUNT)]
DEADLINE_S = 60


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def ann(authority: Authority) -> Certificate:
    return authority.issue("ann", hosts=())


@pytest.fixture(scope="module")
def broker(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    """Clients say by their certificate who they are."""
    settings = ssl_settings(
        authority, ssl_client_auth="required", ssl_truststore_location=str(authority.trust),
        super_users="User:CN=ann",
    )  # fmt: skip
    with running_broker(tmp_path_factory.mktemp("broker") / "data", settings) as made:
        yield made


def test_librdkafka(broker: RunningBroker, authority: Authority, ann: Certificate) -> None:
    common = {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": str(authority.trust),
        "ssl.certificate.location": str(ann.certificate),
        "ssl.key.location": str(ann.key),
    }
    producer = confluent_kafka.Producer(common)
    for each in VALUES:
        producer.produce("librdkafka", each)
    assert producer.flush(DEADLINE_S) == 0
    reader = {"group.id": "g", "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer({**common, **reader})
    consumer.subscribe(["librdkafka"])
    found: list[bytes | None] = []
    while len(found) < COUNT:
        messages = consumer.consume(COUNT, timeout=DEADLINE_S)
        assert messages, f"{len(found)} of {COUNT} came"
        found += [each.value() for each in messages if each.error() is None]
    consumer.close()
    assert sorted(filter(None, found)) == sorted(VALUES)


@pytest.mark.release("tests/interop/test_secure_clients.py has this client with a certificate")
def test_kafka_python(broker: RunningBroker, authority: Authority, ann: Certificate) -> None:
    common = {
        "bootstrap_servers": broker.bootstrap,
        "security_protocol": "SSL",
        "ssl_cafile": str(authority.trust),
        "ssl_certfile": str(ann.certificate),
        "ssl_keyfile": str(ann.key),
    }
    with closing(kafka.KafkaProducer(**common)) as producer:
        for sent in [producer.send("kafka-python", each) for each in VALUES]:
            sent.get(DEADLINE_S)
    consumer = kafka.KafkaConsumer(
        "kafka-python", auto_offset_reset="earliest", consumer_timeout_ms=DEADLINE_S * 1000,
        **common,
    )  # fmt: skip
    with closing(consumer):
        found = [next(consumer).value for _ in range(COUNT)]
    assert sorted(found) == sorted(VALUES)


@pytest.mark.release("tests/interop/test_secure_clients.py has this client with a certificate")
def test_aiokafka(broker: RunningBroker, authority: Authority, ann: Certificate) -> None:
    asyncio.run(produced_and_read(broker.bootstrap, authority, ann))


async def produced_and_read(address: str, authority: Authority, ann: Certificate) -> None:
    context = aiokafka.helpers.create_ssl_context(
        cafile=str(authority.trust), certfile=str(ann.certificate), keyfile=str(ann.key)
    )
    common = {
        "bootstrap_servers": address, "security_protocol": "SSL", "ssl_context": context,
    }  # fmt: skip
    producer = aiokafka.AIOKafkaProducer(**common)
    await producer.start()
    for each in VALUES:
        await producer.send("aiokafka", each)
    await producer.stop()
    consumer = aiokafka.AIOKafkaConsumer("aiokafka", auto_offset_reset="earliest", **common)
    await consumer.start()
    async with asyncio.timeout(DEADLINE_S):
        found = [(await consumer.getone()).value for _ in range(COUNT)]
    await consumer.stop()
    assert sorted(found) == sorted(VALUES)


@pytest.mark.release("tests/interop/test_secure_clients.py has this client with a certificate")
def test_kcat(broker: RunningBroker, authority: Authority, ann: Certificate) -> None:
    program = shutil.which("kcat")
    assert program is not None, "kcat is missing; tests/setup.sh brings it"
    common = [program, "-b", broker.bootstrap, "-t", "kcat", "-X", "security.protocol=SSL", "-X",
              f"ssl.ca.location={authority.trust}", "-X",
              f"ssl.certificate.location={ann.certificate}", "-X", f"ssl.key.location={ann.key}"]
    lines = "".join(f"{each}\n" for each in range(COUNT))
    subprocess.run([*common, "-P"], input=lines, text=True, check=True, timeout=DEADLINE_S)
    read = subprocess.run([*common, "-C", "-e", "-o", "beginning", "-q"], text=True, check=True,
                          capture_output=True, timeout=DEADLINE_S)
    assert read.stdout == lines

"""Clients of others that come in by TLS: each writes with acks=all and reads in a group.

    read = CLIENTS["kcat"](Way(address, authority.trust, user="app"), "topic")

Whatever keeps a client out is `Refused`, with the client's own words.
"""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.errors
import confluent_kafka
import kafka
import kafka.errors
from aiokafka.abc import AbstractTokenProvider
from kafka.net.sasl.oauth import AbstractTokenProvider as TokenProvider

from tests.interop.kafka_tools import TOOLS, KafkaTools
from tests.support.certificates import Certificate

COUNT = 20
VALUES = [b"value %d" % number for number in range(COUNT)]
LINES = b"\n".join(VALUES).decode() + "\n"
DEADLINE_S = 30.0
PATIENCE_S = 4.0  # of clients that try again whatever they were told
PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
JAVAS_OWN = "org.apache.kafka.common.security"


class Refused(Exception):
    pass


@dataclass(frozen=True)
class Way:
    """By what a client comes in: a login or a certificate, or neither."""

    address: str
    trust: Path
    mechanism: str = ""
    user: str = ""
    password: str = ""
    token: str = ""
    certificate: Certificate | None = None

    @property
    def protocol(self) -> str:
        return "SASL_SSL" if self.mechanism else "SSL"

    @property
    def of_librdkafka(self) -> dict[str, str]:
        made = {"bootstrap.servers": self.address, "security.protocol": self.protocol,
                "ssl.ca.location": str(self.trust)}  # fmt: skip
        if self.certificate:
            made |= {"ssl.certificate.location": str(self.certificate.certificate),
                     "ssl.key.location": str(self.certificate.key)}  # fmt: skip
        if self.mechanism:
            made["sasl.mechanism"] = self.mechanism
        if self.user:
            made |= {"sasl.username": self.user, "sasl.password": self.password}
        return made

    @property
    def of_confluent(self) -> dict[str, Any]:
        made: dict[str, Any] = {**self.of_librdkafka, "log_level": 0}
        if self.token:
            made["oauth_cb"] = lambda _: (self.token, time.time() + 60)
        return made

    @property
    def of_python(self) -> dict[str, Any]:
        """What kafka-python and aiokafka have in common."""
        context = ssl.create_default_context(cafile=str(self.trust))
        if self.certificate:
            context.load_cert_chain(self.certificate.certificate, self.certificate.key)
        made: dict[str, Any] = {"bootstrap_servers": self.address, "ssl_context": context,
                                "security_protocol": self.protocol}  # fmt: skip
        if self.mechanism:
            made["sasl_mechanism"] = self.mechanism
        if self.user:
            made |= {"sasl_plain_username": self.user, "sasl_plain_password": self.password}
        return made

    def of_java(self, path: Path) -> Path:
        """A file for `--command-config`."""
        lines = [f"security.protocol={self.protocol}", "ssl.truststore.type=PEM",
                 f"ssl.truststore.location={self.trust}"]  # fmt: skip
        if self.certificate:
            lines += ["ssl.keystore.type=PEM", f"ssl.keystore.location={self.certificate.both}"]
        if self.mechanism:
            module = "plain.Plain" if self.mechanism == PLAIN else "scram.Scram"
            lines += [f"sasl.mechanism={self.mechanism}",
                      f"sasl.jaas.config={JAVAS_OWN}.{module}LoginModule required "
                      f'username="{self.user}" password="{self.password}";']  # fmt: skip
        path.write_text("\n".join(lines) + "\n")
        return path


# confluent-kafka


def by_librdkafka(way: Way, topic: str) -> list[bytes]:
    errors: list[confluent_kafka.KafkaError] = []
    settings = {**way.of_confluent, "acks": "all", "error_cb": errors.append}
    producer = confluent_kafka.Producer(settings)
    for value in VALUES:
        producer.produce(topic, value)
    end = time.monotonic() + DEADLINE_S
    while producer.flush(0.1) and not errors and time.monotonic() < end:
        pass
    if errors:
        producer.purge()
        raise Refused(" ".join(each.str() for each in errors))
    consumer = confluent_kafka.Consumer(
        {**way.of_confluent, "group.id": f"g-{topic}", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    messages = consumer.consume(COUNT, DEADLINE_S)
    consumer.close()
    assert not [each.error() for each in messages if each.error()]
    return [bytes(each.value() or b"") for each in messages]


# kafka-python


class KafkaPythonToken(TokenProvider):  # type: ignore[misc] # kafka-python has no types
    def __init__(self, text: str) -> None:
        self.text = text

    def token(self) -> str:
        return self.text


def by_kafka_python(way: Way, topic: str) -> list[bytes]:
    settings = way.of_python
    if way.token:
        settings["sasl_oauth_token_provider"] = KafkaPythonToken(way.token)
    why = ""
    try:
        patience_ms = int(PATIENCE_S * 1000)
        producer = kafka.KafkaProducer(**settings, acks="all", bootstrap_timeout_ms=patience_ms)
    except kafka.errors.KafkaError as error:
        why = repr(error)  # without its trace, which keeps what the client left open
    if why:
        raise Refused(why)
    with closing(producer):
        for each in [producer.send(topic, value) for value in VALUES]:
            each.get(DEADLINE_S)
    consumer = kafka.KafkaConsumer(
        topic, **settings, group_id=f"g-{topic}", auto_offset_reset="earliest",
        consumer_timeout_ms=int(DEADLINE_S * 1000),
    )  # fmt: skip
    with closing(consumer):
        return [bytes(next(consumer).value) for _ in VALUES]


# aiokafka


class AiokafkaToken(AbstractTokenProvider):  # type: ignore[misc] # aiokafka has no types
    def __init__(self, text: str) -> None:
        self.text = text

    async def token(self) -> str:
        return self.text


def by_aiokafka(way: Way, topic: str) -> list[bytes]:
    return asyncio.run(_by_aiokafka(way, topic))


async def _by_aiokafka(way: Way, topic: str) -> list[bytes]:
    settings = way.of_python
    if way.token:
        settings["sasl_oauth_token_provider"] = AiokafkaToken(way.token)
    producer = aiokafka.AIOKafkaProducer(**settings, acks="all")
    try:
        await producer.start()
    except aiokafka.errors.KafkaError as error:
        await producer.stop()
        raise Refused(repr(error)) from error
    for value in VALUES:
        await producer.send_and_wait(topic, value)
    await producer.stop()
    consumer = aiokafka.AIOKafkaConsumer(
        topic, **settings, group_id=f"g-{topic}", auto_offset_reset="earliest"
    )
    await consumer.start()
    found = [await asyncio.wait_for(consumer.getone(), DEADLINE_S) for _ in VALUES]
    await consumer.stop()
    return [bytes(each.value) for each in found]


# kcat


def by_kcat(way: Way, topic: str) -> list[bytes]:
    words = [word for name, text in way.of_librdkafka.items() for word in ("-X", f"{name}={text}")]
    _kcat(["-P", "-t", topic, "-X", "acks=all",
           "-X", f"message.timeout.ms={int(PATIENCE_S * 1000)}", *words], LINES)  # fmt: skip
    said = _kcat(["-q", "-c", str(COUNT), "-X", "auto.offset.reset=earliest", *words,
                  "-G", f"g-{topic}", topic])  # fmt: skip
    return said.encode().splitlines()


def _kcat(words: list[str], stdin: str = "") -> str:
    done = subprocess.run(["kcat", *words], input=stdin, capture_output=True, text=True,
                          timeout=DEADLINE_S)  # fmt: skip
    if done.returncode:
        raise Refused(done.stderr)
    return done.stdout


# Kafka's own consoles


class ByJava:
    def __init__(self, tools: KafkaTools, folder: Path) -> None:
        self._tools, self._folder = tools, folder

    def __call__(self, way: Way, topic: str) -> list[bytes]:
        self.run(way, "kafka-topics", "--list")  # the producer ends with 0 whatever happened
        self.run(way, "kafka-console-producer", "--topic", topic, "--command-property", "acks=all",
                 stdin=LINES)  # fmt: skip
        said = self.run(way, "kafka-console-consumer", "--topic", topic, "--group", f"g-{topic}",
                        "--from-beginning", "--max-messages", str(COUNT), "--timeout-ms",
                        str(int(DEADLINE_S * 1000)))  # fmt: skip
        return [line.encode() for line in said.splitlines() if line.startswith("value ")]

    def run(self, way: Way, tool: str, *words: str, stdin: str = "") -> str:
        """All that the tool said."""
        file = way.of_java(self._folder / "client.properties")
        ended = self._tools.run_main((TOOLS[tool], "--bootstrap-server", way.address,
                                      "--command-config", str(file), *words), stdin)  # fmt: skip
        said = ended.said + ended.complained
        if ended.code:
            raise Refused(said)
        return said


CLIENTS: dict[str, Callable[[Way, str], list[bytes]]] = {
    "librdkafka": by_librdkafka, "kafka-python": by_kafka_python, "aiokafka": by_aiokafka,
    "kcat": by_kcat,
}  # fmt: skip

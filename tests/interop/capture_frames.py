"""Writes tests/data/frames/clients.tsv: one request of each real client, API and version.

    python -m tests.interop.capture_frames

Our broker serves the clients through a relay that keeps their requests. Of several requests of one
kind it keeps the largest, up to a size that a person can read.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import aiokafka
import confluent_kafka
import kafka

from appliance import protocol
from appliance.protocol import codec, headers
from tests.interop import kafka_jars, test_client_admins, test_clients
from tests.interop.clients import CLIENTS, Client, Record
from tests.interop.kafka_tools import TOOLS
from tests.support.frame_relay import FrameRelay
from tests.support.warm_broker import WarmBroker as Broker
from tests.support.wire_frames import FOLDER

GROUPS_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
SIZE_MAX = 500
GROUP_TIMEOUT_S = 20
HEAD = "client\tapi_key\tversion\tmessage\tbytes\n"


class Kept:
    """The frames of the current client."""

    def __init__(self) -> None:
        self.client = ""
        self.frames: dict[tuple[str, int, int], bytes] = {}

    def keep(self, frame: bytes) -> None:
        header, _ = headers.decode_request(frame)
        if header.client_id == "rdkafka" and not self.client.startswith("librdkafka"):
            return  # it only creates topics for other clients
        where = (self.client, header.api_key, header.api_version)
        before = self.frames.get(where)
        if not gets_no_answer(frame) and (before is None or rank(frame) > rank(before)):
            self.frames[where] = frame

    def lines(self) -> list[str]:
        return [f"{client}\t{key}\t{version}\t{protocol.API[key].request.__name__}\t{frame.hex()}\n"
                for (client, key, version), frame in sorted(self.frames.items())]


def rank(frame: bytes) -> int:
    """Prefers the largest frame below the limit, otherwise the smallest."""
    return len(frame) if len(frame) <= SIZE_MAX else -len(frame)


def gets_no_answer(frame: bytes) -> bool:
    header, body = headers.decode_request(frame)
    if header.api_key != 0:
        return False
    return codec.decode(protocol.API[0].request, body, header.api_version).acks == 0


def through(client: Client, address: str) -> None:
    """Everything that a client does without a group."""
    for name in test_clients.CODECS:
        for acks in ("1", "all"):
            test_clients.test_what_is_produced_is_consumed(address, client, name, acks)
    test_clients.test_what_is_produced_is_consumed(address, client, "zstd", "idempotent")
    test_clients.test_offsets_are_found_by_time(address, client)
    test_clients.test_a_paused_partition_gives_nothing(address, client)


def confluent(address: str) -> None:
    through(CLIENTS[0], address)
    test_client_admins.test_confluent_kafka_topics(address)
    test_client_admins.test_confluent_kafka_configs(address)
    test_client_admins.test_confluent_kafka_records(address)
    CLIENTS[0].produce(address, "grouped", [Record(None, b"v")])
    consumer = confluent_kafka.Consumer({
        "bootstrap.servers": address, "group.id": "librdkafka", "auto.offset.reset": "earliest"})
    consumer.subscribe(["grouped"])
    message = consumer.poll(GROUP_TIMEOUT_S)
    assert message is not None, "confluent-kafka: its group read nothing"
    assert message.value() == b"v"
    consumer.commit(message, asynchronous=False)
    consumer.close()


def kafka_python(address: str) -> None:
    through(CLIENTS[1], address)
    with closing(kafka.KafkaAdminClient(bootstrap_servers=address)) as admin:
        test_client_admins.test_kafka_python_topics(admin, address)
        test_client_admins.test_kafka_python_configs(admin)
        test_client_admins.test_kafka_python_records(admin, address)
    consumer = kafka.KafkaConsumer(
        "grouped", bootstrap_servers=address, group_id="kafka-python",
        auto_offset_reset="earliest", consumer_timeout_ms=GROUP_TIMEOUT_S * 1000)
    assert next(consumer).value == b"v"
    consumer.commit()
    consumer.close()


def aio_kafka(address: str) -> None:
    through(CLIENTS[2], address)
    test_client_admins.test_aiokafka_admin(address)

    async def read_in_a_group() -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            "grouped", bootstrap_servers=address, group_id="aiokafka",
            auto_offset_reset="earliest")
        await consumer.start()
        try:
            assert (await consumer.getone()).value == b"v"
            await consumer.commit()
        finally:
            await consumer.stop()

    asyncio.run(asyncio.wait_for(read_in_a_group(), GROUP_TIMEOUT_S))


def kcat(address: str) -> None:
    for words in (
        ["-P", "-t", "kcat", "-p", "0", "-z", "zstd", "-H", "a=b", "-K", ":"],
        ["-P", "-t", "kcat", "-p", "0", "-X", "enable.idempotence=true"],
        ["-C", "-t", "kcat", "-p", "0", "-o", "-1", "-e"], ["-L"], ["-Q", "-t", "kcat:0:5"],
        ["-G", "kcat", "-X", "auto.offset.reset=earliest", "-c", "2", "kcat"],
    ):
        subprocess.run(["kcat", "-b", address, *words], input="k:v\n", text=True, check=True,
                       stdout=subprocess.DEVNULL, timeout=GROUP_TIMEOUT_S)


def java(address: str) -> None:
    said = subprocess.run(kafka_jars.command("ClientChecks", [address]),
                          capture_output=True, text=True, check=True).stdout
    assert "failed" not in said, said
    broker = ("--bootstrap-server", address)
    kafka_jars.must_run(TOOLS["kafka-console-consumer"], *broker, "--topic", "grouped", "--group",
                        "java", "--max-messages", "1", "--from-beginning")
    for words in (["--list"], ["--describe", "--group", "java"], ["--delete", "--group", "java"]):
        kafka_jars.must_run(GROUPS_TOOL, *broker, *words)


def released(*command: str) -> str:
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    match = re.search(r"librdkafka ([\d.]+)", said.stdout + said.stderr)
    assert match is not None, said
    return match[1]


def clients() -> dict[str, Callable[[str], None]]:
    """Names with releases, and the function that drives each."""
    return {
        f"librdkafka {confluent_kafka.libversion()[0]}": confluent,
        f"librdkafka {released('kcat', '-V')}": kcat,
        f"kafka-python {kafka.__version__}": kafka_python,
        f"aiokafka {aiokafka.__version__}": aio_kafka,
        f"java {kafka_jars.version()}": java,
    }


def main() -> None:
    kept = Kept()
    with FrameRelay(kept.keep) as relay, tempfile.TemporaryDirectory() as folder, Broker(
        Path(folder), "--set", f"advertised.listeners=127.0.0.1:{relay.port}"
    ) as broker:
        host, port = broker.kafka.split(":")
        relay.broker = (host, int(port))
        for name, drive in clients().items():
            kept.client = name
            print(name, flush=True)
            drive(f"127.0.0.1:{relay.port}")
    (FOLDER / "clients.tsv").write_text(HEAD + "".join(kept.lines()))
    print(f"{len(kept.frames)} frames")


if __name__ == "__main__":
    main()

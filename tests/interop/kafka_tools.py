"""Apache Kafka's command line tools, those of its `bin/kafka-*.sh`, all in one JVM."""

from __future__ import annotations

import struct
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.interop import kafka_jars

# The main class of each script of Kafka's
TOOLS = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-share-consumer-perf-test": "org.apache.kafka.tools.ShareConsumerPerformance",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-streams-application-reset": "org.apache.kafka.tools.StreamsResetter",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "kafka-verifiable-share-consumer": "org.apache.kafka.tools.VerifiableShareConsumer",
}
DEADLINE_S = 60.0
SUBCOMMAND_FIRST = {"kafka-cluster"}


class Ended(NamedTuple):
    """The exit code and the output of a tool."""

    code: int
    said: str
    complained: str


class KafkaTools:
    """`tools.run("kafka-topics", "--list")` against one broker."""

    def __init__(self, address: str, folder: Path, sharing: Sequence[str] | None = None) -> None:
        self.address = address
        self._errors = folder / "errors"
        folder.mkdir(parents=True, exist_ok=True)
        command = kafka_jars.command("Tools", [], sharing=sharing)
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(DEADLINE_S)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()

    def run(self, tool: str, *words: str, stdin: str = "") -> Ended:
        """Runs a tool to its end, also if it fails."""
        broker = ("--bootstrap-server", self.address)
        given = (*words, *broker) if tool in SUBCOMMAND_FIRST else (*broker, *words)
        return self.run_main((TOOLS[tool], *given), stdin)

    def run_main(self, words: Sequence[str], stdin: str) -> Ended:
        """Runs a main class, the first word, with the other words."""
        assert self._process.stdin is not None
        watch = threading.Timer(DEADLINE_S, self._process.kill)
        watch.start()
        try:
            self._process.stdin.write(request(words, stdin))
            self._process.stdin.flush()
            return Ended(self._number(), self._text(), self._text())
        finally:
            watch.cancel()

    def must(self, tool: str, *words: str, stdin: str = "") -> str:
        """Runs a tool that must succeed. Returns its output."""
        ended = self.run(tool, *words, stdin=stdin)
        assert ended.code == 0, f"{tool} {words}: {ended}"
        return ended.said

    def refused(self, tool: str, *words: str) -> str:
        """Runs a tool that must fail. Returns all of its output."""
        ended = self.run(tool, *words)
        assert ended.code != 0, f"{tool} {words}: {ended}"
        return ended.said + ended.complained

    def _number(self) -> int:
        number: int = struct.unpack(">i", self._exactly(4))[0]
        return number

    def _text(self) -> str:
        return self._exactly(self._number()).decode()

    def _exactly(self, size: int) -> bytes:
        assert self._process.stdout is not None
        octets = self._process.stdout.read(size)
        if len(octets) < size:
            raise AssertionError(f"the tools' JVM ended: {self._errors.read_text()}")
        return octets


def request(words: Sequence[str], stdin: str) -> bytes:
    texts = [text.encode() for text in (*words, stdin)]
    return struct.pack(">i", len(words)) + b"".join(
        struct.pack(">i", len(text)) + text for text in texts)

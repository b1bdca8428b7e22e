"""Apache Kafka's own programs for transactions, at three brokers."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from appliance.zookeeper.server import ZooKeeperServer
from tests.interop import kafka_jars
from tests.interop.kafka_tools import KafkaTools
from tests.support.cluster_control import GROUP, ClusterControl
from tests.support.three_brokers import DEADLINE_S, Brokers
from tests.support.transactions_of_three import (
    ALL,
    PARTITIONS,
    SETTINGS,
    committed_offset,
    producer,
    producers_of,
    read,
    three_brokers,
    write,
)  # fmt: skip

COPIES = 2000
COPIER_S = 240.0


@pytest.fixture
def three(
    server: ZooKeeperServer, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Brokers]:
    with three_brokers(server, request.node.name, tmp_path) as found:
        yield found


@pytest.fixture
def control(three: Brokers) -> Iterator[ClusterControl]:
    found = ClusterControl(three)
    yield found
    found.close()


@pytest.mark.release("a JVM; tests/replication/test_transactions_across_brokers.py has our client")
def test_kafkas_copier_copies_each_once_while_brokers_are_killed(
    three: Brokers, control: ClusterControl
) -> None:
    """The Java client speaks KIP-890: leaders add their partitions at the coordinator."""
    for topic in ("in", "out"):
        three.create(topic, partitions=1, min_insync_replicas="2")
        three.until(topic, lambda each: len(each.isrs) == len(ALL))
    three.produce("in", [f"{number}" for number in range(COPIES)])
    words = [
        "--broker-list", three.bootstrap, "--input-topic", "in", "--input-partition", "0",
        "--output-topic", "out", "--transactional-id", "copier", "--consumer-group", "copier",
        "--transaction-size", "20", "--max-messages", str(COPIES), "--enable-random-aborts",
    ]  # fmt: skip
    command = kafka_jars.command("org.apache.kafka.tools.TransactionalMessageCopier", words)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as copier:
        assert copier.stdout is not None
        reader = ThreadPoolExecutor(1).submit(copier.stdout.read)
        try:
            for share, who in (
                (0.2, lambda: control.coordinator("copier")),
                (0.5, lambda: control.leader("out", 0)),
                (0.8, lambda: control.coordinator("copier", GROUP)),
            ):
                end = time.monotonic() + COPIER_S
                while copier.poll() is None and end_of(three, "out") < share * COPIES:
                    assert time.monotonic() < end, f"{end_of(three, 'out')} copies"
                    time.sleep(0.1)
                node = who()
                three.stop(node, signal.SIGKILL)
                three.start(node, **SETTINGS)
            assert copier.wait(COPIER_S) == 0, reader.result(5)
        finally:
            copier.kill()
    assert read(three, 0, "out") == [f"{number}" for number in range(COPIES)]
    assert committed_offset(three, "copier", "in") == COPIES


def end_of(cluster: Brokers, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "nobody"})
    try:
        with suppress(KafkaException):
            return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), 5)[1])
        return 0
    finally:
        consumer.close()


@pytest.mark.release("a JVM; tests/replication/test_transactions_across_brokers.py has our client")
def test_kafkas_tool_lists_describes_and_ends_transactions(
    three: Brokers, tmp_path: Path
) -> None:
    own = producer(three, "one"), producer(three, "two")
    for each in own:
        each.begin_transaction()
        write(each, "a")
        each.flush(DEADLINE_S)
    with closing(KafkaTools(three.bootstrap, tmp_path / "tools")) as tools:
        listed = tools.must("kafka-transactions", "list")
        assert [listed.count(f"{name} ") for name in ("one", "two")] == [1, 1], listed
        told = tools.must("kafka-transactions", "describe", "--transactional-id", "two")
        assert "Ongoing" in told
        assert {f"t-{number}" for number in range(PARTITIONS)} <= {*re.split(r"[\s,]+", told)}
        for number in range(PARTITIONS):
            tools.must("kafka-transactions", "abort", "--topic", "t", "--partition", str(number),
                       "--start-offset", "0")  # fmt: skip
    for number in range(PARTITIONS):
        assert len([each for each in producers_of(three, number) if each[2] >= 0]) == 1

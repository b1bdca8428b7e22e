"""Kafka's own DumpLogSegments finds the same in the files of all replicas, and nothing wrong: with
every codec, transactions, elections, and records that only a leader of before had."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from appliance.topics.topic import OFFSETS, TRANSACTIONS
from appliance.zookeeper.server import ZooKeeperServer
from tests.interop import dump_log_segments as tool
from tests.interop.dump_log_segments import Batch, Dump
from tests.support.three_brokers import DEADLINE_S, Brokers, brokers

PARTITIONS = 3  # of each topic
ALL = (1, 2, 3)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SETTINGS = {
    "transaction.state.log.num.partitions": PARTITIONS, "offsets.topic.num.partitions": PARTITIONS,
}  # fmt: skip
TOPICS = ("t", TRANSACTIONS, OFFSETS)


@pytest.fixture
def three(
    server: ZooKeeperServer, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Brokers]:
    root = "/tests/" + re.sub(r"\W", "-", request.node.name)
    with brokers(server, root, tmp_path) as found:
        found.start(*ALL, **SETTINGS)
        yield found


@pytest.fixture
def _jvm() -> Iterator[None]:
    yield
    tool.close()


@pytest.mark.release("brokers that are killed, and a JVM; tests/interop/test_dump_log_segments.py")
@pytest.mark.usefixtures("_jvm")
def test_kafkas_tool_finds_the_same_in_all_replicas(three: Brokers) -> None:
    three.create("t", PARTITIONS, min_insync_replicas="2", segment_bytes="30000")
    until_all(three, ["t"])
    write_all(three, "before")
    first = three.partition("t").leader
    write_through_an_election(three, first)
    write_all(three, "between")
    three.start(first, **SETTINGS)
    until_all(three, ["t"])
    lose_what_is_not_acknowledged(three)
    write_all(three, "after")
    until_all(three, TOPICS)
    for node in ALL:
        three.stop(node)
    of_topic, of_others = dumped(three)
    for topic in TOPICS:
        found = of_topic if topic == "t" else of_others
        for number in range(PARTITIONS):
            replicas = [batches(found, three.folder(each), topic, number) for each in ALL]
            assert replicas[0] == replicas[1] == replicas[2], (topic, number)
    check_what_was_written(of_topic, three)


def write_all(three: Brokers, prefix: str) -> None:
    for codec in CODECS:
        own = Producer({"bootstrap.servers": three.bootstrap, "compression.type": codec,
                        "enable.idempotence": True, "batch.num.messages": 50})  # fmt: skip
        write(own, f"{prefix} {codec}", 300)
        assert own.flush(DEADLINE_S) == 0
    own = Producer({"bootstrap.servers": three.bootstrap, "transactional.id": "id",
                    "compression.type": "lz4"})  # fmt: skip
    own.init_transactions(DEADLINE_S)
    consumer = Consumer({"bootstrap.servers": three.bootstrap, "group.id": "g"})
    with closing(consumer):
        for is_commit in (True, False):
            own.begin_transaction()
            write(own, f"{prefix} {is_commit}", 30)
            own.send_offsets_to_transaction(
                [TopicPartition("t", 0, 7)], consumer.consumer_group_metadata(), DEADLINE_S)
            end = own.commit_transaction if is_commit else own.abort_transaction
            end(DEADLINE_S)


def write(own: Producer, prefix: str, count: int) -> None:
    for each in range(count):
        own.produce("t", f"{prefix} {each} {'x' * 60}", f"key {each}", each % PARTITIONS,
                    headers={"header": b"value"})  # fmt: skip
        own.poll(0)


def write_through_an_election(three: Brokers, leader: int) -> None:
    """An idempotent producer sends again what was not acknowledged, and nothing is there twice."""
    own = Producer({"bootstrap.servers": three.bootstrap, "enable.idempotence": True,
                    "batch.num.messages": 10, "linger.ms": 1})  # fmt: skip
    write(own, "until", 300)
    three.stop(leader, signal.SIGKILL)
    write(own, "since", 300)
    assert own.flush(DEADLINE_S) == 0


def lose_what_is_not_acknowledged(three: Brokers) -> None:
    """A leader dies with records that nobody else has got: it is to cut them when it returns."""
    leader = three.partition("t").leader
    others = [three.running[each].process for each in ALL if each != leader]
    for each in others:
        each.send_signal(signal.SIGSTOP)
    own = Producer({"bootstrap.servers": three.address(leader), "acks": "1"})
    for number in range(50):
        own.produce("t", f"lost {number}", partition=0)
    own.flush(0.5)
    three.stop(leader, signal.SIGKILL)
    for each in others:
        each.send_signal(signal.SIGCONT)
    three.until("t", lambda found: found.leader not in (-1, leader))
    three.start(leader, **SETTINGS)
    until_all(three, ["t"])


def until_all(three: Brokers, topics: list[str] | tuple[str, ...]) -> None:
    for topic in topics:
        for number in range(PARTITIONS):
            three.until(topic, lambda found: len(found.isrs) == len(ALL), number)


def dumped(three: Brokers) -> tuple[Dump, Dump]:
    """Of the topic and of the internal ones, whose keys are not for people. Their indexes hold."""
    own, others = (
        tool.log_files(*(folder_of(three.folder(node), topic, number) for node in ALL
                         for topic in topics for number in range(PARTITIONS)))
        for topics in (TOPICS[:1], TOPICS[1:])
    )  # fmt: skip
    found = tool.dump(own), tool.dump_without_data(others)
    checks = [tool.check_indexes([*own, *others], flag)
              for flag in ("--verify-index-only", "--index-sanity-check")]  # fmt: skip
    for each in (*found, *checks):
        assert (each.complaints, each.holes) == ([], [])
    return found


def folder_of(folder: Path, topic: str, partition: int) -> Path:
    return folder / "data" / f"{topic}-{partition}"


def batches(found: Dump, folder: Path, topic: str, partition: int) -> list[Batch]:
    """Checksums, offsets, producers, epochs, records. Where a segment begins is each replica's."""
    own = found.batches(folder_of(folder, topic, partition))
    assert all(each.valid for each in own)
    return [replace(each, position=0) for each in own]


def check_what_was_written(found: Dump, three: Brokers) -> None:
    for number in range(PARTITIONS):
        folder = folder_of(three.folder(ALL[0]), "t", number)
        own = found.batches(folder)
        assert {each.codec for each in own} == {*CODECS}
        assert all(one.last_offset + 1 == two.base_offset for one, two in pairwise(own))
        values = [each.payload.split(" x")[0] for each in found.records(folder) if each.payload
                  and not each.payload.startswith("lost ")]  # acks=1: may be there twice
        assert len(values) == len({*values}) > 600
        markers = [each.marker for each in found.records(folder) if each.marker]
        assert markers == ["COMMIT", "ABORT"] * 3
        epochs = [each.leader_epoch for each in own]
        assert epochs == sorted(epochs)
        assert len({*epochs}) >= (2 if number == 0 else 1)
        assert len([*folder.glob("*.log")]) > 1

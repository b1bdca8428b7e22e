"""ListOffsets as the data plane answers it: as the control plane would, or not at all."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from appliance.config import LogConfig
from appliance.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from appliance.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from appliance.testing import RunningBroker
from tests.support.data_plane import NETWORK, PARTITIONS, Plane, batch, noise
from tests.support.wire_client import WireClient, frame_of

KEY, VERSIONS = 2, range(1, 12)
LATEST, EARLIEST = -1, -2
MANY = 32  # partitions that are answered at once

Asked = Sequence[tuple[int, int]]  # partition, time


def question(
    *asked: Asked, version: int = 11, topic: str = "t", isolation: int = 0, epoch: int = -1
) -> bytes:
    """A frame; each of `asked` is a topic of its own, of that name."""
    part, of_topic = ListOffsetsRequest.ListOffsetsPartition, ListOffsetsRequest.ListOffsetsTopic
    topics = [of_topic(topic, [part(each, epoch, time) for each, time in row]) for row in asked]
    return frame_of(ListOffsetsRequest(-1, isolation, topics), KEY, version)


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    made = Plane(tmp_path, NETWORK, LogConfig())
    yield made
    made.stop()


def rows(client: WireClient, frame: bytes, version: int = 11) -> list[tuple[int, int, int]]:
    client.send(frame)
    answer: Any = client.answer(ListOffsetsResponse, KEY, version)
    return [(row.offset, row.leader_epoch, row.timestamp)
            for topic in answer.topics for row in topic.partitions]  # fmt: skip


# As the control plane

@pytest.fixture
def topic(appliance_broker: RunningBroker) -> Iterator[str]:
    """Partition 0 without its first records, 1 with a transaction that is open, 2 empty."""
    admin = AdminClient({"bootstrap.servers": appliance_broker.bootstrap})
    admin.create_topics([NewTopic("t", PARTITIONS)])["t"].result(20)
    producer = ck.Producer({
        "bootstrap.servers": appliance_broker.bootstrap, "transactional.id": "t"})  # fmt: skip
    producer.init_transactions(20)
    producer.begin_transaction()
    for number in range(10):
        producer.produce("t", b"%d" % number, partition=0)
    producer.commit_transaction(20)
    producer.begin_transaction()
    producer.produce("t", b"open", partition=1)
    assert producer.flush(20) == 0
    (deleted,) = admin.delete_records([ck.TopicPartition("t", 0, 4)]).values()
    assert deleted.result(20).low_watermark == 4
    yield "t"
    producer.abort_transaction(20)


@pytest.mark.parametrize("version", VERSIONS)
def test_both_planes_say_the_same(
    appliance_broker: RunningBroker, topic: str, version: int
) -> None:
    host, _, port = appliance_broker.bootstrap.partition(":")
    slow = frame_of(ApiVersionsRequest("test", "1"), 18, 3)
    with WireClient((host, int(port))) as client:
        for isolation in (0, 1):
            for time in (LATEST, EARLIEST):
                asked = question([(each, time) for each in range(PARTITIONS)], version=version,
                                 isolation=isolation)  # fmt: skip
                client.send(asked)
                here = client.receive()
                # Behind a request that waits for the control plane it goes there too.
                head = b"".join(len(each).to_bytes(4, "big") + each for each in (slow, asked))
                client.socket.sendall(head)
                client.answer(ApiVersionsResponse, 18, 3)
                assert client.receive() == here


def test_where_partitions_begin_and_end(appliance_broker: RunningBroker, topic: str) -> None:
    host, _, port = appliance_broker.bootstrap.partition(":")
    with WireClient((host, int(port))) as client:
        for isolation, ends in ((0, [11, 1, 0]), (1, [11, 0, 0])):
            asked = question([(each, LATEST) for each in range(3)], isolation=isolation)
            assert [row[0] for row in rows(client, asked)] == ends
        asked = question([(each, EARLIEST) for each in range(3)])
        assert [row[0] for row in rows(client, asked)] == [4, 0, 0]


# Here, or not

@pytest.mark.parametrize("version", VERSIONS)
def test_it_is_answered_here(plane: Plane, version: int) -> None:
    for epoch in (0, 2, 5):
        plane.logs[1].append_durable(batch(count=2), leader_epoch=epoch)
    known = version >= 4
    with plane.client() as client:
        for asked, offset, epoch in ((LATEST, 6, 5), (EARLIEST, 0, 0)):
            frame = question([(1, asked)], version=version, epoch=5)
            assert rows(client, frame, version) == [(offset, epoch if known else -1, -1)]
    assert plane.data_plane.counters()["punted_requests"] == 0


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(question([(0, 1_700_000_000_000)]), id="a time"),
        pytest.param(question([(0, -3)]), id="the largest timestamp"),
        pytest.param(question([(0, EARLIEST), (1, -4)]), id="one of two is not simple"),
        pytest.param(question([(0, EARLIEST)], topic="none"), id="an unknown topic"),
        pytest.param(question([(PARTITIONS, EARLIEST)]), id="an unknown partition"),
        pytest.param(question([(-1, EARLIEST)]), id="a partition below 0"),
        pytest.param(question([(0, EARLIEST)], epoch=7), id="another leader epoch"),
        pytest.param(question([(0, EARLIEST), (0, LATEST)]), id="a partition twice"),
        pytest.param(question([(0, EARLIEST)], [(0, EARLIEST)]), id="twice, by its topic"),
        pytest.param(question([(0, EARLIEST)]) + b"\0", id="a byte too many"),
        pytest.param(question([(0, EARLIEST)], version=5)[:-1], id="a byte too few"),
    ],
)
def test_what_is_not_simple_is_passed_on(plane: Plane, frame: bytes) -> None:
    with plane.client() as client:
        client.send(frame)
        plane.wait_for("punted_requests", 1)
        (punt,), _ = plane.data_plane.punts()
        assert punt.frame == frame


@pytest.mark.parametrize("is_leader", [False, True], ids=["alone", "the only replica"])
def test_an_end_that_a_commit_would_move_is_passed_on(plane: Plane, is_leader: bool) -> None:
    if is_leader:
        plane.logs[0].lead(0, 1, [], [], 1)
    plane.logs[0].append(batch())  # as acks=1 leaves it
    with plane.client() as client:
        assert rows(client, question([(0, EARLIEST)])) == [(0, 0, -1)]
        client.send(question([(0, LATEST)]))
        plane.wait_for("punted_requests", 1)
    plane.logs[0].await_durable(0, 10)
    with plane.client() as client:
        assert rows(client, question([(0, LATEST)])) == [(1, 0, -1)]


def test_a_closed_log_is_left_to_the_control_plane(plane: Plane) -> None:
    plane.logs[0].close()
    with plane.client() as client:
        client.send(question([(0, EARLIEST)]))
        plane.wait_for("punted_requests", 1)


def test_many_partitions_are_left_to_the_control_plane(tmp_path: Path) -> None:
    made = Plane(tmp_path, NETWORK, LogConfig())
    logs = [made.log_dir.create("wide", each) for each in range(MANY + 1)]
    made.data_plane.put_topic("wide", bytes(16), logs)
    try:
        with made.client() as client:
            wide = [(each, EARLIEST) for each in range(MANY + 1)]
            assert len(rows(client, question(wide[:-1], topic="wide"))) == MANY
            client.send(question(wide, topic="wide"))
            made.wait_for("punted_requests", 1)
    finally:
        made.stop()


def test_noise_is_answered_or_passed_on(plane: Plane) -> None:
    """Under a sanitizer this finds a byte that is read behind the end."""
    chance = random.Random(20261122)
    frames = [question([(0, EARLIEST), (1, LATEST)], version=each) for each in (1, 2, 4, 6, 10, 11)]
    for _ in range(300):
        with plane.client() as client:
            for _ in range(10):
                try:
                    client.send(noise(chance, chance.choice(frames)))
                except ConnectionError:
                    break
    with plane.client() as client:
        assert len(rows(client, question([(0, EARLIEST)]))) == 1

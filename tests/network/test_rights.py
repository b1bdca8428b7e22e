"""Rights in the data plane, over real sockets; the test is the control plane and decides."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.protocol.messages.fetch import FetchRequest, FetchResponse
from appliance.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from appliance.protocol.messages.produce import ProduceRequest
from appliance.record._batch import records
from tests.support.small_control import (
    ANONYMOUS,
    DESCRIBE,
    HOST,
    READ,
    WRITE,
    SmallControl,
    batch,
    small_control,
)
from tests.support.wire_client import TOPIC_ID, WireClient, frame_of

REFUSED, UNKNOWN_TOPIC, UNKNOWN_ID = 29, 3, 100
CLUSTER, CLUSTER_ACTION = "\0kafka-cluster", 8
ALICE = "User:alice"


@pytest.fixture
def control(tmp_path: Path) -> Iterator[SmallControl]:
    with small_control(tmp_path) as made:
        made.plane.enforce(1)
        yield made


@pytest.fixture
def client(control: SmallControl) -> Iterator[WireClient]:
    with control.client() as made:
        yield made


def values(part: Any) -> list[bytes | None]:
    return [record.value for record in records(part.records, partial_tail=True)]


def one(client: WireClient, version: int = 12) -> Any:
    """The only partition of the next answer to a Fetch."""
    (topic,) = client.answer(FetchResponse, 1, version).responses
    (part,) = topic.partitions
    return part


# Produce

def test_an_allowed_produce_is_written_at_once(control: SmallControl, client: WireClient) -> None:
    control.decide(WRITE, WRITE)
    assert client.produce(batch())[0].base_offset == 0
    assert client.produce(batch(), version=13)[0].base_offset == 1
    assert control.has_nothing()


@pytest.mark.parametrize(("known", "allowed"), [(0, 0), (WRITE, 0), (READ, READ), (READ, WRITE)])
@pytest.mark.parametrize("version", [3, 12, 13])
def test_any_other_produce_is_passed_on(
    control: SmallControl, client: WireClient, known: int, allowed: int, version: int
) -> None:
    control.decide(known, allowed)
    client.send_produce(batch(), version=version)
    assert control.punt().frame[:2] == b"\0\0"
    assert control.logs[0].log_end_offset == 0


def test_a_decision_about_one_right_leaves_the_others(
    control: SmallControl, client: WireClient
) -> None:
    control.decide(WRITE, WRITE)
    assert client.produce(batch())[0].error_code == 0
    control.decide(READ, 0)
    assert client.produce(batch())[0].error_code == 0
    assert client.fetch_one(0).error_code == REFUSED
    control.decide(READ | WRITE, READ)
    with control.client() as fresh:
        assert fresh.fetch_one(0).error_code == 0
        fresh.send_produce(batch())
        control.punt()


def test_one_topic_that_is_not_allowed_passes_the_request_on(
    control: SmallControl, client: WireClient
) -> None:
    control.plane.put_topic("u", bytes(15) + b"u", [control.logs[1]])
    control.decide(WRITE, WRITE)
    asked = ProduceRequest(acks=1, topic_data=[
        ProduceRequest.TopicProduceData(name=name, partition_data=[
            ProduceRequest.PartitionProduceData(index=0, records=batch())]) for name in "tu"])
    client.send(frame_of(asked, 0, 9))
    control.punt()
    assert control.logs[0].log_end_offset == control.logs[1].log_end_offset == 0


@pytest.mark.parametrize("topic", ["t", "nowhere"])
def test_whether_a_topic_exists_is_not_told_without_a_right(
    control: SmallControl, client: WireClient, topic: str
) -> None:
    client.send_produce(batch(), topic=topic)
    control.punt()
    control.decide(READ, 0, topic=topic)
    with control.client() as reader:
        assert reader.fetch_one(0, topic=topic).error_code == REFUSED


def test_a_topic_that_is_not_there_is_told_to_who_may_use_it(
    control: SmallControl, client: WireClient
) -> None:
    control.decide(READ | WRITE, READ | WRITE, topic="nowhere")
    assert client.produce(batch(), topic="nowhere")[0].error_code == UNKNOWN_TOPIC
    assert client.fetch_one(0, topic="nowhere").error_code == UNKNOWN_TOPIC


def test_an_id_that_is_not_there_is_told_to_everybody(
    control: SmallControl, client: WireClient
) -> None:
    control.plane.remove_topic("t")
    assert client.produce(batch(), version=13)[0].error_code == UNKNOWN_ID
    assert client.fetch_one(0, version=13).error_code == UNKNOWN_ID
    assert control.has_nothing()


def test_batches_of_a_transaction_need_the_right_to_its_id(control: SmallControl) -> None:
    """Rights to the topic are there; the transaction is open in its partition."""
    control.decide(WRITE, WRITE)
    marked = batch(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    control.logs[0].append(marked, origin="client")
    following = batch(producer_id=7, producer_epoch=0, base_sequence=1, transactional=True)
    part = ProduceRequest.PartitionProduceData(index=0, records=following)
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[part])
    for name in ("mine", None):
        asked = ProduceRequest(transactional_id=name, acks=1, topic_data=[topic])
        with control.client() as client:
            client.send(frame_of(asked, 0, 9))
            control.punt()
    assert control.logs[0].log_end_offset == 1
    control.decide(WRITE, WRITE, topic="\0mine")
    asked = ProduceRequest(transactional_id="mine", acks=1, topic_data=[topic])
    with control.client() as client:
        client.send(frame_of(asked, 0, 9))
        assert client.receive()
        assert control.has_nothing()
        assert control.logs[0].log_end_offset == 2
        control.plane.enforce(2)
        control.decide(WRITE, WRITE, 2)
        client.send(frame_of(asked, 0, 9))
        control.punt()


# ListOffsets

def ends_of(*topics: str) -> bytes:
    part = ListOffsetsRequest.ListOffsetsPartition(timestamp=-1)
    return frame_of(ListOffsetsRequest(topics=[
        ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=[part]) for name in topics
    ]), 2, 7)


def test_offsets_are_listed_for_who_may_describe(
    control: SmallControl, client: WireClient
) -> None:
    control.decide(DESCRIBE, DESCRIBE)
    client.send(ends_of("t"))
    (topic,) = client.answer(ListOffsetsResponse, 2, 7).topics
    assert topic.partitions[0].offset == 0
    assert control.has_nothing()


@pytest.mark.parametrize(("known", "allowed"), [(0, 0), (DESCRIBE, 0), (READ, READ)])
def test_any_other_question_for_offsets_is_passed_on(
    control: SmallControl, client: WireClient, known: int, allowed: int
) -> None:
    control.decide(known, allowed)
    client.send(ends_of("t"))
    control.punt()


# Fetch

@pytest.mark.parametrize("version", [12, 17])
def test_a_follower_needs_the_right_of_a_broker(
    control: SmallControl, client: WireClient, version: int
) -> None:
    """And no other one. What it says counts only then."""
    (log, *_) = control.logs
    log.append_durable(batch())
    log.lead(1, 1, [2], [2], 1)
    control.decide(READ, READ)
    facts: dict[str, Any] = {
        "version": version, "replica": (2, 7), "leader_epoch": 1, "last_epoch": 0,
    }  # fmt: skip
    client.send_fetch(1, **facts)
    question = control.question()
    assert question.topics == [CLUSTER]
    control.plane.decide(ANONYMOUS, HOST, CLUSTER, CLUSTER_ACTION, 0, 1)
    control.plane.wake(question.connection, question.slot)
    assert one(client, version).error_code == REFUSED
    assert log.high_watermark == 0
    control.plane.enforce(2)
    control.plane.decide(ANONYMOUS, HOST, CLUSTER, CLUSTER_ACTION, CLUSTER_ACTION, 2)
    client.send_fetch(1, **facts)
    assert one(client, version).error_code == 0
    assert log.high_watermark == 1
    assert control.has_nothing()


@pytest.mark.parametrize("version", [4, 11, 12, 13, 18])
def test_a_fetch_waits_until_it_is_decided(
    control: SmallControl, client: WireClient, version: int
) -> None:
    control.logs[0].append(batch(b"one"))
    client.send_fetch(0, version=version)
    question = control.question()
    assert question[2:] == (ANONYMOUS, HOST, ["t"])
    control.settle(question, READ)
    assert values(one(client, version)) == [b"one"]
    assert values(client.fetch_one(0, version=version)) == [b"one"]
    assert control.has_nothing()


@pytest.mark.parametrize("version", [4, 12, 13])
@pytest.mark.parametrize("wait_ms", [0, 60_000])
def test_a_refused_fetch_is_told_so(
    control: SmallControl, client: WireClient, version: int, wait_ms: int
) -> None:
    control.logs[0].append(batch(b"secret"))
    client.send_fetch(0, version=version, wait_ms=wait_ms)
    control.settle(control.question(), 0)
    part = one(client, version)
    assert (part.error_code, part.high_watermark, part.log_start_offset or -1) == (REFUSED, -1, -1)
    assert not part.records


def test_a_fetch_of_many_topics_asks_for_a_bounded_number_at_a_time(
    control: SmallControl, client: WireClient
) -> None:
    names = [f"topic-{number}" for number in range(2500)]
    asked = FetchRequest(session_epoch=-1, topics=[
        FetchRequest.FetchTopic(topic=name, partitions=[FetchRequest.FetchPartition()])
        for name in names])
    client.send(frame_of(asked, 1, 12))
    found = []
    for count in (1000, 1000, 500):
        question = control.question()
        assert len(question.topics) == count
        found += question.topics
        control.settle(question, 0)
    assert found == names
    answered = client.answer(FetchResponse, 1, 12).responses
    assert {part.error_code for topic in answered for part in topic.partitions} == {REFUSED}


def test_a_fetch_that_asks_is_asked_once_and_holds_its_connection(
    control: SmallControl, client: WireClient
) -> None:
    client.send_fetch(0)
    question = control.question()
    client.send_produce(batch())
    control.logs[0].append(batch(b"one"))
    assert control.has_nothing()
    control.settle(question, READ)
    assert values(one(client)) == [b"one"]
    control.punt()


def test_a_question_whose_client_is_gone_does_no_harm(control: SmallControl) -> None:
    client = control.client()
    client.send_fetch(0, wait_ms=10_000)
    question = control.question()
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.socket.close()  # by a reset: a connection that is not read does not see its end
    control.until(lambda: control.plane.counters()["connections_open"] == 0)
    control.settle(question, READ)
    with control.client() as other:
        assert other.fetch_one(0).error_code == 0


# Rules that move

def test_a_right_that_is_withdrawn_ends_a_fetch_that_waits(
    control: SmallControl, client: WireClient
) -> None:
    control.decide(READ, READ)
    client.send_fetch(0, wait_ms=60_000)
    control.until(lambda: control.plane.counters()["fetch_partitions"] == 1)
    control.plane.enforce(2)
    control.settle(control.question(), 0, 2)
    assert one(client).error_code == REFUSED
    control.logs[0].append(batch(b"secret"))
    assert client.fetch_one(0).error_code == REFUSED


def test_a_fetch_waits_on_when_the_rules_moved_and_it_may_still_read(
    control: SmallControl, client: WireClient
) -> None:
    control.decide(READ, READ)
    client.send_fetch(0, wait_ms=60_000)
    control.until(lambda: control.plane.counters()["fetch_partitions"] == 1)
    control.plane.enforce(2)
    control.settle(control.question(), READ, 2)
    control.logs[0].append(batch(b"news"))
    assert values(one(client)) == [b"news"]


def test_a_session_notices_at_its_next_request(control: SmallControl, client: WireClient) -> None:
    control.decide(READ, READ)
    control.logs[0].append(batch(b"one"))
    begun = client.fetch(0, session=(0, 0))
    assert begun.session_id
    control.plane.enforce(2)
    client.send_fetch(0, session=(begun.session_id, 1), partitions=())
    control.settle(control.question(), 0, 2)
    part = one(client)
    assert (part.error_code, part.records or b"") == (REFUSED, b"")
    control.decide(READ, READ, 2)
    assert control.has_nothing()


def test_a_session_gets_its_records_again_with_its_right(
    control: SmallControl, client: WireClient
) -> None:
    control.decide(READ, 0)
    control.logs[0].append(batch(b"one"))
    begun = client.fetch(0, session=(0, 0))
    control.plane.enforce(2)
    control.decide(READ, READ, 2)
    client.send_fetch(0, session=(begun.session_id, 1), partitions=())
    assert values(one(client)) == [b"one"]


def test_a_session_of_an_unknown_id_is_asked_for_its_topic(
    control: SmallControl, client: WireClient
) -> None:
    """What is allowed is decided by the name, which the session learns later."""
    control.plane.remove_topic("t")
    begun = client.fetch(0, session=(0, 0), version=13)
    assert begun.responses[0].partitions[0].error_code == UNKNOWN_ID
    control.logs[0].append(batch(b"secret"))
    control.plane.put_topic("t", TOPIC_ID.bytes, [control.logs[0]])
    client.send_fetch(0, session=(begun.session_id, 1), partitions=(), version=13)
    assert one(client, 13).error_code == UNKNOWN_ID  # as before its topic is looked up again
    client.send_fetch(0, session=(begun.session_id, 2), partitions=(), version=13)
    control.settle(control.question(), 0)
    assert one(client, 13).error_code == REFUSED


def test_decisions_of_other_rules_count_for_nothing(
    control: SmallControl, client: WireClient
) -> None:
    control.plane.enforce(5)
    for generation in (1, 4, 6):
        control.decide(WRITE, WRITE, generation)
    client.send_produce(batch())
    control.punt()
    assert control.plane.counters()["decisions"] == 0


def test_decisions_that_come_after_the_rules_moved_are_asked_for_again(
    control: SmallControl, client: WireClient
) -> None:
    client.send_fetch(0)
    question = control.question()
    control.plane.enforce(2)
    control.settle(question, READ, 1)
    control.settle(control.question(), 0, 2)
    assert one(client).error_code == REFUSED


def test_rules_that_move_while_many_read_betray_nothing(control: SmallControl) -> None:
    """After the right was withdrawn and decided, no fetch gets a record."""
    control.logs[0].append(batch(b"secret"))
    is_over = threading.Event()
    withdrawn = threading.Event()
    betrayed: list[Any] = []

    def read() -> None:
        with control.client() as client:
            while not is_over.is_set():
                was = withdrawn.is_set()
                part = client.fetch_one(0)
                if was and part.error_code != REFUSED and withdrawn.is_set():
                    betrayed.append(part)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for each in threads:
        each.start()
    generation = 1
    for turn in range(100):
        allowed = READ if turn % 2 else 0
        if allowed:
            withdrawn.clear()
        generation += 1
        control.plane.enforce(generation)
        control.decide(READ, allowed, generation)
        if not allowed:
            withdrawn.set()
        for _ in range(3):
            control.take()
            while control._questions:
                control.settle(control._questions.pop(), allowed, generation)
    is_over.set()
    while any(each.is_alive() for each in threads):
        control.take()
        while control._questions:
            control.settle(control._questions.pop(), 0, generation)
        threads[0].join(0.01)
    assert not betrayed


def test_nothing_is_asked_when_nothing_is_enforced_any_more(
    control: SmallControl, client: WireClient
) -> None:
    client.send_fetch(0)
    control.question()
    control.plane.enforce(0)
    assert one(client).error_code == 0
    assert client.produce(batch())[0].error_code == 0
    assert control.has_nothing()


# Who is who

def test_principals_have_rights_of_their_own(control: SmallControl) -> None:
    control.decide(WRITE, WRITE, principal=ALICE)
    client, _ = control.logged_in(ALICE)
    with client, control.client() as nobody:
        assert client.produce(batch())[0].error_code == 0
        nobody.send_produce(batch())
        control.punt()


def test_who_logs_in_again_as_another_is_closed(control: SmallControl) -> None:
    """Decisions about the first are in use in its fetch session."""
    control.decide(READ, READ, principal=ALICE)
    client, connection = control.logged_in(ALICE)
    with client:
        client.fetch(0, session=(0, 0))
        control.plane.log_in(connection, "User:bob")
        assert control.closure().kind == "login other"


def test_decisions_are_bounded_and_those_in_use_stay(tmp_path: Path) -> None:
    with small_control(tmp_path, decisions_max=2000) as control:
        control.plane.enforce(1)
        control.decide(WRITE, WRITE)
        for number in range(10_000):
            control.decide(WRITE, WRITE, topic=f"topic-{number}")
            if number % 100 == 0:
                with control.client() as client:
                    assert client.produce(batch())[0].error_code == 0
        assert 1400 <= control.plane.counters()["decisions"] <= 2000


def test_who_was_here_once_is_forgotten(control: SmallControl) -> None:
    for number in range(5000):
        control.decide(WRITE, WRITE, principal=f"User:{number}")
    assert control.plane.counters()["decisions"] <= 2100


def test_a_fetch_of_more_topics_than_decisions_are_kept_is_answered(tmp_path: Path) -> None:
    """What it asked for first is dropped before it asks for the last."""
    names = [f"topic-{each}" for each in range(5000)]
    with small_control(tmp_path, decisions_max=2000) as control, control.client() as client:
        control.plane.enforce(1)
        asked = FetchRequest(session_epoch=-1, topics=[
            FetchRequest.FetchTopic(topic=name, partitions=[FetchRequest.FetchPartition()])
            for name in names])
        client.send(frame_of(asked, 1, 12))
        for _ in range(5):
            control.settle(control.question(), 0)
        assert len(client.answer(FetchResponse, 1, 12).responses) == len(names)

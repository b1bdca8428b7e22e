"""Share groups with members that lie, join without end, or never release records."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Iterator

import pytest

from appliance.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest as Alter,
)
from appliance.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsResponse,
)
from appliance.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from appliance.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from tests.hostile.conftest import SETTINGS
from tests.hostile.witness import batch
from tests.support.serving import Serving
from tests.support.share_member import ACCEPT, ACKNOWLEDGE, FETCH, RELEASE, ShareMember
from tests.support.wire_client import WireClient, frame_of

INVALID_REQUEST, INVALID_RECORD_STATE, LIMIT_REACHED = 42, 121, 133
LONG_MAX, INT_MAX = 2**63 - 1, 2**31 - 1
INCREMENTAL_ALTER_CONFIGS, GROUP = 44, 32


@pytest.fixture
def member(broker: Serving) -> Iterator[ShareMember]:
    """A member with a new group and a topic without reads."""
    topic = f"share-{uuid.uuid4()}"
    with WireClient(broker.kafka) as client:
        client.create_topic(topic)
    with ShareMember(broker.kafka, topic, topic) as made:
        made.join()
        assert made.acquire() == []
        yield made


def lock_for(client: WireClient, group: str, duration_ms: int) -> None:
    """How long a record of this group is locked for who has it."""
    change = Alter.AlterableConfig("share.record.lock.duration.ms", 0, str(duration_ms))
    asked = Alter([Alter.AlterConfigsResource(GROUP, group, [change])])
    client.send(frame_of(asked, INCREMENTAL_ALTER_CONFIGS, 1))
    answer = client.answer(IncrementalAlterConfigsResponse, INCREMENTAL_ALTER_CONFIGS, 1)
    assert [each.error_code for each in answer.responses] == [0]


def write(broker: Serving, topic: str, count: int) -> None:
    with WireClient(broker.kafka) as client:
        (part,) = client.produce(batch(b"x", count), topic=topic, acks=-1)
        assert part.error_code == 0


def opening(member_id: str, partitions: int = 1, wait_ms: int = 0) -> bytes:
    rows = [ShareFetchRequest.FetchPartition(i, []) for i in range(partitions)]
    return frame_of(
        ShareFetchRequest(
            group_id="flood", member_id=member_id, max_wait_ms=wait_ms, max_records=1,
            topics=[ShareFetchRequest.FetchTopic(uuid.UUID(int=5), rows)],
        ), FETCH, 2,
    )  # fmt: skip


def error_of(client: WireClient) -> int:
    return int(client.answer(ShareFetchResponse, FETCH, 2).error_code)


def test_share_sessions_without_end(broker: Serving, client: WireClient) -> None:
    """The sessions of a connection end with it."""
    most = int(SETTINGS["group.share.max.share.sessions"])
    codes = []
    for i in range(2 * most):
        client.send(opening(f"m{i}"))
        codes.append(error_of(client))
    assert codes.count(0) <= most
    assert set(codes[most:]) == {LIMIT_REACHED}
    client.socket.close()
    deadline = time.monotonic() + 20
    with WireClient(broker.kafka) as second:
        code = LIMIT_REACHED
        while code == LIMIT_REACHED:
            assert time.monotonic() < deadline
            second.send(opening("late"))
            code = error_of(second)
        assert code == 0


def test_a_share_session_of_100_000_partitions(client: WireClient) -> None:
    client.send(opening("many", 100_000))
    assert error_of(client) == INVALID_REQUEST
    client.send(opening("many", 1000))
    assert error_of(client) == 0


def test_share_fetches_that_wait_for_ever(broker: Serving, member: ShareMember) -> None:
    """Their responses are not read; after the connection ends nothing of it remains."""
    with WireClient(broker.kafka) as silent:
        for epoch in range(300):
            (place,) = member.assigned
            rows = [ShareFetchRequest.FetchPartition(place[1], [])]
            asked = ShareFetchRequest(
                group_id=member.group, member_id="silent", share_session_epoch=epoch,
                max_wait_ms=INT_MAX, min_bytes=1, max_records=500,
                topics=[ShareFetchRequest.FetchTopic(place[0], rows)],
            )  # fmt: skip
            silent.send(frame_of(asked, FETCH, 2))
        write(broker, member.topic, 100)
    deadline = time.monotonic() + 20
    count = 0
    while count < 100:
        assert time.monotonic() < deadline, f"only {count} came"
        for _, first, last, _ in member.acquire(500, 100):
            count += last - first + 1


def test_acknowledgements_that_lie(broker: Serving, member: ShareMember) -> None:
    write(broker, member.topic, 100)
    ((place, first, last, _),) = member.acquire()
    dice = random.Random(5)
    edges = [-LONG_MAX - 1, -1, 0, first, last, last + 1, INT_MAX, LONG_MAX]
    for _ in range(500):
        rows = [
            ShareAcknowledgeRequest.AcknowledgementBatch(
                dice.choice(edges), dice.choice(edges),
                [dice.randint(-128, 127) for _ in range(dice.randint(0, 3))],
            )
            for _ in range(dice.randint(1, 5))
        ]  # fmt: skip
        if all(row.acknowledge_types in ([i] for i in range(4)) for row in rows):
            continue  # the claim may be true
        error = acknowledge(member, place, rows)
        assert error in (INVALID_REQUEST, INVALID_RECORD_STATE), rows
    assert member.acknowledge(place, (first, last, [ACCEPT])) == 0


def acknowledge(member: ShareMember, place: tuple[uuid.UUID, int], rows: list[object]) -> int:
    part = ShareAcknowledgeRequest.AcknowledgePartition(place[1], rows)
    asked = ShareAcknowledgeRequest(
        group_id=member.group, member_id=member.id, share_session_epoch=member.epoch,
        topics=[ShareAcknowledgeRequest.AcknowledgeTopic(place[0], [part])],
    )  # fmt: skip
    answer = member.ask(asked, ACKNOWLEDGE, 2)
    member.epoch += 1
    assert answer.error_code == 0
    return int(answer.responses[0].partitions[0].error_code)


def test_a_large_batch_in_pieces(broker: Serving, member: ShareMember) -> None:
    """Each record gets its own state: accepted up to the limit, refused beyond it."""
    write(broker, member.topic, 50_000)
    ((place, first, last, _),) = member.acquire()
    assert (first, last) == (0, 49_999)
    kinds = [ACCEPT, RELEASE] * 25_000
    assert member.acknowledge(place, (first, last, kinds)) == INVALID_REQUEST
    assert member.acknowledge(place, (first, 8999, kinds[:9000])) == 0
    assert member.acknowledge(place, (9000, last, [ACCEPT])) == 0
    count = 0
    while count < 4500:
        count += sum(each.last - each.first + 1 for each in member.acquire(5000, 1000))
    assert count == 4500


def test_a_member_that_takes_and_never_gives_back(
    broker: Serving, client: WireClient, member: ShareMember
) -> None:
    """It acquires as many records as there are locks; other members continue after the timeout."""
    lock_for(client, member.group, 4000)
    for _ in range(5):
        write(broker, member.topic, 100)
    most = int(SETTINGS["group.share.partition.max.record.locks"])
    held = 0
    while acquired := member.acquire(500):
        held += sum(each.last - each.first + 1 for each in acquired)
    assert held == most
    with ShareMember(broker.kafka, member.group, member.topic) as second:
        second.join()
        count, deadline = 0, time.monotonic() + 30
        while count < 500:
            assert time.monotonic() < deadline, f"only {count} came"
            for place, first, last, _ in second.acquire(500, 1000):
                assert second.acknowledge(place, (first, last, [ACCEPT])) == 0
                count += last - first + 1
    assert count == 500

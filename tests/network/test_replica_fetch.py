"""What a broker answers about partitions that have replicas, frame by frame."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance._log import Log
from appliance.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from tests.support.logs import batch, everything, until
from tests.support.replica_site import ReplicaNode, on_disk
from tests.support.wire_client import TOPIC_ID, WireClient, frame_of

UNKNOWN_TOPIC, NOT_LEADER, STORAGE_ERROR = 3, 6, 56
OUT_OF_RANGE, TIMED_OUT, TOO_FEW, TOO_FEW_AFTER = 1, 7, 19, 20
FENCED, UNKNOWN_EPOCH, STALE_LIFE = 74, 75, 77
NOT_AVAILABLE, LEADER_NOT_AVAILABLE = 78, 5
LIFE = 7


@pytest.fixture
def leader(tmp_path: Path) -> Iterator[ReplicaNode]:
    """Node 1, which leads epoch 2 of `t`-0, with 2 and 3 in its ISR."""
    made = ReplicaNode(tmp_path / "1", 1)
    made.lead(2, [2, 3])
    yield made
    made.stop()


@pytest.fixture
def client(leader: ReplicaNode) -> Iterator[WireClient]:
    with leader.client() as made:
        yield made


def fetch(client: WireClient, offset: int, node: int = 2, epoch: int = 2, life: int = LIFE,
          version: int = 17, **facts: Any) -> Any:
    return client.fetch_one(offset, replica=(node, life), leader_epoch=epoch, version=version,
                            **facts)


def leader_of(part: Any) -> tuple[int, int]:
    return part.current_leader.leader_id, part.current_leader.leader_epoch


@pytest.mark.parametrize("version", [9, 11, 12, 14, 15, 18])
def test_a_follower_gets_what_has_not_counted_yet(
    leader: ReplicaNode, client: WireClient, version: int
) -> None:
    leader.log.append(batch("a"))
    part = fetch(client, 0, version=version)
    assert (part.error_code, part.high_watermark) == (0, 0)
    assert part.records == everything(leader.log)[0]


def test_the_watermark_is_the_least_that_any_has(leader: ReplicaNode, client: WireClient) -> None:
    on_disk(leader.log, batch("a", "b"))
    on_disk(leader.log, batch("c"))
    assert fetch(client, 3, node=2, last_epoch=2).high_watermark == 0
    assert fetch(client, 2, node=3, last_epoch=2).high_watermark == 2
    assert fetch(client, 3, node=3, last_epoch=2).high_watermark == 3


def test_a_follower_waits_for_what_is_appended(leader: ReplicaNode, client: WireClient) -> None:
    """Not for what is durable: nothing is flushed here."""
    leader.log.append(batch("a"))
    client.send_fetch(1, replica=(2, LIFE), leader_epoch=2, last_epoch=2, version=17, wait_ms=9000)
    until(lambda: leader.log.replicas()[0].end_offset == 1)
    leader.log.append(batch("b"))
    part = client.fetched_one(17)
    assert part.records == everything(leader.log)[1]
    assert leader.log.durable_offset == 0


def test_a_session_reports_what_it_names(leader: ReplicaNode, client: WireClient) -> None:
    facts: dict[str, Any] = {"replica": (2, LIFE), "leader_epoch": 2, "version": 17}
    session = client.fetch(0, session=(0, 0), **facts).session_id
    on_disk(leader.log, batch("a"))
    client.fetch(partitions=(), session=(session, 1), **facts)
    assert leader.log.replicas()[0].end_offset == 0
    client.fetch(1, last_epoch=2, session=(session, 2), **facts)
    assert leader.log.replicas()[0].end_offset == 1


REFUSALS = {
    "an older epoch": ({"epoch": 1}, FENCED, (1, 2)),
    "an epoch that is to come": ({"epoch": 3}, UNKNOWN_EPOCH, (-1, -1)),
    "no epoch": ({"epoch": -1}, FENCED, (1, 2)),
    "no replica": ({"node": 9}, UNKNOWN_EPOCH, (-1, -1)),
    "a former life": ({"life": LIFE - 1}, STALE_LIFE, (-1, -1)),
    "more than there is": ({"offset": 5}, OUT_OF_RANGE, (-1, -1)),
}


@pytest.mark.parametrize(("facts", "error", "named"), REFUSALS.values(), ids=REFUSALS)
def test_followers_that_are_refused(
    leader: ReplicaNode, client: WireClient, facts: dict[str, int], error: int,
    named: tuple[int, int],
) -> None:  # fmt: skip
    """Nothing that they say counts."""
    leader.log.fetched_by(2, LIFE, 2, 0)
    on_disk(leader.log, batch("a"))
    part = fetch(client, **{"offset": 1, **facts})
    assert (part.error_code, leader_of(part)) == (error, named)
    assert [each.end_offset for each in leader.log.replicas()] == [0, 0]
    assert part.records == b""


def test_a_log_that_parted_is_told_where(leader: ReplicaNode, client: WireClient) -> None:
    on_disk(leader.log, batch("a"))
    leader.lead(5, [2, 3])
    on_disk(leader.log, batch("b"))
    part = fetch(client, 4, epoch=5, last_epoch=2)
    assert (part.error_code, part.records) == (0, b"")
    assert (part.diverging_epoch.epoch, part.diverging_epoch.end_offset) == (2, 1)
    part = fetch(client, 1, epoch=5, last_epoch=4)
    assert (part.diverging_epoch.epoch, part.diverging_epoch.end_offset) == (2, 1)
    assert [each.end_offset for each in leader.log.replicas()] == [0, 0]
    part = fetch(client, 1, epoch=5, last_epoch=2)
    assert part.diverging_epoch.epoch == -1
    assert part.records == everything(leader.log)[1]


def test_a_fetch_that_waits_hears_of_an_election(leader: ReplicaNode, client: WireClient) -> None:
    client.send_fetch(0, replica=(2, LIFE), leader_epoch=2, version=17, wait_ms=9000)
    until(lambda: leader.log.replicas()[0].life == LIFE)
    leader.log.follow(3, 2)
    part = client.fetched_one(17)
    assert (part.error_code, leader_of(part)) == (FENCED, (2, 3))


def test_a_log_that_is_alone_has_no_followers(tmp_path: Path) -> None:
    alone = ReplicaNode(tmp_path / "1", 1)
    with alone.client() as client:
        assert fetch(client, 0, epoch=0).error_code == UNKNOWN_EPOCH
        assert client.fetch_one(0, replica=(2, -1), version=8).error_code == NOT_LEADER
    alone.stop()


# Clients

def test_clients_of_a_follower_are_sent_to_the_leader(
    leader: ReplicaNode, client: WireClient
) -> None:
    on_disk(leader.log, batch("a"))
    leader.log.follow(3, 2)
    for version in (4, 12, 18):
        part = client.fetch_one(0, version=version)
        assert part.error_code == NOT_LEADER
        assert leader_of(part) == ((2, 3) if version >= 12 else (-1, -1))
    for version in (3, 9, 10, 13):
        (part,) = client.produce(batch("b"), version=version)
        assert (part.error_code, part.base_offset) == (NOT_LEADER, -1)
        assert leader_of(part) == ((2, 3) if version >= 10 else (-1, -1))
    (part,) = client.produce(batch("b"), acks=-1, version=13)
    assert (part.error_code, leader_of(part)) == (NOT_LEADER, (2, 3))
    assert list_offsets(client).error_code == NOT_LEADER
    assert leader.log.log_end_offset == 1


def test_a_leader_that_stops_names_no_leader_before_there_is_another(
    leader: ReplicaNode, client: WireClient
) -> None:
    """Named itself, librdkafka would ask nobody else."""
    leader.log.end_leading()
    for acks in (1, -1):
        (part,) = client.produce(batch("a"), acks=acks, version=13)
        assert (part.error_code, leader_of(part)) == (NOT_LEADER, (-1, -1))
    leader.log.follow(3, 2)
    (part,) = client.produce(batch("a"), version=13)
    assert (part.error_code, leader_of(part)) == (NOT_LEADER, (2, 3))


def test_a_partition_of_others_is_theirs(leader: ReplicaNode, client: WireClient) -> None:
    """The topic is known; of its four partitions, this broker has the first alone."""
    logs: list[Log | None] = [leader.log, None, None, None]
    leader.data_plane.put_topic("t", TOPIC_ID.bytes, logs, leaders=[None, (4, 9), (-1, 8), None])
    for partition, named in ((1, (4, 9)), (2, (-1, 8))):
        (part,) = client.produce(batch("a"), partition=partition, version=13)
        assert (part.error_code, leader_of(part)) == (NOT_LEADER, named)
        part = client.fetch_one(0, partitions=(partition,), version=18)
        assert (part.error_code, leader_of(part)) == (NOT_LEADER, named)
        assert list_offsets(client, partition=partition).error_code == NOT_LEADER
    assert client.fetch_one(0, partitions=(3,), version=18).error_code == STORAGE_ERROR
    assert client.fetch_one(0, partitions=(4,), version=18).error_code == UNKNOWN_TOPIC


def test_acks_all_with_too_few_in_sync(leader: ReplicaNode, client: WireClient) -> None:
    leader.log.set_in_sync(2, [2], [], 3)
    (part,) = client.produce(batch("a"), acks=-1)
    assert (part.error_code, leader.log.log_end_offset) == (TOO_FEW, 0)
    (part,) = client.produce(batch("a"), acks=1)
    assert (part.error_code, leader.log.log_end_offset) == (0, 1)


def test_acks_all_when_they_become_too_few(leader: ReplicaNode, client: WireClient) -> None:
    client.send_produce(batch("a"), acks=-1, timeout_ms=3000)
    until(lambda: leader.log.log_end_offset == 1)  # and it waits: they become too few meanwhile
    leader.log.set_in_sync(2, [], [], 2)
    (part,) = client.produced()
    assert (part.error_code, part.base_offset) == (TOO_FEW_AFTER, -1)
    leader.log.set_in_sync(2, [2, 3], [], 2)
    (part,) = client.produce(batch("a"), acks=-1, timeout_ms=100)
    assert part.error_code == TIMED_OUT


@pytest.mark.parametrize("epoch", [2, 3], ids=["it resigns", "another is elected"])
def test_acks_all_ends_with_the_leadership(
    leader: ReplicaNode, client: WireClient, epoch: int
) -> None:
    client.send_produce(batch("a"), acks=-1, timeout_ms=60_000)
    until(lambda: leader.log.log_end_offset == 1)
    leader.log.follow(epoch, -1 if epoch == 2 else 3)
    (part,) = client.produced()
    assert (part.error_code, part.base_offset) == (NOT_LEADER, -1)


def test_acks_all_of_an_earlier_epoch_is_not_told_of_a_later_one(
    leader: ReplicaNode, client: WireClient
) -> None:
    """The same broker leads again: the record is still there, but that was not to be known."""
    client.send_produce(batch("a"), acks=-1, timeout_ms=60_000)
    until(lambda: leader.log.log_end_offset == 1)
    leader.lead(3, [2, 3], [])
    (part,) = client.produced()
    assert part.error_code == NOT_LEADER


def list_offsets(client: WireClient, version: int = 7, **facts: Any) -> Any:
    part = ListOffsetsRequest.ListOffsetsPartition(
        partition_index=facts.get("partition", 0), timestamp=facts.get("time", -1))
    topic = ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=[part])
    asked = ListOffsetsRequest(topics=[topic], isolation_level=facts.get("isolation", 0))
    client.send(frame_of(asked, 2, version))
    (found,) = client.answer(ListOffsetsResponse, 2, version).topics
    return found.partitions[0]


@pytest.mark.parametrize("isolation", [0, 1])
def test_the_end_is_told_when_it_is_known(
    leader: ReplicaNode, client: WireClient, isolation: int
) -> None:
    on_disk(leader.log, batch("a"))
    assert list_offsets(client, isolation=isolation).offset == 0
    leader.lead(3, [2, 3])
    part = list_offsets(client, isolation=isolation)
    assert (part.error_code, part.offset) == (NOT_AVAILABLE, -1)
    assert list_offsets(client, 4, isolation=isolation).error_code == LEADER_NOT_AVAILABLE
    assert list_offsets(client, time=-2).offset == 0
    for node in (2, 3):
        fetch(client, 1, node=node, epoch=3, last_epoch=2)
    part = list_offsets(client, isolation=isolation)
    assert (part.error_code, part.offset, part.leader_epoch) == (0, 1, 3)

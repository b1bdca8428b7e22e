"""Sessions of members of share groups, and share requests that cannot be."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from appliance.config import ShareGroupsConfig
from tests.support.control import Control
from tests.support.share_client import ACCEPT, ShareClient, other, write, write_many

INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID = 42, 3, 100
SESSION_NOT_FOUND, INVALID_EPOCH = 122, 123
SESSION_LIMIT_REACHED = 133


@pytest.fixture
def control(control: Control) -> Control:
    control.create("t", 3)
    return control


async def stop_waiting(control: Control) -> None:
    control.dispatcher.stop_waiting()


# Sessions


def test_a_session_remembers_its_partitions(control: Control, member: ShareClient) -> None:
    write(control, "x", partition=1)
    assert member.fetch(0) == {}
    assert [*member.fetch(1)] == [1]
    write(control, "y", partition=0)
    write(control, "z", partition=1)
    assert [*member.fetch(forgotten=(1,))] == [0]
    write(control, "z", partition=1)
    assert member.fetch() == {}


@pytest.mark.parametrize("epoch", [5, 2, 2**31 - 1, -2])
def test_a_request_out_of_order_is_refused(
    control: Control, member: ShareClient, epoch: int
) -> None:
    member.fetch(0)
    assert member.answer(epoch=epoch).error_code == INVALID_EPOCH
    assert member.acknowledge((0, 0, [ACCEPT]), epoch=epoch) == INVALID_EPOCH


def test_without_a_session_there_is_nothing_to_go_on_with(
    control: Control, member: ShareClient
) -> None:
    for epoch in (1, -1):
        assert member.answer(0, epoch=epoch).error_code == SESSION_NOT_FOUND
        assert member.acknowledge((0, 0, [ACCEPT]), epoch=epoch) == SESSION_NOT_FOUND
    assert member.acknowledge((0, 0, [ACCEPT]), epoch=0) == INVALID_EPOCH


def test_a_session_does_not_begin_with_acknowledgements(
    control: Control, member: ShareClient
) -> None:
    answer = member.answer(acks={0: [(0, 0, [ACCEPT])]})
    assert answer.error_code == INVALID_REQUEST


@pytest.mark.parametrize("how", ["fetch", "acknowledge"])
def test_the_end_of_a_session_gives_back_what_it_had(
    control: Control, member: ShareClient, how: str
) -> None:
    write_many(control, 20)
    member.acquire()
    acks = (0, 4, [ACCEPT])
    if how == "fetch":
        assert member.fetch(acks={0: [acks]}, epoch=-1)[0].acknowledge_error == 0
    else:
        assert member.acknowledge(acks, epoch=-1) == 0
    assert other(control).acquire() == [(5, 19, 2)]
    assert member.answer(epoch=-1).error_code == SESSION_NOT_FOUND


def test_the_end_of_a_connection_gives_back_what_it_had(
    control: Control, member: ShareClient
) -> None:
    write_many(control, 10)
    member.acquire()
    second = other(control)
    sent = second.send(0, wait_ms=20_000)
    assert not control.is_answered(sent)
    control.queue.hang_up(member.connection)
    assert second.got(sent)[0].acquired == [(0, 9, 2)]


def test_who_waits_on_a_connection_that_ended_acquires_nothing(
    control: Control, member: ShareClient
) -> None:
    sent = member.send(0, wait_ms=20_000)
    assert not control.is_answered(sent)
    control.queue.hang_up(member.connection)
    assert not control.is_answered(sent)
    write_many(control, 10)
    assert other(control).acquire() == [(0, 9, 1)]


def test_a_member_that_is_gone_gives_back_what_it_had(
    control: Control, member: ShareClient
) -> None:
    write_many(control, 10)
    member.acquire()

    async def leave() -> None:
        control.broker.share_partitions.member_gone("g", "a")

    control.run(leave())
    assert other(control).acquire() == [(0, 9, 2)]
    assert member.answer().error_code == SESSION_NOT_FOUND


def test_sessions_are_limited(tmp_path: Path) -> None:
    """Who is refused waits first as it would for records, so that it does not ask all the time."""
    control = Control(tmp_path, share_groups=ShareGroupsConfig(max_share_sessions=1))
    control.create("t")
    member, second = ShareClient(control), other(control)
    member.fetch(0)
    sent = second.send(0, wait_ms=2000)
    assert not control.is_answered(sent)
    assert control.answer(sent).error_code == SESSION_LIMIT_REACHED
    assert second.send(0, wait_ms=2**31 - 1)
    assert member.answer(epoch=-1).error_code == 0
    control.run(stop_waiting(control))
    control.close()


def test_who_waits_is_answered_when_the_broker_stops(
    control: Control, member: ShareClient
) -> None:
    sent = member.send(0, wait_ms=2**31 - 1)
    assert not control.is_answered(sent)
    control.run(stop_waiting(control))
    assert control.answer(sent).responses == []


# Requests that cannot be


@pytest.mark.parametrize("member_id", ["", "x" * 37])
def test_a_member_has_an_id(control: Control, member_id: str) -> None:
    client = ShareClient(control, member_id)
    assert client.answer(0).error_code == INVALID_REQUEST
    assert client.acknowledge((0, 0, [ACCEPT])) == INVALID_REQUEST


def test_a_request_names_its_group(control: Control) -> None:
    assert ShareClient(control, group="").answer(0).error_code == INVALID_REQUEST


def test_partitions_that_are_not_there_say_so(control: Control, member: ShareClient) -> None:
    write(control, "x")
    answer = member.answer(0, 7)
    (row,) = answer.responses
    found = {each.partition_index: each.error_code for each in row.partitions}
    assert found == {7: UNKNOWN_TOPIC_OR_PARTITION, 0: 0}
    rows = member.answer(0, topic_id=UUID(int=99)).responses
    (row,) = [each for each in rows if each.topic_id == UUID(int=99)]
    assert [each.error_code for each in row.partitions] == [UNKNOWN_TOPIC_ID]
    stranger = ShareClient(control, group="other")
    assert stranger.fetch(0)[0].error == UNKNOWN_TOPIC_OR_PARTITION, "it was not initialized"


@pytest.mark.parametrize(
    "acks",
    [
        [(4, 3, [ACCEPT])],
        [(0, 4, [ACCEPT]), (4, 9, [ACCEPT])],
        [(5, 9, [ACCEPT]), (0, 4, [ACCEPT])],
        [(0, 9, [])],
        [(0, 9, [ACCEPT, ACCEPT])],
        [(0, 0, [5])],
        [(0, 0, [-1])],
        [(-1, 0, [ACCEPT])],
        [(0, 2**63 - 1, [ACCEPT])],
    ],
)
def test_a_malformed_acknowledgement_changes_nothing(
    control: Control, member: ShareClient, acks: list[tuple[int, int, list[int]]]
) -> None:
    write_many(control, 10)
    member.acquire()
    assert member.acknowledge(*acks) == INVALID_REQUEST
    assert member.acknowledge((0, 9, [ACCEPT])) == 0

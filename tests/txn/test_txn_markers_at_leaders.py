"""Markers that go to the leaders of partitions, which may answer late, wrongly, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from appliance.broker.peers import PeerUnreachable
from appliance.errors import ApplianceError
from appliance.protocol import ErrorCode
from appliance.txn.markers import Marker
from appliance.txn.markers_at_leaders import Codes, write_at_leaders
from appliance.txn.transaction import Partition, Producer

MARKER = Marker(Producer(7, 1), True, 4)
PLACES = [Partition("t", number) for number in range(4)]


class Leaders:
    def __init__(self, *leaders: int | None) -> None:
        self.leaders = dict(zip(PLACES, leaders, strict=False))
        self.codes: dict[Partition, int] = {}
        self.asked: list[tuple[int, list[Partition]]] = []
        self.silent: set[int] = set()
        self.lost: set[int] = set()

    def leader_of(self, place: Partition) -> int | None:
        return self.leaders[place]

    async def write_markers(
        self, node: int, marker: Marker, places: Collection[Partition]
    ) -> Codes:
        assert marker is MARKER
        self.asked.append((node, sorted(places)))
        if node in self.lost:
            raise PeerUnreachable(f"broker {node} is gone")
        if node in self.silent:
            await asyncio.Event().wait()
        return {each: self.codes.get(each, 0) for each in places}


def written(leaders: Leaders) -> tuple[set[int], ApplianceError | None]:
    found = asyncio.run(asyncio.wait_for(
        write_at_leaders(leaders, MARKER, [*leaders.leaders]), 10))  # fmt: skip
    return {each.partition for each in found[0]}, found[1]


def test_each_leader_is_asked_once_for_all_that_it_leads() -> None:
    leaders = Leaders(1, 2, 1, None)  # the topic of the last is no more
    assert written(leaders) == ({0, 1, 2, 3}, None)
    assert leaders.asked == [(1, [PLACES[0], PLACES[2]]), (2, [PLACES[1]])]


def test_what_fails_keeps_none_of_the_others_from_its_marker() -> None:
    leaders = Leaders(1, 2, 3, -1)
    leaders.lost.add(2)
    leaders.codes = {PLACES[2]: int(ErrorCode.NOT_LEADER_OR_FOLLOWER)}
    done, failure = written(leaders)
    assert done == {0}
    assert failure is not None


@pytest.mark.parametrize(("code", "is_done"), [
    (ErrorCode.INVALID_PRODUCER_EPOCH, True), (ErrorCode.TRANSACTION_COORDINATOR_FENCED, False),
    (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False), (ErrorCode.NOT_ENOUGH_REPLICAS, False),
])  # fmt: skip
def test_what_a_leader_refuses_is_not_written(code: ErrorCode, is_done: bool) -> None:
    """But for what a later epoch has ended."""
    leaders = Leaders(1)
    leaders.codes = {PLACES[0]: int(code)}
    done, failure = written(leaders)
    assert done == ({0} if is_done else set())
    assert (failure is None) is is_done
    assert is_done or code.name in str(failure)


def test_who_leads_no_more_is_waited_for_no_longer() -> None:
    leaders = Leaders(1, 2)
    leaders.silent.add(1)

    async def elect() -> tuple[frozenset[Partition], ApplianceError | None]:
        asyncio.get_running_loop().call_later(0.05, leaders.leaders.update, {PLACES[0]: 3})
        return await asyncio.wait_for(write_at_leaders(leaders, MARKER, PLACES[:2]), 10)

    done, failure = asyncio.run(elect())
    assert done == {PLACES[1]}
    assert "broker 1 leads none of the partitions any more" in str(failure)

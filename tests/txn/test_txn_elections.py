"""Transaction coordinators follow their partitions: two brokers, and the test says who leads."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.broker.replica_roles import Coordinators
from appliance.protocol.messages.describe_transactions import DescribeTransactionsRequest
from appliance.protocol.messages.find_coordinator import FindCoordinatorRequest
from appliance.protocol.messages.list_transactions import ListTransactionsRequest
from appliance.topics.topic import TRANSACTIONS
from appliance.txn import timeouts
from appliance.txn.first_writes import Refused
from appliance.txn.markers import Marker
from appliance.txn.markers_at_leaders import Codes
from appliance.txn.transaction import Partition, Producer
from tests.support.logs import until
from tests.support.two_brokers import (
    LOADING,
    NOT_AVAILABLE,
    NOT_COORDINATOR,
    Member,
    TwoBrokers,
    appended_in,
)
from tests.support.txn_client import T0, T1, TxnClient, settled

CONCURRENT = 51
NOBODY = -1


class Leaders:
    """Of all partitions: this test, which notes each marker."""

    def __init__(self) -> None:
        self.leader: int | None = 3
        self.code = 0
        self.first: dict[Partition, int] = {}  # what the first is answered, when that `may_go`
        self.may_go = threading.Event()
        self.markers: list[tuple[Marker, list[Partition]]] = []

    def leader_of(self, place: Partition) -> int | None:
        return self.leader

    async def write_markers(
        self, node: int, marker: Marker, places: Collection[Partition]
    ) -> Codes:
        self.markers.append((marker, sorted(places)))
        if self.first and len(self.markers) == 1:
            await asyncio.to_thread(self.may_go.wait)
            return self.first
        return dict.fromkeys(places, self.code)

    async def ask_coordinator(
        self, name: str, producer: Producer, places: frozenset[Partition], may_add: bool
    ) -> Refused:
        raise AssertionError("nothing is written here")


class Pair(TwoBrokers):
    topic = TRANSACTIONS

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.leaders_of_others = Leaders()
        self.create("t", 3)
        for each in self.both:
            each.broker.transactions.join(self.leaders_of_others)
            each.run(each.broker.transaction_places.make_transaction_topic())

    def coordinator(self, member: Member) -> Coordinators:
        return member.broker.transactions

    def loaded(self, member: Member) -> None:
        member.run(member.broker.transactions.table.led.read_all())
        member.run(member.broker.transactions.tasks.settled())


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    try:
        yield made
    finally:
        made.close()


def begun(member: Member, *places: tuple[str, int], is_v2: bool = True) -> TxnClient:
    client = TxnClient(member, "id", is_v2=is_v2)
    assert client.init() == 0
    assert not places or client.add(*places) == [0] * len(places)
    return client


def state_at(member: Member, name: str = "id") -> str:
    """When nothing is on its way."""
    member.run(settled(member))
    return described(member, name)


def described(member: Member, name: str = "id") -> str:
    (found,) = member.ask(DescribeTransactionsRequest([name]), 0).transaction_states
    return str(found.error_code or found.transaction_state)


def listed(member: Member) -> tuple[int, list[str]]:
    answer = member.ask(ListTransactionsRequest(), 2)
    return answer.error_code, [each.transactional_id for each in answer.transaction_states]


def in_memory(member: Member) -> tuple[list[str], set[str]]:
    table = member.broker.transactions.table
    return [*table.transactions], table.open


def test_the_leader_of_its_partition_coordinates_an_id(pair: Pair) -> None:
    asked = FindCoordinatorRequest(key_type=1, coordinator_keys=["id"])
    (found,) = pair.one.ask(asked, 6).coordinators
    assert found.error_code == NOT_AVAILABLE
    assert "has no leader now" in found.error_message
    pair.move(pair.two)
    for each in pair.both:
        (found,) = each.ask(asked, 6).coordinators
        assert (found.error_code, found.node_id, found.port) == (0, 2, 9002)


ASKED: dict[str, Callable[[TxnClient], Any]] = {
    "InitProducerId": lambda client: client.init(),
    "AddPartitionsToTxn": lambda client: client.add(T0)[0],
    "AddOffsetsToTxn": lambda client: client.add_group(),
    "EndTxn": lambda client: client.end(),
    "DescribeTransactions": lambda client: int(state_at(client.control)),
}


def test_who_does_not_lead_an_ids_partition_sends_away(pair: Pair) -> None:
    pair.move(pair.two)
    client = begun(pair.two, T0)
    client.control = pair.one
    answers = {name: ask(client) for name, ask in ASKED.items()}
    assert answers == dict.fromkeys(ASKED, NOT_COORDINATOR)
    assert (listed(pair.one), listed(pair.two)) == ((0, []), (0, ["id"]))


def test_an_id_is_not_served_before_its_partition_was_read(pair: Pair) -> None:
    pair.move(pair.one)
    client = begun(pair.one)
    number = pair.one.broker.transactions.table.led.number_of("id")
    with pair.replication.held():
        appended_in(number, pair.one, lambda: client.send_end(False))
        pair.elect(pair.one, number)
        answers = {name: ask(client) for name, ask in ASKED.items()}
        assert answers == dict.fromkeys(ASKED, LOADING)
        assert listed(pair.one) == (LOADING, [])
    pair.loaded(pair.one)
    assert client.init() == 0


@pytest.mark.parametrize("is_v2", [True, False])
def test_an_open_transaction_goes_on_at_the_next_coordinator(pair: Pair, is_v2: bool) -> None:
    pair.move(pair.one)
    client = begun(pair.one, T0, is_v2=is_v2)
    pair.move(pair.two)
    assert in_memory(pair.one) == ([], set())
    assert state_at(pair.two) == "Ongoing"
    client.control = pair.two
    assert client.add(T1) == [0]
    assert client.end() == 0
    ((marker, places),) = pair.leaders_of_others.markers
    assert (marker.is_commit, places) == (True, [Partition(*T0), Partition(*T1)])
    number = pair.two.broker.transactions.table.led.number_of("id")
    assert marker.coordinator_epoch == pair.leaders[number][1]
    assert state_at(pair.two) == "CompleteCommit"


def test_what_is_decided_is_ended_by_the_next_coordinator(pair: Pair) -> None:
    others = pair.leaders_of_others
    pair.move(pair.one)
    client = begun(pair.one, T0, T1)
    others.leader = NOBODY
    assert client.end(False) == 0  # decided
    assert state_at(pair.one) == "PrepareAbort"
    assert client.add(T0) == [CONCURRENT]
    pair.move(pair.two)
    assert state_at(pair.two) == "PrepareAbort"
    others.leader = 3
    pair.move(pair.one)
    assert state_at(pair.one) == "CompleteAbort"
    assert {marker.is_commit for marker, _ in others.markers} == {False}
    assert {place for _, places in others.markers for place in places} == {
        Partition(*T0), Partition(*T1)
    }  # fmt: skip


def test_a_coordinator_that_was_deposed_decides_nothing(pair: Pair) -> None:
    """Its record was not on the replicas when another one was elected."""
    pair.move(pair.one)
    client = begun(pair.one, T0)
    number = pair.one.broker.transactions.table.led.number_of("id")
    with pair.replication.held():
        sent = appended_in(number, pair.one, lambda: client.send_end())
        pair.elect(pair.two, number)
        assert pair.one.answer(sent).error_code == NOT_COORDINATOR
    pair.loaded(pair.two)
    assert state_at(pair.two) == "Ongoing"
    assert pair.leaders_of_others.markers == []
    client.control = pair.two
    assert client.end(False) == 0
    assert [each.is_commit for each, _ in pair.leaders_of_others.markers] == [False]


def test_a_coordinator_elected_again_goes_on_with_what_it_reads(pair: Pair) -> None:
    """Not with what it had: another one may have had the id meanwhile."""
    pair.move(pair.one)
    client = begun(pair.one, T0)
    pair.move(pair.two)
    other = TxnClient(pair.two, "id")
    assert other.init() == 0
    pair.move(pair.one)
    assert client.end() in (47, 90)
    other.control = pair.one
    assert other.add(T1) == [0]
    assert other.end() == 0


def test_who_is_silent_is_aborted_by_who_coordinates_it(pair: Pair) -> None:
    pair.move(pair.one)
    client = TxnClient(pair.one, "id")
    assert client.init(timeout_ms=1000) == 0
    assert client.add(T0) == [0]
    pair.move(pair.two)
    late = time.monotonic_ns() // 1_000_000 + 60_000

    async def tick(member: Member) -> None:
        timeouts.tick(member.broker.transactions, late)
        await member.broker.transactions.tasks.settled()

    pair.one.run(tick(pair.one))
    assert pair.leaders_of_others.markers == []
    pair.two.run(tick(pair.two))
    assert state_at(pair.two) == "CompleteAbort"


def test_an_end_that_is_held_up_is_tried_again_soon(pair: Pair) -> None:
    others = pair.leaders_of_others
    pair.move(pair.one)
    client = begun(pair.one, T0)
    others.code = 6  # NOT_LEADER_OR_FOLLOWER
    assert client.end() == 0
    assert len(others.markers) >= 1
    others.code = 0
    until(lambda: state_at(pair.one) == "CompleteCommit")
    assert client.add(T1) == [0]


def test_what_an_end_of_before_finds_out_says_nothing_of_the_next_transaction(pair: Pair) -> None:
    """A coordinator that paused was not followed by another: it goes on in the same election."""
    others = pair.leaders_of_others
    pair.move(pair.one)
    client = begun(pair.one, T0, T1, is_v2=False)
    others.first = {Partition(*T0): 0, Partition(*T1): 19}  # NOT_ENOUGH_REPLICAS
    assert client.end() == 0
    pair.elect(None, raised=0)
    pair.elect(pair.one, raised=0)
    pair.one.run(pair.one.broker.transactions.table.led.read_all())
    until(lambda: described(pair.one) == "CompleteCommit")
    others.may_go.set()
    assert state_at(pair.one) == "CompleteCommit"
    del others.markers[:]
    assert client.add(T0, T1) == [0, 0]
    assert client.end(False) == 0
    assert {place for _, places in others.markers for place in places} == {
        Partition(*T0), Partition(*T1)
    }  # fmt: skip

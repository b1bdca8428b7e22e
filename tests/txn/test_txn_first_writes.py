"""First writes of a transaction to a partition, between the coordinator's answer and a marker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from appliance.protocol import ErrorCode
from appliance.txn.first_writes import FirstWrites, Refused
from appliance.txn.states import TransactionRefused
from appliance.txn.transaction import Partition, Producer

HERE, THERE, OWN = Partition("t", 0), Partition("t", 1), Producer(7, 1)


class Asked:
    """A coordinator that answers when it is let."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.refused: Refused = {}
        self.log: Any = SimpleNamespace(role="leader", election=3)
        self.writes = FirstWrites(self.ask, lambda topic, partition: self.log)

    async def ask(
        self, name: str, producer: Producer, places: frozenset[Partition], may_add: bool
    ) -> Refused:
        await self.may_answer.wait()
        return self.refused


def in_loop(job: Callable[[Asked], Awaitable[None]]) -> None:
    async def run() -> None:
        await asyncio.wait_for(job(Asked()), 10)

    asyncio.run(run())


async def write(asked: Asked, *places: Partition, during: Any = None) -> dict[Partition, int]:
    wanted = dict.fromkeys(places or (HERE,), OWN)
    async with asked.writes.writing("id", wanted, may_add=True) as refused:
        if during is not None:
            await during()
        return {place: each.kafka_code for place, each in refused.items()}


async def mark(asked: Asked, producer_id: int = OWN.id, place: Partition = HERE) -> None:
    async with asked.writes.marking([place], producer_id):
        pass


def test_after_a_marker_nobody_writes_who_asked_before_it() -> None:
    async def job(asked: Asked) -> None:
        writing = asyncio.ensure_future(write(asked, HERE, THERE))
        await asyncio.sleep(0)
        await mark(asked)
        asked.may_answer.set()
        assert await writing == {HERE: ErrorCode.CONCURRENT_TRANSACTIONS}
        assert await write(asked) == {}

    in_loop(job)


@pytest.mark.parametrize(("producer_id", "place"), [(8, HERE), (OWN.id, THERE)])
def test_markers_of_others_and_elsewhere_change_nothing(producer_id: int, place: Partition) -> None:
    async def job(asked: Asked) -> None:
        writing = asyncio.ensure_future(write(asked))
        await asyncio.sleep(0)
        await mark(asked, producer_id, place)
        asked.may_answer.set()
        assert await writing == {}

    in_loop(job)


def test_a_marker_waits_for_a_write_that_has_begun() -> None:
    async def job(asked: Asked) -> None:
        asked.may_answer.set()
        may_end, order = asyncio.Event(), []

        async def slowly() -> None:
            await may_end.wait()
            order.append("written")

        writing = asyncio.ensure_future(write(asked, during=slowly))
        await asyncio.sleep(0.01)

        async def mark_here() -> None:
            await mark(asked)
            order.append("marked")

        marking = asyncio.ensure_future(mark_here())
        await asyncio.sleep(0.01)
        may_end.set()
        assert await writing == {}
        await marking
        assert order == ["written", "marked"]

    in_loop(job)


@pytest.mark.parametrize("after", [("leader", 5), ("follower", 3)])
def test_what_was_answered_counts_in_its_election_alone(after: tuple[str, int]) -> None:
    async def job(asked: Asked) -> None:
        writing = asyncio.ensure_future(write(asked))
        await asyncio.sleep(0)
        asked.log.role, asked.log.election = after
        asked.may_answer.set()
        assert await writing == {HERE: ErrorCode.CONCURRENT_TRANSACTIONS}

    in_loop(job)


def test_who_is_refused_holds_nothing() -> None:
    async def job(asked: Asked) -> None:
        asked.may_answer.set()
        asked.refused = {HERE: TransactionRefused(ErrorCode.INVALID_TXN_STATE, "not added")}
        assert await write(asked, HERE, THERE) == {HERE: ErrorCode.INVALID_TXN_STATE}
        await mark(asked)
        assert not asked.writes._meetings

    in_loop(job)

"""How far partitions go that are on other brokers alone: who is asked, how often, and for how long
that holds."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from types import SimpleNamespace
from typing import Any, cast

import pytest

from appliance.broker import leaders_ends
from appliance.broker.leaders_ends import LOOKS_MAX, LeadersEnds, Told
from appliance.broker.members import NOBODY
from appliance.broker.partition_leaders import LATEST
from appliance.broker.peers import PeerUnreachable
from appliance.data_dir.partition_names import Key
from appliance.groups.lag_elsewhere import Ends
from appliance.groups.records import Partition

PATIENCE_S = 20.0  # of who is answered at once, on a machine on which much else runs
HERE, AWAY, LOST = Partition("t", 0), Partition("t", 1), Partition("t", 2)


class Cluster:
    """This broker is 1 and has HERE; 2 leads AWAY, and nobody LOST."""

    node_id = 1

    def __init__(self) -> None:
        logs = [object(), None, None]
        self.topics = {"t": SimpleNamespace(is_replicated=True, logs=logs),
                       "own": SimpleNamespace(is_replicated=False, logs=[None])}  # fmt: skip
        self.members = self.leaders = self
        self.ends = {AWAY: Ends(2, 9)}
        self.asked: Counter[int] = Counter()
        self.error: Exception | None = None
        self.answers = asyncio.Event()
        self.answers.set()

    def placement(self, topic: Any, partition: int) -> Any:
        return SimpleNamespace(leader=[1, 2, NOBODY][partition])

    async def told_by(self, node: int, places: Collection[Key], what: int) -> dict[Key, int]:
        self.asked[what] += 1
        await self.answers.wait()
        if self.error is not None:
            raise self.error
        return {each: self.ends[Partition(*each)][what == LATEST] for each in places}


def on_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(**given: Any) -> None:
        asyncio.run(test(**given))

    return run


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    now = SimpleNamespace(s=1000.0)
    monkeypatch.setattr(leaders_ends, "time", SimpleNamespace(monotonic=lambda: now.s))
    return now


def both(cluster: Cluster) -> LeadersEnds:
    return LeadersEnds(cast(Any, cluster), interval_s=10)


@on_loop
async def test_leaders_tell_what_is_on_their_brokers_alone(clock: SimpleNamespace) -> None:
    cluster = Cluster()
    found = both(cluster)
    places = [HERE, AWAY, LOST, Partition("t", 3), Partition("own", 0), Partition("nowhere", 0)]
    assert [found.is_there(each) for each in places] == [False, True, True, False, False, False]
    await found.ask([AWAY, LOST])
    assert (found.ends(AWAY), found.ends(LOST)) == ((2, 9), None)
    for _ in range(10):
        await found.ask([AWAY])
    assert [*cluster.asked.values()] == [1, 1]
    clock.s += 5
    await found.ask([AWAY])
    assert [*cluster.asked.values()] == [2, 2]


@on_loop
async def test_who_does_not_answer_is_waited_for_a_moment_and_is_unknown_later(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaders_ends, "WAIT_S", PATIENCE_S)
    cluster = Cluster()
    found = both(cluster)
    await found.ask([AWAY])
    clock.s += 5
    monkeypatch.setattr(leaders_ends, "WAIT_S", 0.02)
    cluster.answers.clear()
    cluster.error = PeerUnreachable("broker 2: no answer")
    for _ in range(3):
        await found.ask([AWAY])
    assert [*cluster.asked.values()] == [2, 2]  # it has one pair of requests at a time
    assert found.ends(AWAY) == (2, 9)
    cluster.answers.set()
    await found.close()
    clock.s += found.stale_s
    assert (found.ends(AWAY), found.seconds(AWAY, 8)) == (None, None)
    cluster.error = None
    monkeypatch.setattr(leaders_ends, "WAIT_S", PATIENCE_S)
    await found.ask([AWAY])
    assert found.ends(AWAY) == (2, 9)


@on_loop
async def test_the_age_of_a_record_is_from_the_first_look_that_knew_of_it(
    clock: SimpleNamespace,
) -> None:
    cluster = Cluster()
    found = both(cluster)
    for end in (9, 9, 12):
        cluster.ends[AWAY] = Ends(2, end)
        await found.ask([AWAY])
        clock.s += 10
    assert [found.seconds(AWAY, each) for each in (0, 8, 9, 11, 12)] == [30, 30, 10, 10, None]


def test_looks_are_bounded_and_forgotten_where_the_log_was_cut() -> None:
    told = Told()
    for each in range(1000):
        told.take(Ends(0, each), float(each))
    assert len(told.looks) <= LOOKS_MAX
    assert (told.looks[0].end, told.looks[-1].end) == (0, 999)
    assert [*told.looks] == sorted(told.looks)
    told.take(Ends(0, 500), 2000.0)
    assert told.looks == [(2000.0, 500)]

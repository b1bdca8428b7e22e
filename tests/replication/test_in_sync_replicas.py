"""Who is to be in the ISR, as a leader's log shows it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from appliance._log import Log
from appliance.broker import in_sync_replicas
from appliance.broker.in_sync_replicas import InSyncReplicas
from appliance.cluster.forms import PartitionState
from appliance.data_dir.partition_names import Key
from tests.support.logs import batch, one_log

US, OTHER, THIRD = 1, 2, 3
LIFE, EPOCH, LAG_MAX_MS = 4, 5, 500
NOTHING: Any = None
KEY = ("t", 0)


def test_who_has_all_and_fetches_no_more_stays_out_once_it_left(tmp_path: Path) -> None:
    """Cut off, with all of a partition that nobody writes to: it must not come and go."""
    living = {each: SimpleNamespace(life=LIFE) for each in (US, OTHER, THIRD)}
    cluster: Any = SimpleNamespace(
        member=SimpleNamespace(node_id=US), brokers=living, leaving=frozenset()
    )
    roles: Any = SimpleNamespace(is_ending=False)
    in_sync = InSyncReplicas(cluster, NOTHING, roles, LAG_MAX_MS)
    with one_log(tmp_path) as log:
        log.append(batch("a"))
        log.await_durable(0, 20)
        log.lead(EPOCH, US, [OTHER, THIRD], [THIRD], 2)
        state = PartitionState(US, LIFE, EPOCH, (US, THIRD))

        def wanted(*fetching: int) -> tuple[set[int], dict[int, int]]:
            """Right after these have fetched, however late this thread is."""
            while True:
                begun = time.monotonic()
                for each in fetching:
                    log.fetched_by(each, LIFE, EPOCH, 1)
                found = in_sync.wanted(log, state)
                if time.monotonic() - begun < LAG_MAX_MS / 2000:
                    return found

        assert wanted(OTHER, THIRD) == ({US, OTHER, THIRD}, {OTHER: LIFE})
        time.sleep(2 * LAG_MAX_MS / 1000)
        assert wanted(THIRD) == ({US, THIRD}, {})
        assert wanted(OTHER, THIRD) == ({US, OTHER, THIRD}, {OTHER: LIFE})


class Roles:
    """A fake of the roles: one log that is led, and the ISR of a state."""

    def __init__(self, log: Log) -> None:
        self.log, self.is_paused, self.is_ending = log, False, False
        self.waited_for: set[int] = set()

    def led(self) -> list[tuple[Key, Log]]:
        return [(KEY, self.log)]

    def proposed(self, key: Key) -> set[int]:
        return self.waited_for

    def propose(self, key: Key, joining: set[int]) -> set[int]:
        self.waited_for = joining
        self.apply([key])
        return joining

    def withdraw(self, key: Key, nodes: set[int]) -> None:
        self.waited_for = self.waited_for - nodes
        self.apply([key])

    def settle(self, key: Key) -> None:
        self.waited_for = set()

    def apply(self, keys: list[Key]) -> None:
        self.log.set_in_sync(EPOCH, [THIRD], sorted(self.waited_for), 2)


class Site:
    """A leader with an ISR of itself and the third, and the other one that is to join."""

    def __init__(self, log: Log, isr: tuple[int, ...] = (US, THIRD)) -> None:
        self.written: list[list[int]] = []
        self.asked = 0
        self.fault: Exception | None = None
        self.state = state = PartitionState(US, LIFE, EPOCH, isr)
        self.cluster: Any = SimpleNamespace(
            member=SimpleNamespace(node_id=US), leaving=frozenset(), states={KEY: state},
            brokers={each: SimpleNamespace(life=LIFE) for each in (US, OTHER, THIRD)},
            leads=lambda key: True, least_in_sync=lambda *key: 2, write_isr=self.write_isr,
            read_state=self.read_state,
        )  # fmt: skip
        log.lead(EPOCH, US, [OTHER, THIRD], [THIRD], 2)
        self.log, self.roles = log, Roles(log)
        self.in_sync = InSyncReplicas(self.cluster, NOTHING, cast(Any, self.roles), 60_000)
        for each in (OTHER, THIRD):
            log.fetched_by(each, LIFE, EPOCH, 0)

    async def write_isr(self, key: Key, version: int, isr: list[int], *more: Any) -> Any:
        if self.fault:
            raise self.fault
        self.written.append(isr)
        return SimpleNamespace(is_written=False, state=self.state)

    async def read_state(self, key: Key) -> None:
        self.asked += 1

    def look(self, *then: Callable[[], object]) -> None:
        """And these, while it waits for who is proposed."""

        async def looked() -> None:
            self.in_sync._look()
            for each in then:
                each()
                await asyncio.sleep(0.02)
            await asyncio.gather(*self.in_sync._writes.values(), return_exceptions=True)

        asyncio.run(looked())

    def count_one(self) -> None:
        self.log.append(batch("a"))
        self.log.flush()
        self.log.fetched_by(THIRD, LIFE, EPOCH, self.log.log_end_offset)

    def other_has(self, end_offset: int, log_start: int = 0) -> None:
        self.log.fetched_by(OTHER, LIFE, EPOCH, end_offset, log_start)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with one_log(tmp_path) as log:
        yield Site(log)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_sync_replicas, "CATCHES_UP_S", 0.05)


def test_who_lacks_what_counts_by_now_is_not_written_into_the_isr(site: Site, hasty: None) -> None:
    """Between the look and the proposal a record counts, without who is to join: who was elected
    then would not have it."""
    site.look(site.count_one)
    assert (site.log.high_watermark, site.written) == (1, [])
    site.count_one()
    assert site.log.high_watermark == 2, "nobody waits for it any more"
    site.look(lambda: site.other_has(2))
    assert site.written == [], "it had not caught up at the look, and was waited for in vain"
    site.look()
    assert site.written == [[US, OTHER, THIRD]]


def test_who_keeps_up_under_load_joins_though_it_is_never_quite_there(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its disk is slower than the leader's. The watermark waits a moment."""
    monkeypatch.setattr(in_sync_replicas, "NEAR_MS", 60_000)
    monkeypatch.setattr(in_sync_replicas, "CATCHES_UP_S", 20.0)
    for end_offset in range(3):
        site.other_has(end_offset)
        site.count_one()
    site.other_has(2)
    assert (site.log.high_watermark, site.log.replicas()[0].end_offset) == (3, 2)
    at_that_time = []
    site.look(
        lambda: None,
        lambda: [site.count_one(), at_that_time.append(site.log.high_watermark)],
        lambda: site.other_has(3),
    )
    assert (site.written, at_that_time) == ([[US, OTHER, THIRD]], [3])


def test_who_never_had_all_is_not_waited_for(site: Site) -> None:
    """It is far behind, however lately the leader was elected."""
    for _ in range(3):
        site.count_one()
    site.log.fetched_by(OTHER, LIFE + 1, EPOCH, 1)  # another life of it
    site.cluster.brokers[OTHER].life = LIFE + 1
    counted = []
    site.look(
        lambda: None, lambda: [site.count_one(), counted.append(site.log.high_watermark)]
    )
    assert (counted, site.written) == ([4], [])


def test_a_doubt_of_the_session_meanwhile_lets_nobody_in(site: Site, hasty: None) -> None:
    """Not before the log waits for it again."""
    site.other_has(0)
    site.count_one()
    site.look(
        lambda: None,
        lambda: [site.log.follow(EPOCH, -1), site.log.lead(EPOCH, US, [OTHER, THIRD], [THIRD], 2)],
        lambda: site.other_has(1),
    )
    assert site.written == []


def test_who_has_what_was_deleted_does_not_join(site: Site, hasty: None) -> None:
    """It would show that again, should it lead: a deletion waits only for who is waited for."""
    site.count_one()
    site.other_has(1)
    site.look(lambda: site.log.delete_before(1))
    assert site.written == []
    site.look(lambda: site.other_has(1, 1))
    assert site.written == []
    site.look()
    assert site.written == [[US, OTHER, THIRD]]


def test_who_joins_a_leader_that_stops_has_all(site: Site, hasty: None) -> None:
    """It may lead next, and acks=1 was told of what does not count yet."""
    site.log.append(batch("a"))
    site.log.flush()
    site.roles.is_ending = True
    site.log.end_leading()
    site.look()
    assert site.written == []
    site.other_has(1)
    site.look()
    assert site.written == [[US, OTHER, THIRD]]


def test_who_left_is_not_kept_for_who_comes(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing counts before ZooKeeper has it that the third left."""
    monkeypatch.setattr(in_sync_replicas, "CATCHES_UP_S", 20.0)
    site.other_has(0)
    site.count_one()
    del site.cluster.brokers[THIRD]
    begun = time.monotonic()
    site.look()
    assert site.written == [[US]]
    assert time.monotonic() - begun < in_sync_replicas.CATCHES_UP_S / 2


def test_an_outcome_that_is_not_known_is_asked_for(site: Site) -> None:
    """By a fault of ours: the watermark would wait for whoever was proposed for good."""
    site.fault = ValueError("a fault")
    site.look()
    assert (site.written, site.roles.waited_for, site.asked) == ([], {OTHER}, 0)
    site.fault = None
    site.look()
    assert (site.written, site.roles.waited_for, site.asked) == ([], set(), 1)
    site.look()
    assert site.written == [[US, OTHER, THIRD]]

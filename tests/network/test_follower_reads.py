"""Consumers that fetch from a follower in their rack (KIP-392), frame by frame."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.logs import batch, everything, until
from tests.support.replica_site import ReplicaNode, on_disk, wait_until_equal

NOBODY = -1
OUT_OF_RANGE, NOT_LEADER, FENCED, UNKNOWN_EPOCH, NOT_AVAILABLE = 1, 6, 74, 75, 78
WAIT_MS = 9000


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[ReplicaNode, ReplicaNode]]:
    """1 in rack a leads, 2 in rack b follows and has the two batches that count."""
    leader, follower = ReplicaNode(tmp_path / "1", 1), ReplicaNode(tmp_path / "2", 2)
    leader.lead(1, [2])
    leader.data_plane.put_racks("a", {2: "b"})
    follower.follow(1, leader)
    on_disk(leader.log, batch("a"), batch("b"))
    wait_until_equal(leader, follower)
    yield leader, follower
    follower.stop()
    leader.stop()


def fetch(node: ReplicaNode, offset: int = 0, **facts: Any) -> Any:
    with node.client() as client:
        return client.fetch_one(offset, **{"version": 17, "rack": "b", **facts})


@pytest.mark.parametrize("version", [11, 12, 17, 18])
def test_a_leader_sends_a_consumer_to_the_follower_beside_it(
    pair: tuple[ReplicaNode, ReplicaNode], version: int
) -> None:
    """At once, also where it would wait: nothing comes from here."""
    begun = time.monotonic()
    for offset in (0, 2):
        part = fetch(pair[0], offset, version=version, wait_ms=WAIT_MS)
        assert (part.error_code, part.preferred_read_replica) == (0, 2)
        assert (part.records, part.high_watermark) == (b"", 2)
    assert time.monotonic() - begun < WAIT_MS / 1000


@pytest.mark.parametrize("facts", [{"rack": ""}, {"rack": "a"}, {"rack": "c"}, {"version": 10}])
def test_others_are_served_by_the_leader(
    pair: tuple[ReplicaNode, ReplicaNode], facts: dict[str, Any]
) -> None:
    part = fetch(pair[0], **({"rack": ""} if "version" in facts else {}), **facts)
    assert part.records == b"".join(everything(pair[0].log))
    assert part.preferred_read_replica == NOBODY


def test_without_racks_the_leader_serves_all(pair: tuple[ReplicaNode, ReplicaNode]) -> None:
    pair[0].data_plane.put_racks("a", {})
    assert fetch(pair[0]).records == b"".join(everything(pair[0].log))


def test_nobody_is_sent_to_who_is_not_in_sync_or_lacks_the_record(tmp_path: Path) -> None:
    leader = ReplicaNode(tmp_path / "1", 1)
    leader.lead(1, [2, 3], in_sync=[2])
    leader.data_plane.put_racks("a", {2: "b", 3: "c"})
    on_disk(leader.log, batch("a"), batch("b"))
    leader.log.fetched_by(2, 1, 1, 2, log_start=1)
    leader.log.fetched_by(3, 1, 1, 2)
    assert fetch(leader, 1).preferred_read_replica == 2
    assert fetch(leader, 0).preferred_read_replica == NOBODY  # it begins behind that
    assert fetch(leader, 1, rack="c").preferred_read_replica == NOBODY  # not in sync
    on_disk(leader.log, batch("c"))
    assert fetch(leader, 3).preferred_read_replica == NOBODY
    leader.stop()


def test_a_follower_shows_what_counts(pair: tuple[ReplicaNode, ReplicaNode]) -> None:
    leader, follower = pair
    with leader.client() as client, follower.client() as consumer:
        shown = consumer.fetch_one(0, version=17, rack="b")
        assert shown.records == b"".join(everything(leader.log))
        assert (shown.high_watermark, shown.preferred_read_replica) == (2, NOBODY)
        leader.log.set_in_sync(1, [2], [], 3)  # too few: nothing counts from now on
        on_disk(leader.log, batch("c"))
        until(lambda: follower.log.durable_offset == 3)
        assert consumer.fetch_one(2, version=17, rack="b").records == b""
        leader.log.set_in_sync(1, [2], [], 2)
        client.fetch_one(3, replica=(2, follower.life), leader_epoch=1, last_epoch=1, version=17)
        consumer.send_fetch(2, version=17, rack="b", wait_ms=WAIT_MS)
        assert consumer.fetched_one(17).records == everything(leader.log)[2]


def test_who_does_not_ask_for_it_is_not_served_by_a_follower(
    pair: tuple[ReplicaNode, ReplicaNode]
) -> None:
    """It may not have heard of an election, and would take this log's end for the leader's."""
    part = fetch(pair[1], rack="")
    assert (part.error_code, part.current_leader.leader_id) == (NOT_LEADER, 1)
    assert fetch(pair[1], version=10, rack="").error_code == NOT_LEADER


@pytest.mark.parametrize(
    ("facts", "error"),
    [
        ({"offset": 3}, NOT_AVAILABLE),  # it may be on its way
        ({"leader_epoch": 0}, FENCED),
        ({"leader_epoch": 2}, UNKNOWN_EPOCH),
    ],
)
def test_what_a_follower_refuses(
    pair: tuple[ReplicaNode, ReplicaNode], facts: dict[str, int], error: int
) -> None:
    assert fetch(pair[1], **facts).error_code == error


def test_what_was_deleted_is_out_of_range_at_a_follower_too(
    pair: tuple[ReplicaNode, ReplicaNode]
) -> None:
    leader, follower = pair
    leader.log.delete_before(1)
    on_disk(leader.log, batch("c"))
    until(lambda: follower.log.log_start_offset == 1)
    assert fetch(follower, 0).error_code == OUT_OF_RANGE


def test_an_idle_follower_hears_of_the_watermark_soon(tmp_path: Path) -> None:
    """Its fetch waits at the leader for a minute, and not for that."""
    leader = ReplicaNode(tmp_path / "1", 1)
    follower = ReplicaNode(tmp_path / "2", 2, replication={"fetch_wait_max_ms": 60_000})
    leader.lead(1, [2])
    follower.follow(1, leader)
    on_disk(leader.log, batch("a"))
    wait_until_equal(leader, follower)
    follower.stop()
    leader.stop()


def test_a_follower_that_cannot_hear_more_is_asked_less_and_less(tmp_path: Path) -> None:
    leader = ReplicaNode(tmp_path / "1", 1)
    follower = ReplicaNode(tmp_path / "2", 2, replication={"fetch_wait_max_ms": 60_000})
    leader.lead(1, [2, 3])  # 3 never comes
    follower.follow(1, leader)
    on_disk(leader.log, batch("a"))
    until(lambda: follower.log.durable_offset == 1)
    before = leader.data_plane.counters()["fetch_requests"]
    time.sleep(1)
    assert leader.data_plane.counters()["fetch_requests"] - before < 10  # 10 ms, 20, 40, ...
    follower.stop()
    leader.stop()

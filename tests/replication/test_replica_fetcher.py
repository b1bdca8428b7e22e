"""Followers and their leaders over real sockets: what arrives, when it counts, who is refused."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from loadtest.ports import lasting_port
from tests.support.compaction import cleaned, put, settings
from tests.support.logs import batch, everything, until
from tests.support.replica_site import ReplicaNode, files_of, on_disk, wait_until_equal
from tests.support.wire_client import TOPIC_ID

Make = Callable[..., ReplicaNode]
PATIENT_MS = 15_000  # of what many syncs, or another thread, are waited for


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[ReplicaNode] = []

    def make_one(node: int, partitions: int = 1, **given: Any) -> ReplicaNode:
        made.append(ReplicaNode(tmp_path / f"{node}", node, partitions, **given))
        return made[-1]

    yield make_one
    for each in reversed(made):
        each.stop_fetching()
    for each in made:
        each.stop()


@pytest.fixture
def pair(make: Make) -> tuple[ReplicaNode, ReplicaNode]:
    """1 leads, 2 follows."""
    leader, follower = make(1), make(2)
    leader.lead(1, [2])
    follower.follow(1, leader)
    return leader, follower


def test_records_arrive_as_they_are(pair: tuple[ReplicaNode, ReplicaNode]) -> None:
    leader, follower = pair
    with leader.client() as client:
        for i in range(50):
            (part,) = client.produce(batch(f"{i}", "x" * i), acks=-1)
            assert (part.error_code, part.base_offset) == (0, 2 * i)
    wait_until_equal(leader, follower)
    assert files_of(follower) == files_of(leader)
    (state,) = follower.states(leader)
    assert (state.error, state.offset, state.watermark, state.leader_epoch) == (0, 100, 100, 1)


def test_acks_all_waits_for_the_follower(make: Make) -> None:
    leader, follower = make(1), make(2)
    leader.lead(1, [2])
    with leader.client() as client:
        (part,) = client.produce(batch("a"), acks=1)
        assert part.error_code == 0
        (part,) = client.produce(batch("b"), acks=-1, timeout_ms=300)
        assert (part.error_code, part.base_offset) == (7, -1)
        until(lambda: leader.log.durable_offset == 2)
        assert leader.log.high_watermark == 0
        client.send_produce(batch("c"), acks=-1, timeout_ms=PATIENT_MS)
        until(lambda: leader.log.durable_offset == 3)
        follower.follow(1, leader)
        (part,) = client.produced()
        assert (part.error_code, part.base_offset) == (0, 2)
        assert follower.log.durable_offset == 3


def test_the_watermark_moves_only_when_the_follower_has_it_on_disk(
    pair: tuple[ReplicaNode, ReplicaNode],
) -> None:
    leader, follower = pair
    with leader.client() as client:
        for _ in range(100):
            (part,) = client.produce(batch("v"), acks=-1)
            assert follower.log.durable_offset > part.base_offset
            assert leader.log.high_watermark > part.base_offset


def test_a_consumer_waits_for_the_watermark(make: Make) -> None:
    leader, follower = make(1), make(2)
    leader.lead(1, [2])
    on_disk(leader.log, batch("a"))
    with leader.client() as client:
        part = client.fetch_one(0, wait_ms=100)
        assert (part.error_code, part.high_watermark, part.records) == (0, 0, b"")
        client.send_fetch(0, wait_ms=PATIENT_MS)
        follower.follow(1, leader)
        part = client.fetched_one()
        assert (part.error_code, part.high_watermark) == (0, 1)
        assert part.records == everything(leader.log)[0]


def test_a_leader_that_changes_has_what_counted_and_cuts_the_rest(make: Make) -> None:
    """1 leads, and appends more than 2 gets; then 2 leads, and 1 follows."""
    one, two = make(1), make(2)
    one.lead(1, [2])
    two.follow(1, one)
    with one.client() as client:
        client.produce(batch("a", "b"), acks=-1)
    wait_until_equal(one, two)
    two.stop_fetching()
    on_disk(one.log, batch("lost 1", "lost 2", "lost 3"))
    two.lead(2, [1])
    on_disk(two.log, batch("c"))
    one.follow(2, two)
    wait_until_equal(two, one)
    assert files_of(one) == files_of(two)
    assert one.log.log_end_offset == 3
    (state,) = one.states(two)
    assert (state.cuts, state.leader_epoch, state.error) == (1, 2, 0)
    with two.client() as client:
        (part,) = client.produce(batch("d"), acks=-1)
        assert (part.error_code, part.base_offset) == (0, 3)


def test_histories_that_parted_twice_meet(make: Make) -> None:
    """Each led alone for a while, in turns, without the other."""
    one, two = make(1), make(2)
    one.lead(1, [2], [])
    on_disk(one.log, batch("1.0"))
    on_disk(one.log, batch("1.1"))
    two.lead(2, [1], [])
    on_disk(two.log, batch("2.0"))
    one.lead(3, [2], [])
    on_disk(one.log, batch("3.0", "3.1", "3.2"))
    two.lead(4, [1], [])
    on_disk(two.log, batch("4.0"))
    one.follow(4, two)
    fetcher = one.fetchers[two.node]
    cuts = []
    while not cuts or cuts[-1].offset > 0:  # it had counted: each is told before it is cut
        (cut,) = until(fetcher.untold_cuts)
        cuts.append(cut)
        assert fetcher.allow_cut(cut.topic_id, cut.partition, cut.offset)
        until(lambda at=cut.offset: all(each.offset < at for each in fetcher.untold_cuts()))
    wait_until_equal(two, one)
    assert files_of(one) == files_of(two)


def test_what_may_have_counted_is_not_cut_before_it_was_told(make: Make) -> None:
    """A leader alone in its ISR has counted what it has; another is elected without it."""
    one, two = make(1), make(2)
    one.lead(1, [2], [])
    on_disk(one.log, batch("a", "b", "c"))
    assert one.log.high_watermark == 3
    two.lead(2, [1], [])
    on_disk(two.log, batch("x"))
    one.follow(2, two)
    fetcher = one.fetchers[two.node]
    (cut,) = until(fetcher.untold_cuts)
    assert (cut.topic, cut.offset, cut.log_end_offset, cut.watermark) == ("t", 0, 3, 3)
    (state,) = one.states(two)
    assert state.reason == "the log is to be cut, of what may have counted: the ledger is asked"
    assert one.log.log_end_offset == 3
    assert fetcher.allow_cut(cut.topic_id, cut.partition, cut.offset)
    wait_until_equal(two, one)
    assert one.log.high_watermark == two.log.high_watermark == 1
    assert not fetcher.allow_cut(cut.topic_id, 7, 0)


def test_what_is_older_than_an_unclean_election_is_told_whatever_the_watermark(
    make: Make,
) -> None:
    """After a restart a broker knows little of what had counted."""
    one, two = make(1), make(2)
    one.lead(1, [2], [2])
    on_disk(one.log, batch("a"))
    assert one.log.high_watermark == 0
    two.lead(3, [1], [])
    on_disk(two.log, batch("x", "y"))
    one.follow(3, two, unclean=3)
    (cut,) = until(one.fetchers[two.node].untold_cuts)
    assert (cut.offset, cut.log_end_offset, cut.watermark) == (0, 1, 0)


def test_a_follower_of_an_old_epoch_is_refused_until_it_hears(
    pair: tuple[ReplicaNode, ReplicaNode],
) -> None:
    leader, follower = pair
    leader.lead(3, [2])
    on_disk(leader.log, batch("a"))
    (state,) = until(lambda: [each for each in follower.states(leader) if each.error])
    assert (state.error, state.reason) == (74, "FENCED_LEADER_EPOCH")
    assert leader.log.high_watermark == 0
    follower.log.follow(3, leader.node)
    wait_until_equal(leader, follower)
    until(lambda: not follower.states(leader)[0].error)


def test_a_leader_that_has_not_heard_yet_is_asked_again(
    pair: tuple[ReplicaNode, ReplicaNode],
) -> None:
    leader, follower = pair
    follower.log.follow(2, leader.node)
    (state,) = until(lambda: [each for each in follower.states(leader) if each.error])
    assert state.reason == "UNKNOWN_LEADER_EPOCH"
    leader.lead(2, [2])
    on_disk(leader.log, batch("a"))
    wait_until_equal(leader, follower)


def test_a_former_self_counts_for_nothing(pair: tuple[ReplicaNode, ReplicaNode]) -> None:
    leader, follower = pair
    leader.log.fetched_by(2, follower.life + 1, 1, 0)  # it has registered anew since
    on_disk(leader.log, batch("a"))
    (state,) = until(lambda: [each for each in follower.states(leader) if each.error])
    assert state.reason == "STALE_BROKER_EPOCH"
    assert leader.log.high_watermark == 0
    follower.fetchers[1].life = follower.life + 1
    wait_until_equal(leader, follower)


def test_who_is_no_replica_is_refused(make: Make) -> None:
    leader, stranger = make(1), make(3)
    leader.lead(1, [2])
    on_disk(leader.log, batch("a"))
    stranger.follow(1, leader)
    (state,) = until(lambda: [each for each in stranger.states(leader) if each.error])
    assert state.reason == "UNKNOWN_LEADER_EPOCH"
    assert stranger.log.log_end_offset == 0


def test_a_follower_of_a_broker_that_does_not_lead_is_told(make: Make) -> None:
    one, two, three = make(1), make(2), make(3)
    two.log.follow(1, 1)
    one.lead(1, [2, 3])
    three.follow(1, two)
    (state,) = until(lambda: [each for each in three.states(two) if each.error])
    assert state.reason == "NOT_LEADER_OR_FOLLOWER"


def test_gaps_that_compaction_left_arrive(make: Make) -> None:
    leader, follower = make(1, **settings()), make(2, **settings())
    for i in range(20):
        put(leader.log, f"a={i} b{i}={i}")
    assert cleaned(leader.log_dir, leader.log)
    leader.lead(1, [2])
    follower.follow(1, leader)
    on_disk(leader.log, batch("last"))
    wait_until_equal(leader, follower)
    assert everything(follower.log) == everything(leader.log)
    assert b"a" not in leader.log.read(0, 1)[61:]  # the first one was overwritten


def test_a_follower_begins_where_the_leader_does(make: Make) -> None:
    leader, follower = make(1, segment_bytes=600), make(2, segment_bytes=600)
    on_disk(follower.log, batch("old"))
    for i in range(20):
        on_disk(leader.log, batch(f"{i}", "x" * 100))
    leader.log.delete_before(25)
    leader.lead(1, [2])
    follower.follow(1, leader)
    wait_until_equal(leader, follower)
    until(lambda: follower.log.log_start_offset == 25)  # in the middle of a batch
    assert everything(follower.log) == everything(leader.log)


def test_a_follower_that_begins_anew_knows_no_epochs_of_before(make: Make) -> None:
    """Its first epoch would be said to end where it begins now, and the leader has others since."""
    leader, follower = make(1, segment_bytes=600), make(2, segment_bytes=600)
    for each in (leader, follower):
        for epoch in (1, 2):
            each.lead(epoch, [3], [])
            on_disk(each.log, batch(f"{epoch}"))
    follower.log.delete_before(1)  # in epoch 2
    leader.lead(3, [2])
    for i in range(20):
        on_disk(leader.log, batch(f"{i}", "x" * 100))
    leader.log.fetched_by(2, 1, 3, leader.log.log_end_offset)  # so that all counts
    leader.log.delete_before(20)
    follower.follow(3, leader)
    wait_until_equal(leader, follower)
    assert everything(follower.log) == everything(leader.log)


@pytest.mark.parametrize("began", [False, True], ids=["epochs are known", "leader began anew"])
def test_a_follower_is_away_while_all_that_it_has_is_deleted(make: Make, began: bool) -> None:
    """Its own start was within a segment already: of what is before it batches are left, with
    epochs of which the leader knows where they end, or nothing."""
    leader, follower = make(1), make(2)
    for epoch in (1, 2):
        for each in (follower,) if began else (leader, follower):
            each.lead(epoch, [3], [])
            on_disk(each.log, batch("a", "b"))
    follower.log.delete_before(3)
    if began:
        leader.log.begin_at(10)
    leader.lead(3, [2], [])
    on_disk(leader.log, batch(*"cdefgh"))
    leader.log.delete_before(leader.log.log_end_offset)
    on_disk(leader.log, batch("i"))
    follower.follow(3, leader)
    wait_until_equal(leader, follower)
    assert everything(follower.log) == everything(leader.log)


@pytest.mark.parametrize("records", [4, 6])
def test_an_empty_log_behind_records_of_an_unclean_leader_takes_none(
    make: Make, records: int
) -> None:
    """It would lack for good what is before its start."""
    leader, follower = make(1), make(2)
    follower.log.begin_at(4)
    leader.lead(1, [2], [])
    on_disk(leader.log, batch(*"abcdef"[:records]))
    follower.follow(1, leader, unclean=1)
    (state,) = until(lambda: [each for each in follower.states(leader) if each.error])
    assert state.reason == "OFFSET_OUT_OF_RANGE"
    on_disk(leader.log, batch("more"))
    until(lambda: leader.log.replicas()[0].end_offset == 4)
    assert (follower.log.log_start_offset, follower.log.log_end_offset) == (4, 4)


def test_an_empty_log_that_knows_more_of_what_was_deleted_goes_on(make: Make) -> None:
    """It is in sync, or nobody was elected without what counted."""
    leader, follower = make(1), make(2)
    follower.log.begin_at(4)
    leader.lead(1, [2], [])
    on_disk(leader.log, batch("a", "b", "c", "d"), batch("e", "f"))
    follower.follow(1, leader)
    wait_until_equal(leader, follower)
    assert (follower.log.log_start_offset, follower.log.log_end_offset) == (4, 6)


def test_histories_that_parted_before_the_start_of_an_empty_log_are_told(make: Make) -> None:
    """There is nothing to be cut: it can only begin anew."""
    leader, follower = make(1), make(2)
    for each, first in ((leader, "a"), (follower, "abc")):
        each.lead(1, [3], [])
        on_disk(each.log, batch(*first))
    follower.log.delete_before(3)  # all of it
    leader.lead(2, [2], [])
    on_disk(leader.log, batch("of another history", "b", "c", "d"))
    follower.follow(2, leader, unclean=2)
    (state,) = until(lambda: [each for each in follower.states(leader) if each.error])
    assert state.reason == "OFFSET_OUT_OF_RANGE"
    assert (follower.log.log_start_offset, follower.log.log_end_offset) == (3, 3)


def test_a_leaders_start_is_heard_by_who_must_cut_first(make: Make) -> None:
    """2 was away with records that nobody else has, and meanwhile 1 deleted some. Nothing is
    written any more: with the old start it would never be in sync again."""
    one, two = make(1), make(2)
    two.lead(1, [1])
    on_disk(two.log, batch("a", "b"))
    one.follow(1, two)
    wait_until_equal(two, one)
    one.stop_fetching()
    on_disk(two.log, batch("lost"))
    one.lead(2, [2], [])
    one.log.delete_before(1)
    two.follow(2, one)
    until(lambda: two.log.log_start_offset == 1)
    until(lambda: one.log.replicas()[0].start_offset == 1)
    assert (two.log.log_end_offset, two.log.high_watermark) == (2, 2)


def test_records_that_the_leader_deletes_are_deleted(pair: tuple[ReplicaNode, ReplicaNode]) -> None:
    leader, follower = pair
    with leader.client() as client:
        for _ in range(10):
            client.produce(batch("v"), acks=-1)
        leader.log.delete_before(7)
        client.produce(batch("v"), acks=-1)
    until(lambda: follower.log.log_start_offset == 7)


def test_two_hundred_partitions(make: Make) -> None:
    """Only those that moved are named: the others cost no bytes."""
    count = 200
    leader, follower = make(1, count), make(2, count)
    leader.lead(1, [2])
    follower.follow(1, leader)
    with leader.client() as client:
        for first in (0, 100):
            batches = [batch(f"{i}") for i in range(100)]
            parts = client.produce(*batches, partition=first, acks=-1, timeout_ms=PATIENT_MS)
            assert {part.error_code for part in parts} == {0}
        wait_until_equal(leader, follower)
        sent = follower.fetchers[1].counters()["bytes_in"]
        for _ in range(10):
            client.produce(batch("v"), partition=7, acks=-1)
        assert follower.fetchers[1].counters()["bytes_in"] - sent < 20_000
    wait_until_equal(leader, follower)
    for i in range(count):
        assert files_of(follower, i) == files_of(leader, i)


def test_a_leader_without_room_for_a_session_is_followed(make: Make) -> None:
    leader = make(1, 3, network={"fetch_max_partitions_all": 2})
    follower = make(2, 3)
    leader.lead(1, [2])
    follower.follow(1, leader)
    with leader.client() as client:
        for _ in range(5):
            client.produce(batch("a"), batch("b"), batch("c"), acks=-1)
    wait_until_equal(leader, follower)


def test_one_partition_fails_and_the_others_go_on(make: Make) -> None:
    leader, follower = make(1, 3), make(2, 3)
    leader.lead(1, [2])
    follower.follow(1, leader)
    follower.logs[1].close()
    with leader.client() as client:
        for partition in (0, 2):
            (part,) = client.produce(batch("a"), partition=partition, acks=-1)
            assert part.error_code == 0
        (part,) = client.produce(batch("a"), partition=1, acks=-1, timeout_ms=200)
        assert part.error_code == 7
    until(lambda: [(each.partition, each.error != 0) for each in follower.states(leader)]
          == [(0, False), (1, True), (2, False)])  # fmt: skip


def test_a_partition_that_is_added_is_fetched_at_once(make: Make) -> None:
    """Though a fetch waits at the leader: half a minute here."""
    leader = make(1, 2)
    follower = make(2, 2, replication={"fetch_wait_max_ms": 30_000})
    leader.lead(1, [2])
    follower.follow(1, leader)
    follower.fetchers[1].remove(TOPIC_ID.bytes, 1)
    time.sleep(0.1)
    on_disk(leader.logs[1], batch("a"))
    begin = time.monotonic()
    follower.fetchers[1].add(TOPIC_ID.bytes, "t", 1, follower.logs[1])
    until(lambda: follower.logs[1].durable_offset == 1)
    assert time.monotonic() - begin < 15


def test_nothing_is_fetched_for_a_partition_that_was_removed(
    pair: tuple[ReplicaNode, ReplicaNode],
) -> None:
    leader, follower = pair
    assert follower.fetchers[1].remove(TOPIC_ID.bytes, 0)
    assert not follower.fetchers[1].remove(TOPIC_ID.bytes, 0)
    on_disk(leader.log, batch("a"))
    time.sleep(0.2)
    assert follower.log.log_end_offset == 0
    assert follower.states(leader) == []


@pytest.mark.alone
def test_it_stops_within_a_tenth_of_a_second(pair: tuple[ReplicaNode, ReplicaNode]) -> None:
    _, follower = pair
    until(lambda: follower.fetchers[1].is_connected)
    begin = time.monotonic()
    assert follower.fetchers[1].stop(100)
    assert time.monotonic() - begin < 0.1


def test_a_leader_that_is_away_is_found_again(make: Make) -> None:
    leader, follower = make(1, port=lasting_port()), make(2)
    leader.lead(1, [2])
    follower.follow(1, leader)
    with leader.client() as client:
        client.produce(batch("a"), acks=-1)
    leader.data_plane.stop(0)
    until(lambda: not follower.fetchers[1].is_connected)
    until(lambda: follower.fetchers[1].failure)
    leader.serve(leader.address[1])
    on_disk(leader.log, batch("b"))
    wait_until_equal(leader, follower)
    assert follower.fetchers[1].counters()["connects"] >= 2


def test_what_came_in_pieces_and_late_is_no_trouble(make: Make) -> None:
    """Answers larger than a socket takes at once, and batches larger than a fetch."""
    leader = make(1)
    small = {"fetch_max_bytes": 1 << 16, "fetch_response_max_bytes": 1 << 16}
    follower = make(2, replication=small)
    leader.lead(1, [2])
    for i in range(20):
        on_disk(leader.log, batch(bytes([i]) * 200_000))
    follower.follow(1, leader)
    wait_until_equal(leader, follower)
    assert files_of(follower) == files_of(leader)


def test_a_log_that_follows_another_is_not_fetched_from_here(make: Make) -> None:
    """Whoever forgot to remove it harms nobody."""
    one, two = make(1), make(2)
    one.lead(1, [2])
    two.follow(1, one)
    two.log.follow(2, 3)
    on_disk(one.log, batch("a"))
    (state,) = until(lambda: [each for each in two.states(one) if each.error])
    assert state.reason == "this broker does not lead the partition"
    assert two.log.log_end_offset == 0


def test_a_follower_that_has_all_is_not_behind(make: Make) -> None:
    """Also where its session names nothing for a long time."""
    leader, follower = make(1, 2), make(2, 2, replication={"fetch_wait_max_ms": 50})
    leader.lead(1, [2])
    follower.follow(1, leader)
    time.sleep(1)
    until(lambda: max(log.replicas()[0].lag_ms for log in leader.logs) < 900)

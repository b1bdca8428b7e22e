"""A log as one of several replicas: who may append, who follows, where histories part. When a
record counts is in `test_log_high_watermark.py`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from appliance._log import Log
from appliance.errors import (
    BatchCorrupt,
    LeaderEpochOld,
    LeaderEpochUnknown,
    NotLeader,
    OffsetOutOfRange,
    ReplicaLifeOld,
    ReplicaUnknown,
)
from tests.support.logs import (
    bases,
    batch,
    end_txn,
    everything,
    log_config,
    marker,
    one_log,
    opened,
    produced,
    reopened,
    until,
    values,
)
from tests.support.replicated_log import LIFE, following, leading, replicate

# Others than before, in the same election

def test_a_replica_that_is_added_is_not_waited_for_until_it_joins(tmp_path: Path) -> None:
    with leading(tmp_path, in_sync=(2,)) as log:
        with pytest.raises(ReplicaUnknown):
            log.fetched_by(4, LIFE, 5, 0)
        log.append(batch("a"))
        log.flush()
        log.fetched_by(2, LIFE, 5, 1)
        log.set_others(5, [2, 3, 4])
        assert (log.high_watermark, log.election, log.role) == (1, 5, "leader")
        log.fetched_by(4, LIFE, 5, 0)
        told = {each.node: (each.end_offset, each.is_in_sync) for each in log.replicas()}
        assert told == {2: (1, True), 3: (0, False), 4: (0, False)}
        log.fetched_by(4, LIFE, 5, 1)
        log.set_in_sync(5, [2], [4], 2)
        log.append(batch("b"))
        log.flush()
        log.fetched_by(2, LIFE, 5, 2)
        assert log.high_watermark == 1
        log.fetched_by(4, LIFE, 5, 2)
        assert log.high_watermark == 2


def test_a_replica_that_is_removed_is_waited_for_no_more(tmp_path: Path) -> None:
    """Who waits for a record is told at once, and the fetch of who is gone counts no more."""
    with leading(tmp_path, in_sync=(2, 3)) as log:
        log.append(batch("a"))
        log.flush()
        log.fetched_by(2, LIFE, 5, 1)
        ended = threading.Event()
        waiting = threading.Thread(target=lambda: (log.await_durable(0), ended.set()))
        waiting.start()
        assert not ended.wait(0.05)
        log.set_others(5, [2])
        assert ended.wait(10)
        waiting.join()
        assert log.high_watermark == 1
        with pytest.raises(ReplicaUnknown):
            log.fetched_by(3, LIFE, 5, 1)


def test_with_a_replica_less_there_may_be_too_few_in_sync(tmp_path: Path) -> None:
    with leading(tmp_path, in_sync=(2,)) as log:
        log.set_others(5, [3])
        log.append(batch("a"))
        log.flush()
        assert (log.lacks_in_sync, log.high_watermark) == (True, 0)


def test_who_was_removed_and_comes_back_has_told_nothing(tmp_path: Path) -> None:
    """Its log was deleted meanwhile: what it had before must not count."""
    with leading(tmp_path, in_sync=(2, 3)) as log:
        log.append(batch("a"))
        log.flush()
        log.fetched_by(3, LIFE, 5, 1)
        log.set_others(5, [2])
        log.set_others(5, [2, 3])
        told = {each.node: (each.end_offset, each.is_in_sync) for each in log.replicas()}
        assert told[3] == (0, False)


def test_only_the_leader_of_that_election_has_other_replicas(tmp_path: Path) -> None:
    with leading(tmp_path) as log:
        for epoch in (4, 6):
            with pytest.raises(NotLeader):
                log.set_others(epoch, [2])
        log.follow(6, 2)
        with pytest.raises(NotLeader):
            log.set_others(6, [2])


# Who may append

def test_only_a_leader_takes_records_of_clients(tmp_path: Path) -> None:
    with following(tmp_path) as log:
        with pytest.raises(NotLeader):
            log.append(batch("a"))
        with pytest.raises(NotLeader):
            log.append(marker("commit"), origin="coordinator")
        log.follow(6, -1)
        assert log.role == "nobody"
        with pytest.raises(NotLeader):
            log.append(batch("a"))
        log.lead(7, 1, [2], [2], 1)
        log.append(batch("a"))
        assert log.leader_epoch == 7


def test_only_a_follower_takes_records_of_the_leader_it_follows(tmp_path: Path) -> None:
    with following(tmp_path) as log:
        data = batch("a", base_offset=0)
        with pytest.raises(NotLeader, match="last election 5"):
            log.append_replicated(data, 4)
        with pytest.raises(NotLeader):
            log.append_replicated(data, 6)
        log.lead(6, 1, [2], [2], 1)
        with pytest.raises(NotLeader):
            log.append_replicated(data, 6)
        assert log.log_end_offset == 0


def test_an_older_election_changes_nothing(tmp_path: Path) -> None:
    with leading(tmp_path) as log:
        log.append(batch("a"))
        with pytest.raises(LeaderEpochOld):
            log.follow(4, 2)
        with pytest.raises(LeaderEpochOld):
            log.lead(4, 1, [2], [2], 1)
        assert (log.role, log.election) == ("leader", 5)
        with pytest.raises(NotLeader):
            log.set_in_sync(4, [], [], 1)


def test_an_election_below_the_epoch_of_a_record_is_refused(tmp_path: Path) -> None:
    with following(tmp_path, epoch=5) as log:
        log.append_replicated(batch("a", base_offset=0, leader_epoch=5), 5)
        log.flush()
    with one_log(tmp_path) as log:
        with pytest.raises(LeaderEpochOld):
            log.lead(4, 1, [2], [2], 1)
        log.lead(5, 1, [2], [2], 1)


def test_the_same_election_again_changes_nothing(tmp_path: Path) -> None:
    with leading(tmp_path, in_sync=(2,)) as log:
        log.append(batch("a"))
        log.flush()
        log.fetched_by(2, LIFE, 5, 1)
        log.lead(5, 1, [2, 3], [2, 3], 2)
        assert [each.end_offset for each in log.replicas()] == [1, 0]


# Followers' fetches

def test_fetches_that_do_not_count(tmp_path: Path) -> None:
    with leading(tmp_path) as log:
        with pytest.raises(LeaderEpochOld):
            log.fetched_by(2, LIFE, 4, 0)
        with pytest.raises(LeaderEpochUnknown):
            log.fetched_by(2, LIFE, 6, 0)
        with pytest.raises(ReplicaUnknown):
            log.fetched_by(9, LIFE, 5, 0)
        log.fetched_by(2, 8, 5, 0)
        with pytest.raises(ReplicaLifeOld):
            log.fetched_by(2, 7, 5, 100)
        log.follow(6, 2)
        with pytest.raises(NotLeader):
            log.fetched_by(3, LIFE, 6, 0)


def test_lag_is_measured_by_what_there_was_at_the_last_fetch(tmp_path: Path) -> None:
    with leading(tmp_path, in_sync=(2,)) as log:
        log.append(batch("a"))
        until(lambda: log.replicas()[0].lag_ms > 100)
        log.fetched_by(2, LIFE, 5, 0)
        log.fetched_by(3, LIFE, 5, 0)
        log.append(batch("b"))
        log.fetched_by(2, LIFE, 5, 1)  # behind, but it has what there was at its last fetch
        log.fetched_by(3, LIFE, 5, 0)
        two, three = log.replicas()
        assert two.lag_ms < 100 < three.lag_ms
        assert (two.is_in_sync, three.is_in_sync) == (True, False)
        log.fetched_by(3, LIFE, 5, 2)
        assert log.replicas()[1].lag_ms < 100


# The follower's log

def test_a_follower_has_the_same_bytes(tmp_path: Path) -> None:
    with leading(tmp_path / "1") as leader, following(tmp_path / "2") as follower:
        leader.append(batch("a", "b"))
        leader.append(produced(0, 2, txn=True), origin="coordinator")
        end_txn(leader, "abort")
        leader.append(produced(2, 1))
        leader.flush()
        replicate(leader, follower)
        leader.fetched_by(3, LIFE, 5, leader.log_end_offset)
        replicate(leader, follower)
        assert everything(follower) == everything(leader)
        assert follower.high_watermark == leader.high_watermark == 6
        assert follower.last_stable_offset == 6
        assert [each[:5] for each in follower.producers()] == [
            each[:5] for each in leader.producers()]  # fmt: skip
        assert follower.aborted_transactions(0, 6) == leader.aborted_transactions(0, 6)


def test_a_piece_of_a_batch_is_left_out(tmp_path: Path) -> None:
    whole = batch("a", base_offset=0) + batch("b", base_offset=1)
    with following(tmp_path) as log:
        assert log.append_replicated(whole[:-1], 5) == 0
        assert log.log_end_offset == 1
        assert log.append_replicated(whole, 5) == 1  # what is here already is passed over
        assert values(everything(log)) == ["a", "b"]


def test_a_damaged_batch_is_refused(tmp_path: Path) -> None:
    damaged = bytearray(batch("a", base_offset=0) + batch("b", base_offset=1))
    damaged[-1] ^= 1
    with following(tmp_path) as log:
        with pytest.raises(BatchCorrupt):
            log.append_replicated(damaged, 5)
        assert log.log_end_offset == 1


def test_a_batch_of_a_later_or_earlier_epoch_is_refused(tmp_path: Path) -> None:
    with following(tmp_path) as log:
        with pytest.raises(LeaderEpochOld):
            log.append_replicated(batch("a", base_offset=0, leader_epoch=6), 5)
        log.append_replicated(batch("a", base_offset=0, leader_epoch=5), 5)
        with pytest.raises(LeaderEpochOld):
            log.append_replicated(batch("b", base_offset=1, leader_epoch=4), 5)


def test_an_overlap_is_refused(tmp_path: Path) -> None:
    with following(tmp_path) as log:
        log.append_replicated(batch("a", "b", base_offset=0), 5)
        with pytest.raises(OffsetOutOfRange):
            log.append_replicated(batch("b", "c", base_offset=1), 5)


@pytest.mark.parametrize("cleanly", [True, False])
def test_offsets_that_compaction_left_out_are_no_damage(cleanly: bool, tmp_path: Path) -> None:
    data = batch("a", base_offset=3) + batch("b", base_offset=9)
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config())
        log.follow(5, 1)
        log.append_replicated(data, 5)
        log.flush()
        again = reopened(log_dir, cleanly)
        log = again.log("t", 0)
        assert again.report.losses == []
        assert (bases(b"".join(everything(log))), log.log_end_offset) == ([3, 9], 10)
        log.follow(5, 1)
        log.append_replicated(batch("c", base_offset=5_000_000_000), 5)
        log.flush()
        last = reopened(again, cleanly)
        assert values(everything(last.log("t", 0))) == ["a", "b", "c"]
        last.close()


@pytest.mark.parametrize("cleanly", [True, False])
def test_a_follower_begins_where_its_leader_does(cleanly: bool, tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config(segment_bytes=100))
        log.follow(5, 1)
        log.append_replicated(b"".join(batch("x", base_offset=each) for each in range(3)), 5)
        log.flush()
        log.begin_at(70)
        assert (log.log_start_offset, log.log_end_offset, len(log.segments())) == (70, 70, 1)
        log.append_replicated(batch("a", base_offset=70), 5)
        log.flush()
        again = reopened(log_dir, cleanly)
        log = again.log("t", 0)
        assert again.report.losses == []
        assert (log.log_start_offset, values(everything(log))) == (70, ["a"])
        again.close()


@pytest.mark.parametrize("cleanly", [True, False])
def test_who_begins_anew_knows_nothing_of_before(cleanly: bool, tmp_path: Path) -> None:
    """The start was between a transaction and its marker, which is gone with all that was behind
    it; and what that producer wrote since is nowhere."""
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config())
        log.lead(5, 1, [2], [], 1)
        log.append(produced(0, txn=True))
        end_txn(log, "commit")
        log.flush()
        log.delete_before(1)
        log.follow(6, 2)
        log.begin_at(70)
        log.append_replicated(batch("a", base_offset=70, leader_epoch=6), 6)
        log.flush()
        again = reopened(log_dir, cleanly)
        log = again.log("t", 0)
        log.lead(7, 1, [2], [], 1)
        assert (log.log_start_offset, log.last_stable_offset, log.high_watermark) == (70, 71, 71)
        log.append(produced(5))  # as of a producer of which nothing is left
        assert log.diverging(5, 60) == (0, 70)
        again.close()


# Histories that part

def test_a_log_with_the_same_history_goes_on(tmp_path: Path) -> None:
    with leading(tmp_path) as log:
        assert log.diverging(-1, 0) is None
        log.append(batch("a", "b"))
        assert log.diverging(5, 1) is None
        assert log.diverging(5, 2) is None


def test_where_histories_part_is_told_by_epochs(tmp_path: Path) -> None:
    """Both have 0 and 1 of epoch 3; then one went on alone in epoch 4, and the other leads in 5."""
    with one_log(tmp_path / "1") as leader, one_log(tmp_path / "2") as follower:
        leader.lead(3, 1, [2], [2], 1)
        follower.follow(3, 1)
        leader.append(batch("a", "b"))
        leader.flush()
        replicate(leader, follower, epoch=3)
        follower.lead(4, 2, [1], [], 1)
        follower.append(batch("lost"))
        follower.append(batch("lost, too"))
        leader.lead(5, 1, [2], [2], 1)
        leader.append(batch("c"))
        leader.flush()
        assert leader.diverging(3, 4) == (3, 2)
        found = leader.diverging(4, 4)
        assert found == (3, 2)
        follower.follow(5, 1)
        follower.cut(*found)
        assert (follower.log_end_offset, follower.durable_offset) == (2, 2)
        replicate(leader, follower)
        assert everything(follower) == everything(leader)
        assert values(everything(follower)) == ["a", "b", "c"]


def test_a_follower_with_nothing_in_common_is_cut_to_its_start(tmp_path: Path) -> None:
    with one_log(tmp_path / "1") as leader, one_log(tmp_path / "2") as follower:
        leader.lead(5, 1, [2], [2], 1)
        leader.append(batch("a"))
        follower.lead(3, 2, [1], [], 1)
        follower.append(batch("lost"))
        found = leader.diverging(3, 1)
        assert found == (0, 0)
        follower.follow(5, 1)
        follower.cut(*found)
        assert follower.log_end_offset == 0


# A log that leads is not cut

@contextmanager
def followed_with_records(path: Path) -> Iterator[Log]:
    """It has led, and follows in epoch 5."""
    with one_log(path) as log:
        log.lead(3, 1, [2], [], 1)
        log.append(batch("a"))
        log.append(batch("b"))
        log.flush()
        log.follow(5, 2)
        yield log


CUTS: list[Callable[[Log], None]] = [
    lambda log: log.cut(3, 1, election=5),
    lambda log: log.cut(3, 1),
    lambda log: log.begin_at(9, election=5),
    lambda log: log.begin_at(9),
    lambda log: log.truncate(1),
]


@pytest.mark.parametrize("cut", CUTS)
def test_nothing_is_cut_of_a_log_that_leads(tmp_path: Path, cut: Callable[[Log], None]) -> None:
    """Also not by a follower's thread that has yet to hear of the election."""
    with followed_with_records(tmp_path) as log:
        log.lead(6, 1, [2], [2], 1)
        with pytest.raises(NotLeader):
            cut(log)
        assert values(log.read(0, 1 << 20, "end")) == ["a", "b"]


def test_an_answer_of_a_former_election_cuts_nothing(tmp_path: Path) -> None:
    with followed_with_records(tmp_path) as log:
        log.follow(6, 3)
        with pytest.raises(NotLeader):
            log.cut(3, 1, election=5)
        with pytest.raises(NotLeader):
            log.begin_at(9, election=5)
        log.cut(3, 1, election=6)
        assert log.log_end_offset == 1

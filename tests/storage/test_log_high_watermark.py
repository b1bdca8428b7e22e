"""When a record counts: who is in sync, who is to join, and what they have on disk."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from appliance._log import Log
from appliance.errors import NotLeader, TimedOut
from tests.support.logs import batch, end_txn, log_config, one_log, produced, values
from tests.support.replicated_log import LIFE, leading


def joining(log: Log) -> set[int]:
    return {each.node for each in log.replicas() if each.is_joining}


def test_the_watermark_waits_for_the_disks_of_all_that_are_in_sync(tmp_path: Path) -> None:
    with leading(tmp_path) as log:
        log.append(batch("a", "b"))
        log.fetched_by(2, LIFE, 5, 2)
        log.fetched_by(3, LIFE, 5, 1)
        assert log.high_watermark == 0  # it is not on the leader's own disk yet
        log.flush()
        assert log.high_watermark == 1
        log.fetched_by(3, LIFE, 5, 2)
        assert log.high_watermark == 2
        assert values(log.read(0)) == ["a", "b"]


def test_who_is_not_in_sync_is_not_waited_for(tmp_path: Path) -> None:
    with leading(tmp_path, in_sync=(2,)) as log:
        log.append(batch("a"))
        log.flush()
        log.fetched_by(3, LIFE, 5, 1)
        assert log.high_watermark == 0
        log.fetched_by(2, LIFE, 5, 1)
        assert log.high_watermark == 1


def test_with_too_few_in_sync_the_watermark_stands(tmp_path: Path) -> None:
    with leading(tmp_path, in_sync=()) as log:
        log.append(batch("a"))
        log.flush()
        log.fetched_by(2, LIFE, 5, 1)
        assert log.high_watermark == 0
        log.set_in_sync(5, [2], [], 2)
        assert log.high_watermark == 1


def test_a_leader_alone_in_its_isr_counts_its_own_disk_if_one_is_enough(tmp_path: Path) -> None:
    with leading(tmp_path, in_sync=(), min_in_sync=1) as log:
        log.append(batch("a"))
        assert log.high_watermark == 0
        log.flush()
        assert log.high_watermark == 1


def test_who_is_proposed_for_the_isr_is_waited_for(tmp_path: Path) -> None:
    with leading(tmp_path, in_sync=(2,)) as log:
        log.fetched_by(3, LIFE, 5, 0)
        log.set_in_sync(5, [2], [3], 2)
        log.append(batch("a"))
        log.flush()
        log.fetched_by(2, LIFE, 5, 1)
        assert log.high_watermark == 0
        log.set_in_sync(5, [2], [], 2)  # ZooKeeper refused it
        assert log.high_watermark == 1


def test_what_counts_without_who_is_proposed_goes_on_counting(tmp_path: Path) -> None:
    """From the proposal on nothing more does, also while it has less than that."""
    with leading(tmp_path, in_sync=(2,)) as log:
        log.append(batch("a"))
        log.flush()
        for node, end_offset in ((2, 1), (3, 0)):
            log.fetched_by(node, LIFE, 5, end_offset)
        log.set_in_sync(5, [2], [3], 2)
        log.append(batch("b", "c"))
        log.flush()
        log.fetched_by(2, LIFE, 5, 3)
        assert log.high_watermark == 1
        log.fetched_by(3, LIFE, 5, 1)
        assert log.high_watermark == 1
        log.fetched_by(3, LIFE, 5, 2)
        assert log.high_watermark == 2


@pytest.mark.parametrize("in_sync", [(), (2,)], ids=["alone", "another one"])
def test_after_a_doubt_a_leader_waits_for_who_was_proposed(
    in_sync: tuple[int, ...], tmp_path: Path
) -> None:
    """ZooKeeper may have taken it meanwhile."""
    with leading(tmp_path, in_sync=in_sync, min_in_sync=1) as log:
        log.fetched_by(3, LIFE, 5, 0)
        log.set_in_sync(5, in_sync, [3], 1)
        log.append(batch("a"))
        log.flush()
        log.follow(5, -1)  # the session may be over
        log.lead(5, 1, [2, 3], in_sync, 1, [3])  # it goes on
        for each in in_sync:
            log.fetched_by(each, LIFE, 5, 1)
        assert (log.high_watermark, joining(log)) == (0, {3})
        log.fetched_by(3, LIFE, 5, 1)
        assert log.high_watermark == 1


def test_a_leader_of_a_broker_that_stops_takes_nothing_from_the_first(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        log.lead(5, 1, [2], [2], 1, is_ending=True)
        with pytest.raises(NotLeader):
            log.append(batch("a"))
        log.lead(6, 1, [2], [2], 1)
        log.append(batch("a"))


def test_the_watermark_never_falls(tmp_path: Path) -> None:
    with leading(tmp_path, in_sync=(2,)) as log:
        log.append(batch("a", "b"))
        log.flush()
        log.fetched_by(2, LIFE, 5, 2)
        log.fetched_by(2, LIFE + 1, 5, 0)  # its disk was lost
        log.set_in_sync(5, [2, 3], [], 2)  # who joins has what counts; this one told nothing yet
        assert log.high_watermark == 2
        log.lead(6, 1, [2, 3], [2, 3], 2)
        assert log.high_watermark == 2


def test_what_was_not_replicated_yet_does_not_count_after_an_election(tmp_path: Path) -> None:
    """The log was alone in this process until now: what it has on disk may be nobody else's."""
    with one_log(tmp_path) as log:
        log.append(batch("a"))
        log.flush()
        assert log.high_watermark == 1
        log.lead(7, 1, [2], [2], 1)
        assert log.high_watermark == 0
        log.fetched_by(2, LIFE, 7, 1)
        assert log.high_watermark == 1


def test_records_are_never_shown_before_they_count(tmp_path: Path) -> None:
    with leading(tmp_path, visibility="appended") as log:
        log.append(batch("a"))
        assert log.high_watermark == 0
        log.configure(log_config(visibility="appended"))
        assert log.high_watermark == 0


def test_an_open_transaction_holds_back_until_its_marker_is_everywhere(tmp_path: Path) -> None:
    with leading(tmp_path, in_sync=(2,)) as log:
        log.append(produced(0, txn=True), origin="coordinator")
        end_txn(log, "commit")
        log.flush()
        log.fetched_by(2, LIFE, 5, 1)
        assert (log.high_watermark, log.last_stable_offset) == (1, 0)
        log.fetched_by(2, LIFE, 5, 2)
        assert (log.high_watermark, log.last_stable_offset) == (2, 2)


def test_who_waits_for_a_record_waits_for_its_replicas(tmp_path: Path) -> None:
    with leading(tmp_path, in_sync=(2,)) as log:
        log.append(batch("a"))
        with pytest.raises(TimedOut, match="at all replicas that must have it up to 0"):
            log.await_durable(0, 0.05)
        log.flush()  # this disk alone
        ended = threading.Event()
        waiting = threading.Thread(target=lambda: (log.await_durable(0), ended.set()))
        waiting.start()
        assert not ended.wait(0.05)
        log.fetched_by(2, LIFE, 5, 1)
        assert ended.wait(10)
        waiting.join()


def test_who_waits_is_told_when_another_leads(tmp_path: Path) -> None:
    """Records at the same offsets in a later epoch may be others."""
    with leading(tmp_path, in_sync=(2,)) as log:
        log.append(batch("a"))
        log.flush()
        found: list[Exception] = []

        def wait() -> None:
            try:
                log.await_durable(0, election=5)
            except NotLeader as error:
                found.append(error)

        waiting = threading.Thread(target=wait)
        waiting.start()
        log.follow(6, 2)
        log.lead(7, 1, [2, 3], [], 1)
        assert log.high_watermark == 1
        waiting.join(10)
        assert found
        with pytest.raises(NotLeader):
            log.await_durable(0, election=5)
        log.await_durable(0)

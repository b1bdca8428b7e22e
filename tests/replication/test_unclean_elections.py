"""An unclean election, by a person's word: that something is lost is in the ledger of who is
elected, and what is cut in that of who cuts it."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import ElectionType, TopicPartition

from appliance.zookeeper.server import ZooKeeperServer
from tests.support.three_brokers import DEADLINE_S, Brokers, brokers


@pytest.fixture
def two(
    server: ZooKeeperServer, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Brokers]:
    root = "/tests/" + re.sub(r"\W", "-", request.node.name)
    with brokers(server, root, tmp_path) as found:
        found.start(1, 2, **{"default.replication.factor": 2})
        yield found


def test_who_returns_cuts_what_was_acknowledged_and_says_so(two: Brokers) -> None:
    two.create("t", factor=2)
    found = two.until("t", lambda each: len(each.isrs) == 2)
    first, second = found.leader, next(each for each in found.replicas if each != found.leader)
    two.produce("t", ["both"] * 3)
    two.stop(second, signal.SIGKILL)
    two.until("t", lambda each: [*each.isrs] == [first])
    two.produce("t", ["lost"] * 5)
    two.stop(first, signal.SIGKILL)
    two.start(second)
    assert two.until("t", lambda each: each.leader == -1)
    admin = two.admin()
    where = TopicPartition("t", 0)
    told = admin.elect_leaders(ElectionType.UNCLEAN, [where]).result(DEADLINE_S)
    assert told[where] is None
    two.until("t", lambda each: each.leader == second)
    two.produce("t", ["new"])
    two.start(first)
    two.until("t", lambda each: len(each.isrs) == 2)
    assert two.consume("t", 4) == ["both", "both", "both", "new"]
    two.until_equal("t", 1, 2)
    told = two.running[first].wait_for_log
    told("damage topic=t partition=0 first_offset=3 last_offset=7")
    told(f"5 records cut: broker {second} was elected without them")
    # what it could not know of, by where its log ended
    two.running[second].wait_for_log("damage topic=t partition=0 first_offset=3 last_offset=null")
    assert two.running[second].log.count("damage topic") == 1


@pytest.mark.release("tests/replication/test_replica_fetcher.py has the same of two logs")
def test_who_had_deleted_all_begins_anew_where_another_history_has_passed_it(two: Brokers) -> None:
    two.create("t", factor=2)
    found = two.until("t", lambda each: len(each.isrs) == 2)
    first, second = found.leader, next(each for each in found.replicas if each != found.leader)
    two.produce("t", ["both"] * 3)
    two.stop(second, signal.SIGKILL)
    two.until("t", lambda each: [*each.isrs] == [first])
    two.produce("t", ["lost"] * 5)
    where = TopicPartition("t", 0)
    admin = two.admin()
    admin.delete_records([TopicPartition("t", 0, 8)])[where].result(DEADLINE_S)
    two.stop(first, signal.SIGKILL)
    two.start(second)
    assert two.until("t", lambda each: each.leader == -1)
    admin = two.admin()
    admin.elect_leaders(ElectionType.UNCLEAN, [where]).result(DEADLINE_S)
    two.until("t", lambda each: each.leader == second)
    two.produce("t", ["new"] * 7)
    two.start(first)
    two.until("t", lambda each: len(each.isrs) == 2)
    assert two.files(1, "t") == two.files(2, "t")
    assert two.consume("t", 10) == [*["both"] * 3, *["new"] * 7]

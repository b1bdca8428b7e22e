"""Three brokers as one cluster, with unmodified clients: what is acknowledged is on all of them,
and a broker that is killed is missed by nobody."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from appliance.protocol import ErrorCode
from appliance.record import _batch
from appliance.zookeeper.server import ZooKeeperServer
from tests.support.acknowledged import until
from tests.support.logs import batch
from tests.support.rest import Rest
from tests.support.three_brokers import DEADLINE_S, Brokers, brokers
from tests.support.wire_client import WireClient


@pytest.fixture
def three(
    server: ZooKeeperServer, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Brokers]:
    root = "/tests/" + re.sub(r"\W", "-", request.node.name)
    with brokers(server, root, tmp_path) as found:
        found.start(1, 2, 3)
        yield found


def healths(three: Brokers) -> list[str]:
    return [str(Rest(each.admin).raw("GET", "/healthz").body) for each in three.running.values()]


def test_a_broker_that_is_killed_is_missed_by_nobody(three: Brokers) -> None:
    three.create("alone", partitions=3, factor=1)  # one on each
    three.create("t", min_insync_replicas="2")
    found = three.until("t", lambda each: len(each.isrs) == 3)
    assert sorted(found.replicas) == [1, 2, 3]
    three.produce("t", ["a", "b"])
    first = found.leader

    three.stop(first, signal.SIGKILL)
    found = three.until("t", lambda each: each.leader not in (-1, first))
    three.produce("t", ["c"])
    assert three.consume("t", 3) == ["a", "b", "c"]
    assert first not in three.until("t", lambda each: len(each.isrs) == 2).isrs
    until(lambda: any("alone-" in each and "has no leader" in each for each in healths(three)),
          "a partition has no leader")  # fmt: skip

    three.start(first)
    three.until("t", lambda each: len(each.isrs) == 3)
    three.produce("t", ["d"])
    assert three.consume("t", 4) == ["a", "b", "c", "d"]
    three.until_equal("t", 1, 2, 3)

    assert found.replicas[0] == first
    three.elect_preferred("t", 0)
    three.until("t", lambda each: each.leader == first)
    three.produce("t", ["e"])
    assert three.consume("t", 5) == ["a", "b", "c", "d", "e"]


@pytest.mark.release("three brokers are started twice")
def test_all_are_killed_at_once_and_everything_acknowledged_is_there(three: Brokers) -> None:
    three.create("t", partitions=3, min_insync_replicas="2")
    for each in range(3):
        three.until("t", lambda found: len(found.isrs) == 3, each)
        three.produce("t", [f"{each}-{i}" for i in range(50)], each)
    for node in (1, 2, 3):
        three.stop(node, signal.SIGKILL)
    three.start(1, 2, 3)
    for each in range(3):
        three.until("t", lambda found: found.leader != -1, each)
        assert three.consume("t", 50, each) == [f"{each}-{i}" for i in range(50)]


def test_with_too_few_in_sync_nothing_is_acknowledged_nor_shown(three: Brokers) -> None:
    """By a setting of the topic, or by one of all brokers, as kafka-configs changes it."""
    three.create("t", min_insync_replicas="2")
    three.create("silent")
    three.configure_all("min.insync.replicas", "2", node=3)
    until(lambda: {three.configs("silent", node)["min.insync.replicas"] for node in (1, 2, 3)}
          == {"2"}, "what is set for all holds at all")  # fmt: skip
    found = three.until("t", lambda each: len(each.isrs) == 3)
    three.produce("t", ["a"])
    for node in sorted({1, 2, 3} - {found.leader}):
        three.stop(node, signal.SIGKILL)
    three.until("t", lambda each: [*each.isrs] == [found.leader])
    with pytest.raises(AssertionError):
        three.produce("t", ["b"], **{"message.timeout.ms": 3000})
    three.until("silent", lambda each: each.leader == found.leader)
    with pytest.raises(AssertionError):
        three.produce("silent", ["b"], **{"message.timeout.ms": 1000})
    three.produce("t", ["c"], acks="1")
    assert three.consume("t", 2, wait_s=10.0) == ["a"]
    three.start(*sorted({1, 2, 3} - {found.leader}))
    three.until("t", lambda each: len(each.isrs) == 3)
    assert three.consume("t", 2) == ["a", "c"]


@pytest.mark.release("that clients find leaders is seen by all others, too")
def test_a_partition_is_found_wherever_it_is(three: Brokers) -> None:
    three.create("t", partitions=6, factor=1)
    leaders = {three.until("t", lambda found: found.leader != -1, each).leader
               for each in range(6)}  # fmt: skip
    assert leaders == {1, 2, 3}
    for each in range(6):
        three.produce("t", [f"{each}"], each)
        assert three.consume("t", 1, each) == [f"{each}"]
        leader = three.partition("t", each).leader
        for node in {1, 2, 3} - {leader}:
            with WireClient(three.running[node].kafka) as client:
                (told,) = client.produce(batch("x"), partition=each)
            assert told.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_topic_that_was_made_again_has_nothing_of_the_former(three: Brokers) -> None:
    """While a broker is away, which has records of the one that is gone."""
    three.create("t")
    three.until("t", lambda each: len(each.isrs) == 3)
    three.produce("t", ["former"])
    three.stop(3, signal.SIGKILL)
    three.delete("t")
    three.create("t", factor=2)
    three.produce("t", ["new"])
    three.start(3)
    three.until("t", lambda each: each.leader != -1)
    assert three.consume("t", 1) == ["new"]
    three.delete("t")
    three.create("t")
    three.until("t", lambda each: len(each.isrs) == 3)
    three.produce("t", ["third"])
    three.until_equal("t", 1, 2, 3)


@pytest.mark.release("tests/cluster has it, without brokers")
def test_more_partitions_and_other_settings_reach_all(three: Brokers) -> None:
    three.create("t", partitions=1)
    three.extend("t", 4)
    for each in range(4):
        three.until("t", lambda found: len(found.isrs) == 3, each)
        three.produce("t", ["a"], each)
    three.configure("t", **{"retention.ms": "12345"})
    for node in (1, 2, 3):
        end = time.monotonic() + DEADLINE_S
        while three.configs("t", node)["retention.ms"] != "12345":
            assert time.monotonic() < end, three.configs("t", node)


def test_settings_that_are_changed_at_two_brokers_at_once_are_both_kept(
    server: ZooKeeperServer, tmp_path: Path
) -> None:
    with brokers(server, "/tests/two-brokers-at-once", tmp_path) as found:
        found.start(1, 2)
        found.create("t", factor=2)
        changed = ((1, "retention.ms"), (2, "segment.ms"))
        with ThreadPoolExecutor(len(changed)) as pool:
            for value in range(1000, 1010):
                [*pool.map(lambda each, value=value: found.configure(  # type: ignore[misc]
                    "t", each[0], **{each[1]: str(value)}), changed)]  # fmt: skip
        for node in (1, 2):
            end = time.monotonic() + DEADLINE_S
            while {found.configs("t", node)[name] for _, name in changed} != {"1009"}:
                assert time.monotonic() < end, found.configs("t", node)


@pytest.mark.release("blocks of ids are taken by one conditional write")
def test_idempotent_producers_of_all_brokers_have_ids_of_their_own(three: Brokers) -> None:
    three.create("t")
    three.until("t", lambda each: len(each.isrs) == 3)
    for node in (1, 2, 3):
        values = [f"{node}-{i}" for i in range(10)]
        three.produce("t", values, node=node, **{"enable.idempotence": "true"})
    assert len(three.consume("t", 30)) == 30
    assert len({each.producer_id for each in _batch.headers(three.files(1, "t"))}) == 3


def test_a_group_goes_on_when_its_coordinator_is_killed(three: Brokers) -> None:
    three.create("t", partitions=2, min_insync_replicas="2")
    for each in range(2):
        three.until("t", lambda found: len(found.isrs) == 3, each)
    three.produce("t", ["a"], 0)
    member = three.member("g", "t")
    assert [each.value() for each in member.take(1)] == [b"a"]
    member.commit()
    coordinator = three.coordinator("g")
    three.until("__consumer_offsets", lambda found: len(found.isrs) == 3, three.place_of("g"))

    three.stop(coordinator, signal.SIGKILL)
    three.produce("t", ["b"], 0)
    three.produce("t", ["c"], 1)
    assert sorted(each.value() for each in member.take(2)) == [b"b", b"c"]
    member.commit()
    member.close()
    assert three.coordinator("g") != coordinator

    three.produce("t", ["d"], 0)
    other = three.member("g", "t")
    assert [each.value() for each in other.take(1)] == [b"d"]
    other.close()


@pytest.mark.release("a wrong ZooKeeper is a rare mistake; three brokers are started twice")
def test_another_zookeeper_takes_nothing_away(three: Brokers) -> None:
    three.create("t")
    three.until("t", lambda each: len(each.isrs) == 3)
    three.produce("t", ["a"])
    three.stop(3)
    before = three.files(3, "t")
    three.start(3, **{"zookeeper.connect": f"{three.zookeeper}-other"})
    three.running[3].wait_for_log("ZooKeeper has no topic at all, and this broker has 1")
    three.stop(3)
    assert three.files(3, "t") == before != b""
    three.start(3)
    three.until("t", lambda each: len(each.isrs) == 3)
    three.produce("t", ["b"])
    assert three.consume("t", 2) == ["a", "b"]

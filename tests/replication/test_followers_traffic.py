"""Followers that get what they lack slowly, as they are to, and those that are never held back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.broker.followers_traffic import AS_FOLLOWER, AS_LEADER, is_slow, rates
from appliance.config import BrokerConfig
from appliance.config.dynamic_broker_config import BrokerConfigs
from appliance.replication._replica_fetcher import FollowersQuota
from tests.support.logs import batch, until
from tests.support.replica_site import ReplicaNode, on_disk, wait_until_equal

COUNT, SIZE = 60, 50_000
RATE = 500_000  # of 3 MB
WINDOW_S = 1.0  # so much of it may go at once
SLACK = 3 * SIZE


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[ReplicaNode, ReplicaNode]]:
    """1 leads, and has 3 MB that count; 2 is no member of the ISR, and has nothing."""
    leader = ReplicaNode(tmp_path / "1", 1, network={"quota_window_s": 1})
    follower = ReplicaNode(tmp_path / "2", 2, replication={"fetch_max_bytes": SIZE})
    leader.lead(1, [2], in_sync=[])
    on_disk(leader.log, *[batch("x" * SIZE) for _ in range(COUNT)])
    yield leader, follower
    follower.stop()
    leader.stop()


def most_in(seconds: float) -> float:
    return RATE * (seconds + WINDOW_S) + SLACK


def watch(follower: ReplicaNode, leader: ReplicaNode) -> None:
    """However fast the machine is, it gets no more."""
    begun = time.monotonic()
    follower.follow(1, leader)
    until(lambda: follower.log.log_end_offset > 10)
    while time.monotonic() - begun < 1.5:
        got = follower.log.log_end_offset * SIZE
        assert got <= most_in(time.monotonic() - begun)
        time.sleep(0.05)
    got = follower.log.log_end_offset * SIZE
    assert got <= most_in(time.monotonic() - begun)


def test_a_leader_gives_slowly(pair: tuple[ReplicaNode, ReplicaNode]) -> None:
    leader, follower = pair
    leader.log.go_slowly(True, False)
    leader.data_plane.limit_followers(RATE)
    watch(follower, leader)
    leader.data_plane.limit_followers(0)
    wait_until_equal(leader, follower)


def test_a_follower_fetches_slowly(pair: tuple[ReplicaNode, ReplicaNode]) -> None:
    leader, follower = pair
    quota = FollowersQuota()
    quota.set_rate(RATE)
    follower.security = {"quota": quota}
    follower.log.go_slowly(False, True)
    watch(follower, leader)
    quota.set_rate(0)
    wait_until_equal(leader, follower)


@pytest.mark.parametrize("facts", [{"is_listed": False}, {"in_sync": [2]}])
def test_others_are_not_held_back(
    pair: tuple[ReplicaNode, ReplicaNode], facts: dict[str, Any]
) -> None:
    """Who is in sync, and what is not named. At one byte a second nothing would ever arrive."""
    leader, follower = pair
    quota = FollowersQuota()
    quota.set_rate(1)
    follower.security = {"quota": quota}
    leader.data_plane.limit_followers(1)
    is_listed = facts.get("is_listed", True)
    leader.log.go_slowly(is_listed, False)
    leader.log.set_in_sync(1, facts.get("in_sync", []), [], 1)
    follower.follow(1, leader)
    wait_until_equal(leader, follower)


@pytest.mark.parametrize(
    ("named", "is_so"),
    [("", False), ("*", True), ("3:1", True), ("3:2", False), ("1:1,3:1", True), ("33:1", False)],
)
def test_which_partitions_are_named(named: str, is_so: bool) -> None:
    assert is_slow({AS_LEADER: named}, AS_LEADER, 3, 1) == is_so
    assert not is_slow({AS_LEADER: named}, AS_FOLLOWER, 3, 1)


def test_rates_of_a_broker() -> None:
    configs = BrokerConfigs(BrokerConfig(), {}, {})
    assert rates(configs) == (0, 0)
    configs = configs.changed({"leader.replication.throttled.rate": "1000"}, False)
    configs = configs.changed({"follower.replication.throttled.rate": "0"}, True)
    assert rates(configs) == (1000, 1)

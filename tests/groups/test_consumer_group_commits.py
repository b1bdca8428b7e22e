"""Who may commit and fetch offsets in a group of the newer protocol."""

from __future__ import annotations

import pytest

from appliance.groups.consumer_member import LEAVING
from appliance.groups.records import Partition
from appliance.groups.states import GroupRefused
from appliance.protocol import ErrorCode
from tests.support.consumer_group import Client, World, settle


def test_who_may_commit() -> None:
    world = World()
    group = world.group
    group.check_commit("", -1, [])
    Client(world, "one").beat()
    group.check_commit("one", 1, [])
    group.check_fetch("one", 1)
    group.check_fetch(None, -1)
    group.check_transactional_commit("", None, -1)
    for member, epoch, code in (
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("two", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("one", 0, ErrorCode.STALE_MEMBER_EPOCH),
        ("one", 2, ErrorCode.STALE_MEMBER_EPOCH),
    ):
        instance = "i" if epoch < 0 else None
        for check in (
            lambda: group.check_commit(member, epoch, []),  # noqa: B023
            lambda: group.check_transactional_commit(member, instance, epoch),  # noqa: B023
            lambda: group.check_fetch(member, epoch),  # noqa: B023
        ):
            with pytest.raises(GroupRefused) as caught:
                check()
            assert caught.value.kafka_code == code


def test_a_commit_that_a_new_epoch_overtakes() -> None:
    world = World(t=2)
    one, two = Client(world, "one"), Client(world, "two")
    one.beat()
    settle(one, two)
    assert (one.epoch, len(one.owned)) == (2, 1)
    ((_, kept),) = one.owned
    world.group.check_commit("one", 1, [Partition("t", kept)])
    two.beat(LEAVING)
    one.beat()
    assert (one.epoch, len(one.owned)) == (3, 2)
    world.group.check_commit("one", 1, [Partition("t", kept)])
    for epoch, places in (
        (2, [Partition("t", 1 - kept)]),
        (1, [Partition("t", kept), Partition("t", 1 - kept)]),
        (2, [Partition("gone", 0)]),
        (4, [Partition("t", kept)]),
    ):
        with pytest.raises(GroupRefused) as caught:
            world.group.check_commit("one", epoch, places)
        assert caught.value.kafka_code == ErrorCode.STALE_MEMBER_EPOCH
    world.restart()
    with pytest.raises(GroupRefused):
        world.group.check_commit("one", 1, [Partition("t", kept)])

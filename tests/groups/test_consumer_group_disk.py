"""A group of the newer protocol and its disk: what waits for a write, fails with it, outlives a
restart."""

from __future__ import annotations

import pytest

from appliance.groups.consumer_member import JOINING, LEAVING
from appliance.groups.states import GroupRefused
from appliance.protocol import ErrorCode
from tests.support.consumer_group import SESSION_MS, Client, World, settle


def test_members_that_come_during_a_write_share_an_epoch_and_a_target() -> None:
    world = World(t=50)
    world.disk.is_slow = True
    first = Client(world, "first")
    others = [Client(world, f"other {n}") for n in range(49)]
    for each in (first, *others):
        each.ask()
    assert world.group.epoch == 1, "the others wait as they are"
    world.disk.sync()
    assert first.hear().epoch == 1
    assert world.group.epoch == 2
    assert not any(each.answers for each in others), "not on disk"
    world.disk.sync()
    assert {each.hear().epoch for each in others} == {2}
    world.disk.is_slow = False
    settle(first, *others)
    assert {len(each.owned) for each in (first, *others)} == {1}


def test_who_comes_and_goes_during_a_write_has_nothing() -> None:
    world = World()
    world.disk.is_slow = True
    one, two = Client(world, "one"), Client(world, "two")
    one.ask()
    two.ask()
    two.ask(LEAVING)
    one.ask(LEAVING)
    assert world.group.is_empty is False
    world.disk.sync()
    world.disk.sync()
    assert [each.error for each in two.answers] == [ErrorCode.UNKNOWN_MEMBER_ID, 0]
    assert [each.error for each in one.answers] == [0, 0]
    assert not world.group.owners
    assert world.group.is_empty


def test_a_group_is_not_deleted_while_somebody_waits_to_join() -> None:
    world = World()
    one, two = Client(world, "one"), Client(world, "two")
    one.beat()
    world.disk.is_slow = True
    one.ask(LEAVING)
    two.ask()
    with pytest.raises(GroupRefused):
        world.group.delete()
    world.disk.sync()
    world.disk.sync()
    assert two.hear().assigned == world.topics.all("t")


def test_a_heartbeat_that_waits_for_the_disk_is_a_sign_of_life() -> None:
    world = World()
    one, two = Client(world, "one"), Client(world, "two")
    one.beat()
    world.disk.is_slow = True
    two.ask()
    world.now_ms += SESSION_MS - 1
    one.ask()
    world.wait(SESSION_MS - 1)
    assert "one" in world.group.members


def test_nobody_hears_what_is_not_on_disk() -> None:
    world = World()
    world.disk.is_slow = True
    one, two = Client(world, "one"), Client(world, "two")
    one.ask()
    two.ask()
    one.ask(JOINING)
    assert (one.answers, two.answers) == ([], [])
    world.disk.sync()
    assert (len(one.answers), len(two.answers)) == (1, 0)
    world.disk.sync()
    assert (len(one.answers), len(two.answers)) == (2, 1)


def test_what_the_disk_refused_is_written_with_the_next_change() -> None:
    world = World()
    one = Client(world, "one")
    world.disk.fault = GroupRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the disk is full")
    answer = one.beat()
    assert (answer.error, answer.message) == (15, "the disk is full")
    assert one.beat().error == 15, "also who changes nothing hears nothing that is not on disk"
    world.disk.fault = None
    assert one.beat().assigned == world.topics.all("t")
    stored = world.disk.stored()
    assert stored.now["one"].assigned == stored.targets["one"] == world.topics.all("t")


def test_a_restart_changes_nothing_for_members() -> None:
    world = World()
    one, two = Client(world, "one"), Client(world, "two", topics=None, pattern="t")
    settle(one, two)
    epoch = world.group.epoch
    world.restart()
    assert (one.beat().assigned, two.beat().assigned) == (None, None)
    assert (world.group.epoch, world.group.target_epoch) == (epoch, epoch)
    world.wait(SESSION_MS)
    assert not world.group.members

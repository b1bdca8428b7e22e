"""Groups that go back to the older protocol when the last member of the newer one is gone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.config import ConsumerGroupsConfig, GroupsConfig
from appliance.errors import StorageFull
from appliance.groups.consumer_member import LEAVING
from appliance.groups.consumer_protocol import assigned
from appliance.groups.group import Group
from appliance.groups.member import NEVER_MS, Joined, Stored, Sync, Synced
from appliance.groups.mixed_group import MixedGroup
from appliance.groups.offsets_topic_replay import replay
from appliance.groups.records import GroupMetadataValue
from appliance.groups.states import GroupRefused, State
from appliance.protocol import ErrorCode
from appliance.protocol.messages.describe_groups import DescribeGroupsRequest
from appliance.topics.internal_topic import InternalTopic
from appliance.topics.topic import OFFSETS
from tests.groups.test_mixed_group import ClassicClient, MixedWorld
from tests.support.consumer_group import REBALANCE_MS, SESSION_MS, Client
from tests.support.consumer_group_client import Member, listed, names, rejoin
from tests.support.control import Control
from tests.support.group_client import GroupClient, committed

ALL = names(0, 1, 2, 3)
CLASSIC, CONSUMER = "classic", "consumer"


def started(path: Path, policy: str = "bidirectional", classic_max: int = 100) -> Control:
    return Control(
        path,
        groups=GroupsConfig(initial_rebalance_delay_ms=0, max_size=classic_max),
        consumer_groups=ConsumerGroupsConfig(migration_policy=policy),
    )


@pytest.fixture
def control(tmp_path: Path) -> Iterator[Control]:
    made = started(tmp_path)
    made.create("t", 4)
    yield made
    made.close()


def mixed(control: Control) -> tuple[GroupClient, Member]:
    """One of each protocol, with two partitions each."""
    old, new = GroupClient(control), Member(control)
    old.join()
    old.sync(**{old.id: ALL})
    new.beat()
    assert old.heartbeat() == 27
    assert len(assigned(rejoin(old))["t"]) == 2
    new.beat()
    return old, new


def kind(control: Control) -> tuple[str, str]:
    ((_, _, state, group_type),) = listed(control)
    return state, group_type


def lead(old: GroupClient) -> None:
    """Joins again as the only one, and assigns."""
    assert old.join().error_code == 0
    assert old.is_leader
    assert old.sync(**{old.id: ALL}).assignment == ALL


def until(control: Control, is_so: Callable[[], bool]) -> None:
    while not is_so():
        control.run(asyncio.sleep(0.005))


def settle(control: Control) -> None:
    """Until the group's writes are on disk."""
    until(control, lambda: not control.broker.groups.table.topic.is_busy)


# Who goes last


def test_the_group_goes_back_when_the_last_of_the_newer_protocol_leaves(control: Control) -> None:
    old, new = mixed(control)
    assert old.commit(5) == [0]
    generation = old.generation
    assert new.send(LEAVING).error_code == 0
    assert kind(control) == ("PreparingRebalance", CLASSIC)
    assert old.commit(6) == [0], "it may still give up in order what it has"
    assert old.heartbeat() == 27
    lead(old)
    assert old.generation == generation + 1
    assert (old.heartbeat(), old.commit(7)) == (0, [0])
    assert kind(control) == ("Stable", CLASSIC)
    assert committed(control) == {("t", 0): 7}
    assert new.send(new.epoch).error_code == 69


def test_the_last_may_also_time_out(control: Control) -> None:
    old, _ = mixed(control)
    group = control.broker.groups.table.groups["g"]

    async def tick() -> None:
        group.members["one"].deadline_ms = 0
        group.tick(1)

    control.run(tick())
    until(control, lambda: isinstance(control.broker.groups.table.groups["g"], Group))
    assert old.heartbeat() == 27
    lead(old)


def test_the_last_may_be_a_static_member_that_changes_its_protocol(control: Control) -> None:
    new = Member(control, instance_id="i")
    new.beat()
    old = GroupClient(control, instance="i")
    assert old.join().error_code == 0
    assert kind(control) == ("PreparingRebalance", CLASSIC)
    assert old.sync().error_code == 27
    lead(old)
    assert kind(control) == ("Stable", CLASSIC)


def test_who_is_in_the_middle_of_joining_joins_again(control: Control) -> None:
    """Whatever protocol it was told, which is its own first, and not what all have in common."""
    protocols = {"own": GroupClient(control).protocols["range"]}
    old, new = mixed(control)
    other = GroupClient(control, protocols={**protocols, **old.protocols})
    assert other.join().protocol_name == "own"
    new.send(LEAVING)
    assert other.sync().error_code == 27
    sent = [each.send_join() for each in (old, other)]
    answers = [each.joined(one) for each, one in zip((old, other), sent, strict=True)]
    assert {each.protocol_name for each in answers} == {"range"}


def test_a_group_goes_back_and_forth(control: Control) -> None:
    old, new = mixed(control)
    for _ in range(3):
        new.send(LEAVING)
        lead(old)
        new = Member(control)
        new.beat()
        assert kind(control) == ("Reconciling", CONSUMER)
        assert old.heartbeat() == 27
        rejoin(old)
        new.beat()
        assert kind(control) == ("Stable", CONSUMER)
    assert old.leave().members[0].error_code == 0
    new.beat()
    assert [*new.owned.values()] == [[0, 1, 2, 3]]


def test_while_others_are_left_nothing_changes(control: Control) -> None:
    old, new = mixed(control)
    other = Member(control, "two")
    other.beat()
    new.send(LEAVING)
    assert old.heartbeat() == 27
    assert kind(control)[1] == CONSUMER
    old.leave()
    other.send(LEAVING)
    assert kind(control) == ("Empty", CONSUMER)


def test_in_a_group_that_is_upgraded_while_it_rebalances_nobody_loses_a_thing(
    control: Control,
) -> None:
    """It goes on reading until it has joined again, so no one else may have it."""
    one, two = GroupClient(control), GroupClient(control)
    one.join()
    one.sync(**{one.id: ALL})
    two_joins = two.send_join(3)
    assert not control.is_answered(two_joins)
    asked = DescribeGroupsRequest(["g"])
    assert control.ask(asked, 5).groups[0].group_state == "PreparingRebalance"
    new = Member(control)
    new.beat()
    assert new.owned == {}


# Policy


@pytest.mark.parametrize(
    ("policy", "up", "down"),
    [
        ("bidirectional", True, True),
        ("upgrade", True, False),
        ("downgrade", False, True),
        ("disabled", False, False),
    ],
)
def test_the_policy_says_which_way_a_group_may_go(
    policy: str, up: bool, down: bool, tmp_path: Path
) -> None:
    control = started(tmp_path, policy)
    control.create("t", 4)
    old = GroupClient(control)
    old.enter()
    answer = Member(control).send()
    assert answer.error_code == (0 if up else 69)
    if not up:
        assert answer.error_message == (
            f"Group g is not a consumer group, and group.consumer.migration.policy is {policy}."
        )
    old.leave()
    if up:
        Member(control).send(LEAVING)
    new = Member(control)
    new.beat()  # one without members takes any protocol
    old = GroupClient(control)
    rejoin(old)
    new.send(LEAVING)
    assert kind(control)[1] == (CLASSIC if down else CONSUMER)
    assert old.heartbeat() == 27
    rejoin(old)
    assert old.heartbeat() == 0
    control.close()


def test_too_many_for_a_group_of_the_older_protocol_stay(tmp_path: Path) -> None:
    control = started(tmp_path, classic_max=1)
    control.create("t", 4)
    new, one, two = Member(control), GroupClient(control), GroupClient(control)
    new.beat()
    rejoin(one)
    rejoin(two)
    new.send(LEAVING)
    assert kind(control)[1] == CONSUMER
    two.leave()
    until(control, lambda: kind(control)[1] == CLASSIC)
    control.close()


# Disk


def test_what_goes_back_is_there_after_a_restart(tmp_path: Path) -> None:
    control = started(tmp_path)
    control.create("t", 4)
    old, new = mixed(control)
    old.commit(5)
    new.send(LEAVING)
    settle(control)
    found = replay(control.broker.topics[OFFSETS].open_logs)
    assert (found.groups.keys(), found.faults) == ({"g"}, [])
    assert not any(each.members or each.epoch for each in found.consumer_groups.values())
    control.kill()
    control = started(tmp_path)
    control.run(control.broker.groups.loading.loaded())
    old.control = control
    assert kind(control) == ("PreparingRebalance", CLASSIC), "nobody led it yet"
    assert old.heartbeat() == 27
    lead(old)
    assert committed(control) == {("t", 0): 5}
    control.close()


def test_a_restart_finds_that_a_group_may_go_back(tmp_path: Path) -> None:
    control = started(tmp_path, "upgrade")
    control.create("t", 4)
    old, new = mixed(control)
    new.send(LEAVING)
    assert kind(control)[1] == CONSUMER
    control.kill()
    control = started(tmp_path)
    control.run(control.broker.groups.loading.loaded())
    old.control = control
    assert kind(control) == ("PreparingRebalance", CLASSIC)
    assert old.heartbeat() == 27
    lead(old)
    control.close()


def test_what_it_was_goes_from_the_disk_with_the_next_write(
    control: Control, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = mixed(control)
    write, failed = InternalTopic.write, []

    def refuse(topic: InternalTopic, asked: Any) -> None:
        if not any(b"range" in (value or b"") for _, value in asked.records) or failed:
            write(topic, asked)
            return
        failed.append(asked)
        asked.done(StorageFull("no space"), -1)

    monkeypatch.setattr(InternalTopic, "write", refuse)
    with caplog.at_level(logging.WARNING):
        new.send(LEAVING)
        until(control, lambda: bool(failed))
    assert "a group was not stored" in caplog.text
    lead(old)
    settle(control)
    found = replay(control.broker.topics[OFFSETS].open_logs)
    assert found.groups.keys() == {"g"}
    assert not any(each.members or each.epoch for each in found.consumer_groups.values())


# By fake time


class Left:
    """The only member of the newer protocol has left those of the older one."""

    def __init__(self, *names: str) -> None:
        self.world = world = MixedWorld()
        new = Client(world, "new")
        self.clients = [ClassicClient(world, each, is_eager=False, topics=("t",)) for each in names]
        for _ in range(3):
            new.beat()
            for each in self.clients:
                each.beat(topics=())
        new.beat(LEAVING)
        mixed = world.group
        assert isinstance(mixed, MixedGroup)
        assert mixed.is_to_go_back
        self.epochs = {each.now.epoch for each in mixed.all()}
        self.written: list[GroupMetadataValue] = []
        self.group = Group("g", GroupsConfig(), self.store)
        mixed.give_back(self.group, world.now_ms)
        assert mixed.due_ms == NEVER_MS

    def store(self, value: GroupMetadataValue, done: Stored) -> None:
        self.written.append(value)
        done(None, self.world.now_ms)

    def join(self, client: ClassicClient) -> list[Joined]:
        answers: list[Joined] = []
        self.group.join(client.asked(), self.world.now_ms, answers.append)
        return answers

    def heartbeat(self, client: ClassicClient) -> int:
        try:
            self.group.heartbeat(client.id, None, client.epoch, self.world.now_ms)
        except GroupRefused as error:
            return error.kafka_code
        return 0

    def wait(self, ms: int) -> None:
        self.world.now_ms += ms
        if self.group.due_ms <= self.world.now_ms:
            self.group.tick(self.world.now_ms)


def test_those_that_join_again_are_assigned_by_one_of_them() -> None:
    left = Left("a", "b")
    a, b = left.clients
    assert left.epochs == {a.epoch} == {b.epoch} == {left.group.generation}
    assert {left.heartbeat(a), left.heartbeat(b)} == {ErrorCode.REBALANCE_IN_PROGRESS}
    first, second = left.join(a), left.join(b)
    (of_a,), (of_b,) = first, second
    assert of_a.generation == of_b.generation == a.epoch + 1
    assert (of_a.leader, len(of_a.members), of_b.members) == ("a", 2, ())
    synced: list[Synced] = []
    for each in (b, a):
        asked = Sync(each.id, None, of_a.generation, "consumer", "range", {"a": b"1", "b": b"2"})
        left.group.sync(asked, left.world.now_ms, synced.append)
    assert sorted(each.assignment for each in synced) == [b"1", b"2"]
    assert left.written[-1].leader == "a"


def test_one_that_does_not_join_again_is_out_when_the_time_is_over() -> None:
    left = Left("a", "b")
    a, b = left.clients
    answers = left.join(a)
    for _ in range(2):
        left.wait(REBALANCE_MS // 2 - 1)
        assert left.heartbeat(b) == ErrorCode.REBALANCE_IN_PROGRESS
    assert not answers
    left.wait(2)
    (answer,) = answers
    assert [each.member_id for each in answer.members] == ["a"]
    assert left.heartbeat(b) == ErrorCode.UNKNOWN_MEMBER_ID


def test_one_that_is_silent_is_out_after_its_session() -> None:
    left = Left("a", "b")
    a, b = left.clients
    left.wait(SESSION_MS - 1)
    assert len(left.group.members) == 2
    left.heartbeat(a)
    left.wait(101)
    assert [each.id for each in left.group.members] == ["a"]
    assert left.heartbeat(b) == ErrorCode.UNKNOWN_MEMBER_ID


def test_what_they_have_is_known_until_they_join_again() -> None:
    """An upgrade meanwhile must not give it to others."""
    left = Left("a", "b")
    group = MixedWorld().group
    assert isinstance(group, MixedGroup)
    before = {each.id: assigned(each.assignment) for each in left.group.members}
    assert sorted(p for each in before.values() for p in each.get("t", [])) != []
    group.take_over(left.group, left.world.now_ms)
    places = {each.id: sorted(i for _, i in each.now.assigned) for each in group.all()}
    assert places == {name: each.get("t", []) for name, each in before.items()}


def test_those_that_a_restart_finds_before_one_of_them_led_rebalance() -> None:
    left = Left("a", "b")
    again = Group("g", GroupsConfig(), left.store)
    again.restore(left.group.record(), left.world.now_ms)
    assert again.state is State.PREPARING_REBALANCE
    assert again.due_ms <= left.world.now_ms + REBALANCE_MS

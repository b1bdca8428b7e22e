"""Members of a group of Kafka Streams: they join, get tasks, hand them over, leave."""

from __future__ import annotations

import pytest

from appliance.groups.consumer_member import JOINING, LEAVING
from appliance.groups.records import Partition
from appliance.groups.states import GroupRefused, StreamsState
from appliance.groups.streams.member import Endpoint
from appliance.groups.streams.task import Role, Task
from appliance.groups.streams.topics_of_topology import StatusCode
from appliance.groups.streams.topology import Topology
from appliance.protocol import ErrorCode
from tests.support.streams_group import (
    COUNTING,
    NO_DELAY,
    REBALANCE_MS,
    SESSION_MS,
    Client,
    World,
    settle,
    subtopology,
)


def codes(answer: object) -> list[StatusCode]:
    return [each.code for each in answer.statuses]  # type: ignore[attr-defined]


def test_the_first_member_gets_all_tasks() -> None:
    world = World()
    one = Client(world, "one")
    assert one.beat().epoch == 2
    assert one.numbers() == ["0_0", "0_1", "0_2", "0_3"]
    assert world.group.state is StreamsState.STABLE
    told = one.beat()
    assert (told.assigned, told.epoch) == (None, 2), "nothing is new"
    assert told.heartbeat_interval_ms == NO_DELAY.heartbeat_interval_ms


def test_tasks_go_to_a_new_member_once_their_owner_gave_them_up() -> None:
    world = World()
    one, two = Client(world, "one"), Client(world, "two")
    one.beat()
    told = two.beat()
    assert (told.epoch, told.assigned) == (3, frozenset())
    assert told.heartbeat_interval_ms == NO_DELAY.shortest_heartbeat_ms, "it waits"
    assert world.group.state is StreamsState.RECONCILING
    one.ask()  # still owns all of them
    assert one.answers[-1].epoch == 2
    assert two.beat().assigned is None, "not given up yet"
    one.hear()
    one.beat()
    two.beat()
    assert (len(one.owned), len(two.owned), one.owned & two.owned) == (2, 2, frozenset())
    assert world.group.state is StreamsState.STABLE


def test_without_its_topics_a_group_is_not_ready_and_with_them_it_is() -> None:
    world = World(t=2)
    one = Client(world, "one", COUNTING)
    told = one.beat()
    assert codes(told) == [StatusCode.MISSING_INTERNAL_TOPICS]
    assert [(each.topic.name, each.partitions) for each in told.missing] == [
        ("counts", 2), ("words", 2)]
    assert (one.numbers(), world.group.state) == ([], StreamsState.NOT_READY)
    world.topics.change(words=2, counts=2)
    told = one.beat()
    assert (codes(told), list(told.missing)) == ([], [])
    assert one.numbers() == ["0_0", "0_1", "1_0", "1_1"]
    world.topics.change(t=0)
    assert codes(one.beat()) == [StatusCode.MISSING_SOURCE_TOPICS]
    one.beat()
    assert (one.numbers(), world.group.state) == ([], StreamsState.NOT_READY)


def test_the_first_members_wait_for_others() -> None:
    world = World(StreamsDelay)
    one, two = Client(world, "one"), Client(world, "two")
    told = one.beat()
    assert (codes(told), told.epoch, one.numbers()) == ([StatusCode.ASSIGNMENT_DELAYED], 1, [])
    assert world.group.state is StreamsState.ASSIGNING
    two.beat()
    world.wait(StreamsDelay.initial_rebalance_delay_ms)
    assert codes(one.beat()) == []
    two.beat()
    assert (len(one.owned), len(two.owned)) == (2, 2)
    assert world.group.state is StreamsState.STABLE


StreamsDelay = type(NO_DELAY)(initial_rebalance_delay_ms=300)


def test_a_member_that_is_silent_is_out_and_its_tasks_go_to_others() -> None:
    world = World()
    one, two = Client(world, "one"), Client(world, "two")
    settle(one, two)
    world.wait(SESSION_MS // 2)
    one.beat()
    world.wait(SESSION_MS // 2)
    assert list(world.group.members) == ["one"]
    one.beat()
    assert len(one.owned) == 4
    assert two.beat().error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_give_up_its_tasks_is_out() -> None:
    world = World()
    one, two = Client(world, "one"), Client(world, "two")
    one.beat()
    two.beat()
    owned = one.owned
    for _ in range(3):
        one.beat(owned=owned)
        two.beat()
        world.wait(REBALANCE_MS // 3)
    assert one.beat(owned=owned).error == ErrorCode.UNKNOWN_MEMBER_ID
    two.beat()
    assert len(two.owned) == 4


def test_who_leaves_gives_up_all() -> None:
    world = World()
    one, two = Client(world, "one"), Client(world, "two")
    settle(one, two)
    assert two.beat(LEAVING).epoch == LEAVING
    one.beat()
    assert len(one.owned) == 4
    assert one.beat(LEAVING).error == 0
    assert (world.group.state, world.group.holders) == (StreamsState.EMPTY, {})


def test_copies_of_state_are_on_other_processes() -> None:
    world = World(t=2, words=2, counts=2)
    world.set(num_standby_replicas=1)
    one = Client(world, "one", COUNTING, process_id="p")
    same = Client(world, "same", COUNTING, process_id="p")
    other = Client(world, "other", COUNTING, process_id="q")
    settle(one, same, other)
    copies = {each: set(each.numbers(Role.STANDBY)) for each in (one, same, other)}
    assert copies[other] == {*one.numbers(), *same.numbers()} - {"0_0", "0_1"}
    assert copies[one] | copies[same] == set(other.numbers()) - {"0_0", "0_1"}
    world.set(num_standby_replicas=0)
    settle(one, same, other)
    assert not any(each.numbers(Role.STANDBY) for each in (one, same, other))


def test_a_copy_becomes_active_only_when_the_process_gave_it_up_as_a_copy() -> None:
    world = World(t=1, words=1, counts=1)
    world.set(num_standby_replicas=1)
    one, two = (Client(world, each, COUNTING) for each in ("one", "two"))
    settle(one, two)
    holder, copy = (one, two) if "1_0" in one.numbers() else (two, one)
    assert copy.numbers(Role.STANDBY) == ["1_0"]
    holder.beat(LEAVING)
    told = copy.beat()
    assert Task(Role.ACTIVE, "1", 0) not in (told.assigned or ())
    copy.beat()
    copy.beat()
    assert "1_0" in copy.numbers()


def test_a_lost_answer_is_told_again() -> None:
    world = World()
    one, two = Client(world, "one"), Client(world, "two")
    one.beat()
    two.ask()
    two.answers.clear()
    one.ask()
    one.answers.clear()  # it was told to give up two
    assert len(one.beat().assigned or ()) == 2
    one.ask()  # it has
    lost = one.answers.pop()
    assert lost.epoch == 3
    told = one.beat()  # with the epoch before
    assert (told.epoch, told.error) == (3, 0)
    assert told.assigned is not None


@pytest.mark.parametrize(("epoch", "code"), [
    (1, ErrorCode.FENCED_MEMBER_EPOCH), (9, ErrorCode.FENCED_MEMBER_EPOCH)])
def test_another_epoch_is_fenced(epoch: int, code: int) -> None:
    world = World()
    one = Client(world, "one")
    settle(one)
    assert one.beat(epoch).error == code


def test_a_member_owns_tasks_that_there_are() -> None:
    world = World()
    one = Client(world, "one")
    one.beat()
    for task, text in ((("x", 0), "Subtopology x does not exist"), (("0", 4), "Task 4 for")):
        told = one.beat(owned=frozenset([Task(Role.ACTIVE, *task)]))
        assert told.error == ErrorCode.INVALID_REQUEST
        assert text in (told.message or "")


def test_a_topology_changes_when_all_have_left() -> None:
    world = World(t=1, u=1)
    one, two = Client(world, "one"), Client(world, "two", Topology(1, (subtopology("0", "u"),)))
    one.beat()
    told = two.beat()
    assert told.error == ErrorCode.INVALID_REQUEST
    assert "Topology updates are not supported yet" in (told.message or "")
    one.beat(LEAVING)
    assert two.beat().error == 0
    assert world.group.subscribed() == {"u"}
    told = one.beat(JOINING)
    assert codes(told) == [StatusCode.STALE_TOPOLOGY]
    settle(two)
    assert (one.numbers(), two.numbers()) == ([], ["0_0"])


def test_a_shutdown_is_told_to_all_until_they_are_gone() -> None:
    world = World()
    one, two = Client(world, "one"), Client(world, "two")
    settle(one, two)
    one.beat(shuts_down=True)
    assert codes(two.beat()) == [StatusCode.SHUTDOWN_APPLICATION]
    one.beat(LEAVING)
    two.beat(LEAVING)
    assert codes(one.beat(JOINING)) == []


def test_endpoints_are_told_to_who_does_not_know_them() -> None:
    world = World(t=2)
    one = Client(world, "one", endpoint=Endpoint("here", 1))
    two = Client(world, "two", endpoint=Endpoint("there", 2))
    settle(one, two)
    told = one.beat(endpoint_epoch=-1)
    assert told.endpoints is not None
    assert {each.endpoint.host: each.active for each in told.endpoints} == {
        "here": {"t": [0]}, "there": {"t": [1]}}
    assert one.beat(endpoint_epoch=told.endpoint_epoch).endpoints is None


def test_commits_count_by_the_epoch_in_which_the_task_was_given() -> None:
    world = World()
    one, two = Client(world, "one"), Client(world, "two")
    settle(one, two)
    epoch = one.epoch
    kept = next(iter(one.owned)).number
    lost = next(iter(two.owned)).number
    settle(one, two, Client(world, "three"))
    assert one.epoch > epoch
    check = world.group.check_commit
    group = world.group
    group.check_fetch("one", one.epoch)
    group.check_fetch(None, -1)
    group.check_transactional_commit("", None, -1, [])
    group.check_transactional_commit("one", None, one.epoch, [Partition("t", kept)])
    with pytest.raises(GroupRefused):
        group.check_transactional_commit("one", None, epoch, [Partition("t", lost)])
    with pytest.raises(GroupRefused):
        group.check_fetch("one", epoch)
    check("one", one.epoch, [Partition("t", 9)])
    if Task(Role.ACTIVE, "0", kept) in one.owned:
        check("one", epoch, [Partition("t", kept)])
    for member, at, code in (
        ("one", epoch, ErrorCode.STALE_MEMBER_EPOCH), ("x", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("one", one.epoch + 1, ErrorCode.STALE_MEMBER_EPOCH), ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ):  # fmt: skip
        with pytest.raises(GroupRefused) as refused:
            check(member, at, [Partition("t", lost)])
        assert refused.value.kafka_code == code


def test_a_restart_finds_the_group_as_it_was() -> None:
    world = World(t=2, words=2, counts=2)
    world.set(num_standby_replicas=1)
    one, two = (
        Client(world, each, COUNTING, endpoint=Endpoint(each, 1), tags=(("zone", "a"),))
        for each in ("one", "two")
    )
    settle(one, two)
    three = Client(world, "three", COUNTING)
    three.beat()
    one.beat()  # in the middle of a handover
    before = {each.id: (each.said, each.now, each.since) for each in world.group.all()}
    group = world.group
    world.restart()
    assert {each.id: (each.said, each.now, each.since) for each in world.group.all()} == before
    for name in ("epoch", "target_epoch", "targets", "topology", "configs", "validated_epoch",
                 "metadata_hash", "holders", "state"):
        assert getattr(world.group, name) == getattr(group, name), name
    epoch = world.group.epoch
    settle(one, two, three)
    assert (world.group.epoch, world.group.state) == (epoch, StreamsState.STABLE)


def test_a_deleted_group_leaves_nothing_on_the_disk() -> None:
    world = World()
    one = Client(world, "one")
    one.beat()
    with pytest.raises(GroupRefused):
        world.group.delete()
    one.beat(LEAVING)
    world.group.delete()
    world.disk.store(world.group.tombstones(), lambda error: None)
    assert not any(world.disk.latest.values())


def test_members_that_come_during_a_write_share_an_epoch_and_a_target() -> None:
    world = World(t=50)
    world.disk.is_slow = True
    first = Client(world, "first")
    others = [Client(world, f"other {n}") for n in range(49)]
    for each in (first, *others):
        each.ask()
    world.disk.sync()
    assert first.hear().epoch == 2
    assert not any(each.answers for each in others), "not on disk"
    world.disk.sync()
    assert {each.hear().epoch for each in others} == {3}
    world.disk.is_slow = False
    settle(first, *others)
    assert {len(each.owned) for each in (first, *others)} == {1}

"""The owner of groups: time and disk, restarts, deletion, expiry; real files, a real loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.config import GroupsConfig
from appliance.errors import ApplianceError, LogFailed, StorageFull
from appliance.groups.group_table import STALL_MS
from appliance.groups.records import OffsetCommitValue, Partition
from appliance.groups.states import State
from appliance.protocol.messages.delete_groups import DeleteGroupsRequest
from appliance.protocol.messages.join_group import JoinGroupRequest
from appliance.topics.internal_topic import InternalTopic
from appliance.topics.topic import TopicUnavailable
from appliance.topics.unfinished_deletions import UnfinishedDeletions
from tests.support.control import Control
from tests.support.group_client import GroupClient, committed, fetch_offsets

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS


@pytest.fixture
def control(tmp_path: Path) -> Iterator[Control]:
    made = Control(tmp_path)
    yield made
    made.close()


def restarted(control: Control, path: Path, is_killed: bool = True) -> Control:
    if is_killed:
        control.kill()
    else:
        control.close()
    again = Control(path)
    again.is_answered(again.send(DeleteGroupsRequest([]), 2))
    again.run(again.broker.groups.loading.loaded())
    return again


# Restarts


@pytest.mark.parametrize("is_killed", [True, False])
def test_groups_and_offsets_come_back(tmp_path: Path, is_killed: bool) -> None:
    control = Control(tmp_path)
    control.create("t", 3)
    one, other, gone = GroupClient(control), GroupClient(control, "h"), GroupClient(control, "x")
    one.enter()
    one.commit(1, 2, 3)
    other.commit(4)
    gone.commit(5)
    control.ask(DeleteGroupsRequest(["x"]), 2)
    control = restarted(control, tmp_path, is_killed)
    one.control = other.control = control
    assert committed(control) == {("t", 0): 1, ("t", 1): 2, ("t", 2): 3}
    assert committed(control, "h") == {("t", 0): 4}
    assert sorted(control.broker.groups.table.groups) == ["g", "h"]
    assert one.heartbeat() == 0
    assert one.commit(7) == [0]
    assert one.sync().assignment == b"all"
    assert committed(control)["t", 0] == 7
    control.close()


def test_a_session_that_was_not_taken_up_again_ends(tmp_path: Path) -> None:
    control = Control(tmp_path)
    GroupClient(control).enter()
    control = restarted(control, tmp_path)
    group = control.broker.groups.table.groups["g"]
    now_ms = time.monotonic_ns() // 1_000_000
    assert now_ms + 40_000 < group.due_ms <= now_ms + 45_000

    async def tick() -> None:
        group.tick(group.due_ms)

    control.run(tick())
    assert group.state is State.EMPTY
    control.close()


# Timers


def test_a_member_that_is_silent_is_out_by_the_clock(tmp_path: Path) -> None:
    groups = GroupsConfig(initial_rebalance_delay_ms=0, min_session_ms=50)
    control = Control(tmp_path, groups=groups)
    protocol = JoinGroupRequest.JoinGroupRequestProtocol("range", b"")
    asked = JoinGroupRequest("g", 50, 1000, "", None, "consumer", [protocol])
    assert control.ask(asked, 3).error_code == 0
    group = control.broker.groups.table.groups["g"]
    while group.state is not State.EMPTY:
        control.run(asyncio.sleep(0.01))
    control.close()


def test_consumers_wait_for_each_other_by_the_clock(tmp_path: Path) -> None:
    control = Control(tmp_path, groups=GroupsConfig(initial_rebalance_delay_ms=3000))
    clients = [GroupClient(control) for _ in range(5)]
    sent = [each.send_join(3) for each in clients]
    assert not any(control.is_answered(each) for each in sent)
    answers = [each.joined(one) for each, one in zip(clients, sent, strict=True)]
    assert {each.generation_id for each in answers} == {1}
    assert sorted(len(each.members) for each in answers) == [0, 0, 0, 0, 5]
    control.close()


def test_a_loop_that_stood_still_expires_nobody(control: Control) -> None:
    one = GroupClient(control)
    one.enter()
    groups = control.broker.groups
    group = groups.table.groups["g"]
    (member,) = group.members
    long_ago = time.monotonic_ns() // 1_000_000 - STALL_MS - 100
    member.deadline_ms = group.due_ms = long_ago

    async def ring() -> None:
        groups.table.arm(group)

    control.run(ring())
    assert one.heartbeat() == 0
    assert group.state is State.STABLE


def test_heartbeats_set_no_timer(control: Control) -> None:
    clients = [GroupClient(control, f"g{i}") for i in range(10)]
    for each in clients:
        each.enter()
    timers = {name: each.when() for name, each in control.broker.groups.table._timers.items()}
    assert len(timers) == 10
    for each in clients * 5:
        assert each.heartbeat() == 0
    assert {n: each.when() for n, each in control.broker.groups.table._timers.items()} == timers


# Disk


def test_a_disk_that_fails_is_told_as_something_to_try_again(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    control.create("t")
    one = GroupClient(control)
    one.enter()
    assert one.commit(1) == [0]
    faults = [LogFailed("the disk is gone"), StorageFull("no room")]

    def fail(self: InternalTopic) -> None:
        raise faults.pop(0)

    with monkeypatch.context() as patch:
        patch.setattr(InternalTopic, "_hand_over", fail)
        assert one.commit(2) == [15]
        assert committed(control) == {("t", 0): 1}
        assert control.ask(DeleteGroupsRequest(["g"]), 2).results[0].error_code == 68
        one.leave()
    assert control.broker.groups.table.groups["g"].state is State.EMPTY
    assert GroupClient(control).commit(3) == [0]


def test_a_deletion_that_cannot_be_stored_leaves_the_offsets(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    control.create("t")
    GroupClient(control).commit(1)

    def fail(self: InternalTopic) -> None:
        raise StorageFull("no room")

    with monkeypatch.context() as patch:
        patch.setattr(InternalTopic, "_hand_over", fail)
        assert control.ask(DeleteGroupsRequest(["g"]), 2).results[0].error_code == 15
    assert committed(control) == {("t", 0): 1}
    assert control.ask(DeleteGroupsRequest(["g"]), 2).results[0].error_code == 0
    assert committed(control) == {}


def test_commits_on_their_way_go_with_the_group(control: Control) -> None:
    control.create("t", 2)
    one = GroupClient(control)
    one.commit(1)
    sent = one.send_commit(1, 2)
    deleted = control.send(DeleteGroupsRequest(["g"]), 2)
    late = one.send_commit(3)
    assert control.answer(deleted).results[0].error_code == 0
    assert [each.error_code for each in control.answer(sent).topics[0].partitions] == [0, 0]
    assert control.answer(late).topics[0].partitions[0].error_code == 15  # ask again
    assert committed(control) == {}
    assert one.commit(4) == [0]
    assert committed(control) == {("t", 0): 4}


def test_a_topic_takes_its_offsets_with_it(tmp_path: Path) -> None:
    control = Control(tmp_path)
    control.create("t")
    control.create("u")
    one = GroupClient(control)
    one.commit(1)
    one.commit(2, topic="u")
    GroupClient(control, "h").commit(3)
    control.run(control.broker.topics.delete("t"))
    assert committed(control) == {("u", 0): 2}
    control.create("t")
    assert one.commit(5, topic="u") == [0]
    assert committed(control) == {("u", 0): 5}
    control = restarted(control, tmp_path)
    assert committed(control) == {("u", 0): 5}
    assert committed(control, "h") == {}
    control.close()


def test_a_kill_in_the_midst_of_a_deletion_leaves_no_offsets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the next topic of that name, which is not made before they are gone."""
    control = Control(tmp_path)
    control.create("t")
    GroupClient(control).commit(1)

    async def killed(*given: object) -> None:
        """The files are gone, and nothing else is."""

    with monkeypatch.context() as patch:
        patch.setattr(UnfinishedDeletions, "go_on", killed)
        control.run(control.broker.topics.delete("t"))
    control = restarted(control, tmp_path)
    assert committed(control) == {("t", 0): 1}
    with pytest.raises(TopicUnavailable, match="before the broker stopped"):
        control.create("t")
    assert control.run(control.broker.reopening.retry()) == 1
    assert control.broker.topics.rows.deletions() == []
    control.create("t")
    control = restarted(control, tmp_path)
    assert (committed(control), [*control.broker.topics.undeleted]) == ({}, [])
    control.close()


def test_a_stop_in_the_midst_of_a_deletion_leaves_no_offsets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups are not served any more when it is their turn: the next start goes on."""
    control = Control(tmp_path)
    control.create("t")
    GroupClient(control).commit(1)
    groups = control.broker.groups
    known = groups.loading.known

    async def known_last() -> None:
        await known()
        groups.stop()

    monkeypatch.setattr(groups.loading, "known", known_last)
    control.run(control.broker.topics.delete("t"))
    assert "the broker stops" in control.broker.topics.undeleted["t"]
    control = restarted(control, tmp_path)
    assert control.run(control.broker.reopening.retry()) == 1
    control.create("t")
    assert committed(control) == {}
    control.close()


def test_offsets_that_cannot_be_deleted_with_their_topic_are_tried_again(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    control.create("t")
    GroupClient(control).commit(1)

    def fail(self: InternalTopic) -> None:
        raise StorageFull("no room")

    with monkeypatch.context() as patch:
        patch.setattr(InternalTopic, "_hand_over", fail)
        control.run(control.broker.topics.delete("t"))
    with pytest.raises(TopicUnavailable, match="no room"):
        control.create("t")
    assert control.run(control.broker.reopening.retry()) == 1
    control.create("t")
    assert committed(control) == {}


def test_what_a_transaction_holds_for_a_deleted_topic_never_counts(control: Control) -> None:
    control.create("t", 2)
    GroupClient(control).commit(1)
    groups = control.broker.groups
    groups.offsets.hold(7, "g", {Partition("t", each): OffsetCommitValue(2) for each in (0, 1)}, 0)
    groups.offsets.hold(7, "h", {Partition("t", 0): OffsetCommitValue(3)}, 0)
    control.run(control.broker.topics.delete("t"))
    control.create("t", 2)
    groups.commits.end_transaction(7, is_commit=True)
    assert (committed(control), committed(control, "h")) == ({}, {})


def test_deleting_a_topic_makes_no_topic_for_offsets(control: Control) -> None:
    control.create("t")
    control.run(control.broker.topics.delete("t"))
    assert list(control.broker.topics) == []


# Expiry


def expire(control: Control, in_ms: int) -> None:
    async def run() -> None:
        control.broker.groups.expiry.expire(time.time_ns() // 1_000_000 + in_ms)

    settle(control)  # what is on its way waits for the next check
    control.run(run())
    settle(control)


def settle(control: Control) -> None:
    quiet = 0
    while quiet < 2:  # what is done may write again
        control.run(control._settle())
        quiet = 0 if control.broker.groups.table.topic.is_busy else quiet + 1


def test_offsets_do_not_expire_by_default(control: Control) -> None:
    control.create("t")
    one = GroupClient(control)
    one.enter()
    one.commit(1)
    one.leave()
    expire(control, 3650 * DAY_MS)
    assert committed(control) == {("t", 0): 1}


def test_offsets_of_empty_groups_expire_when_that_is_set(tmp_path: Path) -> None:
    groups = GroupsConfig(initial_rebalance_delay_ms=0, retention_minutes=10)
    control = Control(tmp_path, groups=groups)
    for name in ("t", "u"):
        control.create(name)
    one, simple = GroupClient(control), GroupClient(control, "simple")
    one.enter()
    one.commit(1)
    one.commit(2, topic="u")  # it reads t alone
    simple.commit(3)
    expire(control, 9 * MINUTE_MS)
    assert committed(control) == {("t", 0): 1, ("u", 0): 2}
    assert committed(control, "simple") == {("t", 0): 3}
    expire(control, 11 * MINUTE_MS)
    assert committed(control) == {("t", 0): 1}
    assert committed(control, "simple") == {}
    assert list(control.broker.groups.table.groups) == ["g"]
    one.leave()
    expire(control, 11 * MINUTE_MS)
    assert list(control.broker.groups.table.groups) == []
    control.close()


def test_offsets_of_groups_that_never_had_a_member_expire(tmp_path: Path) -> None:
    """Also after a start, when all groups are without members; those of the others stay."""
    control = Control(tmp_path)
    control.create("t")
    one = GroupClient(control)
    one.enter()
    one.commit(1)
    one.leave()
    simple = GroupClient(control, "simple")
    simple.commit(3)
    expire(control, 89 * DAY_MS)
    assert committed(control, "simple") == {("t", 0): 3}
    control = restarted(control, tmp_path)
    expire(control, 91 * DAY_MS)
    assert committed(control, "simple") == {}
    assert committed(control) == {("t", 0): 1}
    assert list(control.broker.groups.table.groups) == ["g"]
    control.close()


@pytest.mark.parametrize(("of_all", "memberless", "days"), [(-1, -1, None), (-1, 1440, 1),
                                                            (2880, 1440, 1), (1440, 2880, 1)])
def test_the_shorter_retention_is_that_of_groups_without_a_member(
    tmp_path: Path, of_all: int, memberless: int, days: int | None
) -> None:
    groups = GroupsConfig(retention_minutes=of_all, memberless_retention_minutes=memberless)
    control = Control(tmp_path, groups=groups)
    control.create("t")
    GroupClient(control).commit(3)
    expire(control, (days or 3650) * DAY_MS - MINUTE_MS)
    assert committed(control) == {("t", 0): 3}
    if days:
        expire(control, days * DAY_MS + MINUTE_MS)
        assert list(control.broker.groups.table.groups) == []
    control.close()


def test_a_join_that_never_came_to_its_end_leaves_nothing(control: Control) -> None:
    control.create("t")
    one = GroupClient(control)
    answer = control.answer(one.send_join())
    assert answer.error_code == 79  # MEMBER_ID_REQUIRED: it never joins with the id
    assert list(control.broker.groups.table.groups) == ["g"]
    expire(control, 0)
    assert list(control.broker.groups.table.groups) == []


@pytest.mark.parametrize("is_first", [True, False], ids=["of a new group", "of a known one"])
def test_an_offset_on_its_way_to_the_disk_is_not_expired(tmp_path: Path, is_first: bool) -> None:
    """The group has nothing yet, or something old: neither may take with it what comes."""
    groups = GroupsConfig(initial_rebalance_delay_ms=0, retention_minutes=10)
    control = Control(tmp_path, groups=groups)
    control.create("t")
    place, owner = Partition("t", 0), control.broker.groups
    now_ms = time.time_ns() // 1_000_000
    told: list[ApplianceError | None] = []

    async def commit(offset: int, at_ms: int, *, is_expiring: bool) -> None:
        value = OffsetCommitValue(offset, commit_timestamp=at_ms)
        owner.commits.commit("g", ("", None, -1), {place: value}, now_ms, told.append)
        if is_expiring:
            owner.expiry.expire(now_ms)

    if not is_first:
        control.run(commit(1, now_ms - DAY_MS, is_expiring=False))
        settle(control)
    control.run(commit(2, now_ms, is_expiring=True))
    expire(control, 0)
    assert told[-1] is None
    assert committed(control) == {("t", 0): 2}
    control.close()


def test_a_request_may_say_when_an_offset_expires(control: Control) -> None:
    control.create("t", 2)
    one = GroupClient(control)
    assert one.commit(1, version=4, retention_time_ms=5 * MINUTE_MS) == [0]
    expire(control, 4 * MINUTE_MS)
    assert committed(control) == {("t", 0): 1}
    expire(control, 6 * MINUTE_MS)
    assert committed(control) == {}


def test_what_a_transaction_holds_does_not_expire(tmp_path: Path) -> None:
    groups = GroupsConfig(initial_rebalance_delay_ms=0, retention_minutes=1)
    control = Control(tmp_path, groups=groups)
    control.create("t")
    GroupClient(control).commit(1)
    offsets = control.broker.groups.offsets
    place = Partition("t", 0)
    offsets.hold(7, "g", {place: OffsetCommitValue(2)}, 5)
    expire(control, DAY_MS)
    assert committed(control) == {("t", 0): 1}
    assert fetch_error(control) == 88
    offsets.end(7, is_commit=True)
    assert (committed(control), fetch_error(control)) == ({("t", 0): 2}, 0)
    control.close()


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_group_that_is_deleted_within_a_transaction(control: Control, is_commit: bool) -> None:
    control.create("t")
    GroupClient(control).commit(1)
    groups = control.broker.groups
    groups.offsets.hold(7, "g", {Partition("t", 0): OffsetCommitValue(2)}, 5)
    assert control.ask(DeleteGroupsRequest(["g"]), 2).results[0].error_code == 0
    groups.commits.end_transaction(7, is_commit)
    assert list(groups.table.groups) == (["g"] if is_commit else [])
    assert control.ask(DeleteGroupsRequest(["g"]), 2).results[0].error_code == (
        0 if is_commit else 69
    )


def fetch_error(control: Control) -> int:
    (topic,) = fetch_offsets(control, "g", {"t": [0]}, require_stable=True).topics
    return int(topic.partitions[0].error_code)


def test_empty_groups_without_offsets_are_forgotten(control: Control) -> None:
    one = GroupClient(control)
    one.enter()
    expire(control, 0)
    assert list(control.broker.groups.table.groups) == ["g"]
    one.leave()
    expire(control, 0)
    assert list(control.broker.groups.table.groups) == []
    one.id = ""
    assert one.join().generation_id == 1


def test_offsets_that_cannot_be_read_at_all_show_in_health(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = Control(tmp_path)
    one = GroupClient(control)
    one.enter()

    def fail(logs: object) -> None:
        raise ZeroDivisionError("not foreseen")

    monkeypatch.setattr("appliance.groups.offsets_topic_loading.replay", fail)
    control = restarted(control, tmp_path)
    one.control = control
    assert one.heartbeat() == 15
    assert "are not served: ZeroDivisionError" in control.broker.groups.availability.fault
    control.close()

"""Groups of the newer protocol as clients see them: from request to answer, over restarts too."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from appliance.protocol.messages.delete_groups import DeleteGroupsRequest
from appliance.protocol.messages.describe_groups import DescribeGroupsRequest
from appliance.protocol.messages.offset_delete import OffsetDeleteRequest
from appliance.protocol.messages.offset_fetch import OffsetFetchRequest
from tests.support.consumer_group_client import Member, Topics, described, listed
from tests.support.control import Control
from tests.support.group_client import GroupClient, committed


@pytest.fixture
def control(control: Control) -> Control:
    control.create("t", 4)
    return control


@pytest.mark.parametrize("version", range(2))
def test_a_member_joins_beats_and_leaves(control: Control, version: int) -> None:
    one = Member(control, subscribed_topic_regex=None)
    answer = one.beat(version)
    assert (answer.error_message, answer.member_id, answer.member_epoch) == (None, "one", 1)
    assert answer.heartbeat_interval_ms == 5000
    assert one.owned == {control.broker.topics["t"].id: [0, 1, 2, 3]}
    answer = one.send(
        1, version, rebalance_timeout_ms=-1, subscribed_topic_names=None, topic_partitions=None
    )
    assert (answer.error_code, answer.assignment) == (0, None)
    answer = one.send(-1, version)
    assert (answer.error_code, answer.member_epoch) == (0, -1)
    assert one.send(1, version).error_code == 25


def test_version_0_gives_a_new_member_its_id(control: Control) -> None:
    answer = Member(control, "").send(0, 0)
    assert (answer.error_code, len(answer.member_id)) == (0, 36)


@pytest.mark.parametrize(
    "facts",
    [
        {"group_id": ""},
        {"member_id": ""},
        {"instance_id": ""},
        {"rack_id": ""},
        {"rebalance_timeout_ms": -1},
        {"topic_partitions": None},
        {"topic_partitions": [Topics(UUID(int=1), [0])]},
        {"subscribed_topic_names": None},
        {"member_epoch": -3},
        {"member_epoch": -2},
    ],
)
def test_requests_that_make_no_sense(control: Control, facts: dict[str, Any]) -> None:
    answer = Member(control).send(**{"epoch": facts.pop("member_epoch", 0), **facts})
    assert answer.error_code == 42
    assert answer.error_message.endswith(".")
    assert listed(control) == []


@pytest.mark.parametrize(
    ("epoch", "facts", "code"),
    [
        (0, {"server_assignor": "best"}, 112),
        (0, {"subscribed_topic_regex": "("}, 128),
        (1, {}, 69),
        (-1, {}, 69),
    ],
    ids=["no such assignor", "no pattern", "no such group", "no group to leave"],
)
def test_what_is_refused_makes_no_group(
    control: Control, epoch: int, facts: dict[str, Any], code: int
) -> None:
    answer = Member(control).send(epoch, **facts)
    assert (answer.error_code, answer.assignment) == (code, None)
    assert answer.error_message
    assert listed(control) == []


def test_members_are_told_apart_by_their_epochs(control: Control) -> None:
    one, two = Member(control), Member(control, "two")
    for each in (one, two, one, one, two):
        each.beat()
    topic_id = control.broker.topics["t"].id
    assert sorted(one.owned[topic_id] + two.owned[topic_id]) == [0, 1, 2, 3]
    assert one.send(7).error_code == 110
    assert Member(control, "three").send(1).error_code == 25


def test_static_members(control: Control) -> None:
    one = Member(control, instance_id="i")
    one.beat()
    two = Member(control, "two", instance_id="i")
    assert two.send().error_code == 111
    assert one.send(-2).member_epoch == -2
    two.beat()
    assert two.owned == one.owned
    assert one.send(1).error_code == 82


@pytest.mark.parametrize("version", range(2))
def test_describing(control: Control, version: int) -> None:
    one = Member(control, rack_id="r", instance_id="i", subscribed_topic_regex="t.*")
    one.beat()
    control.create("t2")
    one.beat()
    answer = described(control, version=version)
    assert (answer.error_code, answer.error_message, answer.group_state) == (0, None, "Stable")
    assert (answer.group_epoch, answer.assignment_epoch, answer.assignor_name) == (2, 2, "uniform")
    assert answer.authorized_operations > 0
    (member,) = answer.members
    assert (member.member_id, member.instance_id, member.rack_id) == ("one", "i", "r")
    assert (member.member_epoch, member.client_host) == (2, "/127.0.0.1")
    assert (member.subscribed_topic_names, member.subscribed_topic_regex) == (["t"], "t.*")
    assert member.member_type == (1 if version else -1)
    rows = sorted((e.topic_name, e.partitions) for e in member.assignment.topic_partitions)
    assert rows == [("t", [0, 1, 2, 3]), ("t2", [0])]
    assert member.assignment == member.target_assignment
    control.run(control.broker.topics.delete("t2"))
    (member,) = described(control, version=version).members
    assert [each.topic_name for each in member.assignment.topic_partitions] == ["t"]


def test_describing_what_is_not_of_this_kind(control: Control) -> None:
    GroupClient(control, "old").enter()
    for name, text in (("old", "Group old is not a consumer group."), ("x", "Group x not found.")):
        answer = described(control, name)
        assert (answer.error_code, answer.error_message) == (69, text)
    Member(control).beat()
    for version, code in ((5, 0), (6, 69)):
        (row,) = control.ask(DescribeGroupsRequest(["g"]), version).groups
        assert (row.error_code, row.group_state, row.members) == (code, "Dead", [])


def test_listing(control: Control) -> None:
    GroupClient(control, "old").enter()
    Member(control).beat()
    old, new = ("old", "consumer", "Stable", "classic"), ("g", "consumer", "Stable", "consumer")
    assert sorted(listed(control)) == [new, old]
    assert listed(control, types_filter=["Consumer"]) == [new]
    assert listed(control, types_filter=["classic"], states_filter=["stable"]) == [old]
    assert listed(control, types_filter=["share"]) == []


# Offsets


def test_committing_with_epochs(control: Control) -> None:
    one = Member(control)
    assert one.commit(1, member_id="", generation_id_or_member_epoch=-1) == [0]
    one.beat()
    assert one.commit(5, 6) == [0, 0]
    assert one.commit(5, version=10) == [0]
    assert one.commit(9, version=8) == [35], "what it would be told is unknown to that version"
    assert one.commit(9, generation_id_or_member_epoch=0) == [113]
    assert one.commit(9, member_id="two") == [25]
    assert one.commit(9, member_id="", generation_id_or_member_epoch=-1) == [25]
    assert committed(control) == {("t", 0): 5, ("t", 1): 6}


@pytest.mark.parametrize(
    ("member", "epoch", "code"),
    [(None, -1, 0), ("one", 1, 0), ("one", 0, 113), ("two", 1, 25)],
)
def test_fetching_with_epochs(
    control: Control, member: str | None, epoch: int, code: int
) -> None:
    one = Member(control)
    one.beat()
    one.commit(5)
    asked = OffsetFetchRequest.OffsetFetchRequestGroup("g", member, epoch, None)
    (answer,) = control.ask(OffsetFetchRequest(groups=[asked]), 9).groups
    assert answer.error_code == code
    assert len(answer.topics) == (0 if code else 1)


def test_deleting_offsets_and_groups(control: Control) -> None:
    one = Member(control, subscribed_topic_regex="[t]")
    one.beat()
    one.commit(5)
    row = OffsetDeleteRequest.OffsetDeleteRequestTopic
    rows = [row("t", [OffsetDeleteRequest.OffsetDeleteRequestPartition(0)])]
    (topic,) = control.ask(OffsetDeleteRequest("g", rows), 0).topics
    assert topic.partitions[0].error_code == 86
    (result,) = control.ask(DeleteGroupsRequest(["g"]), 2).results
    assert result.error_code == 68
    one.send(-1)
    (result,) = control.ask(DeleteGroupsRequest(["g"]), 2).results
    assert result.error_code == 0
    assert (listed(control), committed(control)) == ([], {})


# Restarts


@pytest.mark.parametrize("last", ["new", "old"])
def test_a_restart_finds_the_group_of_the_last_protocol(tmp_path: Path, last: str) -> None:
    control = Control(tmp_path)
    control.create("t", 4)
    old, one = GroupClient(control), Member(control, instance_id="i", subscribed_topic_regex="t")
    old.enter()
    old.leave()
    one.beat()
    one.commit(7)
    if last == "old":
        one.send(-1)
        old.id = ""
        old.enter()
    control.close()
    control = Control(tmp_path)
    try:
        control.run(control.broker.groups.loading.loaded())
        one.control = old.control = control
        assert listed(control) == [("g", "consumer", "Stable", "consumer" if last == "new" else
                                    "classic")]
        assert committed(control) == {("t", 0): 7}
        if last == "new":
            assert one.beat().assignment is not None, "it told all of itself"
            assert (one.epoch, one.commit(8)) == (1, [0])
            assert described(control).group_epoch == 1
        else:
            assert old.heartbeat() == 0
    finally:
        control.close()


def test_a_deleted_group_is_gone_after_a_restart(tmp_path: Path) -> None:
    control = Control(tmp_path)
    control.create("t")
    one = Member(control, subscribed_topic_regex="x")
    one.beat()
    one.send(-1)
    control.ask(DeleteGroupsRequest(["g"]), 2)
    control.close()
    control = Control(tmp_path)
    control.run(control.broker.groups.loading.loaded())
    assert listed(control) == []
    control.close()

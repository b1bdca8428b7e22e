"""Groups of the newer protocol as clients see them: from request to answer, over restarts too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from appliance.config import BrokerConfig, ConsumerGroupsConfig, SettingInvalid, load
from appliance.groups.subscription import Subscription, TopicPartitions, assigned, assignment
from appliance.protocol.codec import encode
from appliance.protocol.messages.alter_configs import AlterConfigsRequest
from appliance.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from appliance.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from appliance.protocol.messages.delete_groups import DeleteGroupsRequest
from appliance.protocol.messages.describe_configs import DescribeConfigsRequest
from appliance.protocol.messages.describe_groups import DescribeGroupsRequest
from appliance.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from appliance.protocol.messages.list_groups import ListGroupsRequest
from appliance.protocol.messages.offset_commit import OffsetCommitRequest
from appliance.protocol.messages.offset_delete import OffsetDeleteRequest
from appliance.protocol.messages.offset_fetch import OffsetFetchRequest
from tests.support.control import Control
from tests.support.group_client import GroupClient, committed, subscription

Topics = ConsumerGroupHeartbeatRequest.TopicPartitions
GROUP = 32


@pytest.fixture
def control(tmp_path: Path) -> Iterator[Control]:
    made = Control(tmp_path)
    made.create("t", 4)
    yield made
    made.close()


class Member:
    """Remembers its epoch and its partitions as a consumer does."""

    def __init__(self, control: Control, name: str = "one", **facts: Any) -> None:
        self.control = control
        self.facts = {
            "group_id": "g",
            "member_id": name,
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": ["t"],
            "topic_partitions": [],
            **facts,
        }
        self.epoch = 0
        self.owned: dict[UUID, list[int]] = {}

    def send(self, epoch: int | None = None, version: int = 1, **facts: Any) -> Any:
        asked = ConsumerGroupHeartbeatRequest(
            **{**self.facts, "member_epoch": self.epoch if epoch is None else epoch, **facts}
        )
        return self.control.ask(asked, version)

    def beat(self, version: int = 1) -> Any:
        owned = [Topics(*each) for each in self.owned.items()]
        answer = self.send(version=version, topic_partitions=owned)
        assert answer.error_code == 0, answer
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = {e.topic_id: e.partitions for e in answer.assignment.topic_partitions}
        return answer

    def commit(self, *offsets: int, version: int = 9, **facts: Any) -> list[int]:
        row = OffsetCommitRequest.OffsetCommitRequestPartition
        rows = [row(i, offset, -1, "") for i, offset in enumerate(offsets)]
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=rows)
        topic.topic_id = self.control.broker.topics["t"].id
        asked = OffsetCommitRequest(
            **{
                "group_id": "g",
                "generation_id_or_member_epoch": self.epoch,
                "member_id": self.facts["member_id"],
                "topics": [topic],
                **facts,
            }
        )
        (answer,) = self.control.ask(asked, version).topics
        return [each.error_code for each in answer.partitions]


def described(control: Control, group: str = "g", version: int = 1) -> Any:
    (answer,) = control.ask(ConsumerGroupDescribeRequest([group], True), version).groups
    return answer


def listed(control: Control, **asked: Any) -> list[tuple[str, str, str, str]]:
    answer = control.ask(ListGroupsRequest(**asked), 5)
    return [
        (each.group_id, each.protocol_type, each.group_state, each.group_type)
        for each in answer.groups
    ]


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
    control.run(control.broker.delete_topic("t2"))
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


# From one protocol to the other


def test_an_empty_group_takes_the_protocol_of_whoever_comes(control: Control) -> None:
    old, new = GroupClient(control), Member(control)
    old.enter()
    assert old.commit(3) == [0]
    assert new.send(1).error_message == "Group g is not a consumer group."
    old.leave()
    new.beat()
    assert committed(control) == {("t", 0): 3}
    assert old.heartbeat() == 25
    new.send(-1)
    old.id = ""
    old.enter()
    assert listed(control) == [("g", "consumer", "Stable", "classic")]
    assert committed(control) == {("t", 0): 3}
    assert new.send(1).error_code == 69


def test_a_group_that_cannot_be_upgraded(control: Control) -> None:
    GroupClient(control, protocol_type="connect", protocols={"sessioned": b"?"}).enter()
    answer = Member(control).send()
    assert answer.error_code == 69
    assert "protocol type connect" in answer.error_message
    GroupClient(control, "other", protocols={"range": b"?"}).enter()
    assert Member(control, group_id="other").send().error_code == 69
    assert {each[2:] for each in listed(control)} == {("Stable", "classic")}


# Members of both protocols in one group


def names(*partitions: int) -> bytes:
    """An assignment of the topic t."""
    return assignment(0, {"t": list(partitions)}) if partitions else assignment(0, {})


def rejoin(old: GroupClient) -> bytes:
    """What it is given, as one that gives up everything when it joins again."""
    assert old.join().error_code == 0
    answer = old.sync()
    assert answer.error_code == 0
    return bytes(answer.assignment)


def test_a_group_is_upgraded_while_it_runs(control: Control) -> None:
    old = GroupClient(control)
    old.join()
    assert old.sync(**{old.id: names(0, 1, 2, 3)}).error_code == 0
    new = Member(control)
    assert new.beat().assignment.topic_partitions == [], "the old one still has everything"
    assert listed(control) == [("g", "consumer", "Reconciling", "consumer")]
    assert old.commit(5) == [0]
    assert old.heartbeat() == 27
    given = rejoin(old)
    assert old.generation == 2
    assert old.heartbeat() == 0
    new.beat()
    (mine,) = new.owned.values()
    assert (len(mine), given) == (2, names(*{0, 1, 2, 3}.difference(mine)))
    assert listed(control) == [("g", "consumer", "Stable", "consumer")]
    types = {each.member_id: each.member_type for each in described(control).members}
    assert types == {old.id: 0, "one": 1}
    assert old.commit(6, version=8) == [0]
    old.generation = 1
    assert (old.heartbeat(), old.commit(9), old.sync().error_code) == (22, [22], 22)
    old.generation = 2
    assert old.leave().members[0].error_code == 0
    new.beat()
    assert [*new.owned.values()] == [[0, 1, 2, 3]]
    assert committed(control) == {("t", 0): 6}


def test_one_that_cooperates_keeps_what_it_may(control: Control) -> None:
    old = GroupClient(control, protocols={"cooperative-sticky": owning(0, 1, 2, 3)})
    old.join()
    old.sync(**{old.id: names(0, 1, 2, 3)})
    new = Member(control)
    new.beat()
    assert old.heartbeat() == 27
    kept = rejoin(old)
    assert (old.generation, new.beat().member_epoch) == (1, 2), "it has not let go yet"
    assert (len(assigned(kept)["t"]), new.owned) == (2, {})
    assert old.heartbeat() == 27
    old.protocols = {"cooperative-sticky": owning(*assigned(kept)["t"])}
    assert rejoin(old) == kept
    assert (old.generation, old.heartbeat()) == (2, 0)
    new.beat()
    assert sorted([*assigned(kept)["t"], *new.owned[control.broker.topics["t"].id]]) == [0, 1, 2, 3]


def test_the_older_protocol_may_join_too(control: Control) -> None:
    new = Member(control)
    new.beat()
    old = GroupClient(control)
    given = rejoin(old)
    assert given == names(), "nothing is free yet"
    new.beat()
    assert old.heartbeat() == 0, "it waits"
    new.beat()
    assert old.heartbeat() == 27, "what it waits for is free"
    assert len(assigned(rejoin(old))["t"]) == 2
    assert GroupClient(control, protocol_type="connect").join().error_code == 23
    assert GroupClient(control, protocols={"other": subscription("t")}).join().error_code == 23
    control.run(control.broker.topics.create_partitions("t", 6))
    assert old.heartbeat() == 27, "also the old ones see topics change"
    assert len(assigned(rejoin(old))["t"]) == 3


def test_static_members_change_their_protocol(control: Control) -> None:
    old = GroupClient(control, instance="i")
    old.join()
    old.sync(**{old.id: names(0, 1, 2, 3)})
    new = Member(control, instance_id="i")
    new.beat()
    assert [*new.owned.values()] == [[0, 1, 2, 3]]
    assert (old.heartbeat(), len(described(control).members)) == (82, 1)
    other = Member(control, "two")
    other.beat()
    again = GroupClient(control, instance="i")
    assert len(assigned(rejoin(again))["t"]) == 2
    assert new.send(new.epoch).error_code == 82


def test_who_waits_in_a_group_that_is_upgraded_joins_again(control: Control) -> None:
    one, two = GroupClient(control), GroupClient(control)
    one.enter()
    sent = two.send_join(3)
    assert not control.is_answered(sent)
    Member(control).beat()
    assert control.answer(sent).error_code == 27
    assert one.heartbeat() == 27
    rejoin(one)


def test_a_mixed_group_is_there_after_a_restart(tmp_path: Path) -> None:
    control = Control(tmp_path)
    control.create("t", 4)
    old, new = GroupClient(control), Member(control)
    old.join()
    old.sync(**{old.id: names(0, 1, 2, 3)})
    new.beat()
    old.heartbeat()
    given = rejoin(old)
    new.beat()
    control.close()
    control = Control(tmp_path)
    try:
        control.run(control.broker.groups.loading.loaded())
        old.control = new.control = control
        assert (old.heartbeat(), old.sync().assignment) == (0, given)
        new.beat()
        assert new.epoch == old.generation == 2
        assert listed(control) == [("g", "consumer", "Stable", "consumer")]
    finally:
        control.close()


def owning(*partitions: int) -> bytes:
    """A subscription to the topic t of version 1: nothing, and what its member has."""
    rows = [TopicPartitions("t", list(partitions))]
    return encode(Subscription(1, ["t"], None, rows), 1)


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


# Configs of groups


def configs(control: Control, group: str = "g") -> dict[str, tuple[str, int]]:
    row = DescribeConfigsRequest.DescribeConfigsResource(GROUP, group, None)
    (answer,) = control.ask(DescribeConfigsRequest([row], include_synonyms=True), 4).results
    assert answer.error_code == 0
    for each in answer.configs:
        assert each.synonyms[0].value == each.value
    return {
        each.name: (each.value, each.config_source)
        for each in answer.configs
        if each.name.startswith("consumer.")
    }


def alter(control: Control, operation: int, **values: str | None) -> Any:
    change = IncrementalAlterConfigsRequest.AlterableConfig
    rows = [change(f"consumer.{k}.ms".replace("_", "."), operation, v) for k, v in values.items()]
    row = IncrementalAlterConfigsRequest.AlterConfigsResource(GROUP, "g", rows)
    (answer,) = control.ask(IncrementalAlterConfigsRequest([row]), 1).responses
    return answer


def test_a_group_has_its_own_pace(tmp_path: Path) -> None:
    control = Control(tmp_path)
    control.create("t")
    session, heartbeat = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
    assert configs(control) == {session: ("45000", 5), heartbeat: ("5000", 5)}
    assert alter(control, 0, heartbeat_interval="2000", session_timeout="7000").error_code == 0
    assert configs(control) == {session: ("7000", 8), heartbeat: ("2000", 8)}
    assert configs(control, "other")[session] == ("45000", 5)
    control.close()
    control = Control(tmp_path)
    assert Member(control).beat().heartbeat_interval_ms == 2000
    assert alter(control, 1, heartbeat_interval=None).error_code == 0
    assert configs(control) == {session: ("7000", 8), heartbeat: ("5000", 5)}
    row = AlterConfigsRequest.AlterConfigsResource(GROUP, "g", [])
    (answer,) = control.ask(AlterConfigsRequest([row]), 2).responses
    assert answer.error_code == 0
    assert configs(control) == {session: ("45000", 5), heartbeat: ("5000", 5)}
    control.close()


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"session_timeout": "1"}, 40),
        ({"session_timeout": "60001"}, 40),
        ({"session_timeout": "x"}, 40),
        ({"heartbeat_interval": "999"}, 40),
        ({"heartbeat_interval": "15000", "session_timeout": "15000"}, 40),
        ({"colour": "1"}, 40),
    ],
)
def test_a_pace_that_may_not_be(control: Control, values: dict[str, str], code: int) -> None:
    before = configs(control)
    answer = alter(control, 0, **values)
    assert answer.error_code == code
    assert "consumer." in answer.error_message
    assert configs(control) == before


def test_the_operator_is_held_to_the_limits_too() -> None:
    with pytest.raises(SettingInvalid, match=r"group\.consumer\.session\.timeout\.ms: got 1"):
        ConsumerGroupsConfig(session_timeout_ms=1)
    made: BrokerConfig = load(pairs=["group.consumer.assignors=range"])
    assert made.consumer_groups.assignors == "range"

"""Groups that change their protocol, empty or with members of both, as clients see them."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.groups.consumer_protocol import Subscription, TopicPartitions, assigned
from appliance.protocol.codec import encode
from tests.support.consumer_group_client import Member, described, listed, names, rejoin
from tests.support.control import Control
from tests.support.group_client import GroupClient, committed, subscription


@pytest.fixture
def control(control: Control) -> Control:
    control.create("t", 4)
    return control


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

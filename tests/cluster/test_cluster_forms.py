"""Nodes in Kafka's forms, and what anybody may have written there instead."""

from __future__ import annotations

import json

import pytest

from appliance.cluster import forms
from appliance.cluster.forms import (
    ClusterTopic,
    FormUnknown,
    LivingBroker,
    PartitionState,
    TopicConfig,
)
from appliance.cluster.notices import STATES_MAX, Notice, in_pieces, notice_from, notice_node
from appliance.cluster.requests import codes_in
from appliance.cluster.table import Table, TopicNews, merged
from appliance.config.listeners import Listeners, Protocols

ID, OTHER_ID = bytes(range(16)), bytes(range(1, 17))
TOPIC = ClusterTopic("t", ID, ((1, 2), (2, 3)), 4, {0: (3,)}, {0: (1,)})
STATE = PartitionState(1, 7, 3, (1, 2), (3,), 2, 5)
BROKER = LivingBroker(
    1, 7, Listeners.parse("CLIENTS://box:9092,SSL://[::1]:9093"),
    Protocols((("CLIENTS", "PLAINTEXT"), ("SSL", "SSL"))), "r1",
)  # fmt: skip


def test_nodes_are_read_as_they_were_written() -> None:
    assert forms.broker_from(forms.broker_node(BROKER, 1), 1, "here") == BROKER
    assert forms.topic_from(forms.topic_node(TOPIC), "t", 4, "here") == TOPIC
    assert forms.state_from(forms.state_node(STATE), 5, "here") == STATE
    configs = forms.config_from(forms.config_node({"a": "b"}), 3, "here")
    assert configs == TopicConfig({"a": "b"}, 3)


def test_nodes_have_kafkas_fields() -> None:
    state = {"version": 1, "controller_epoch": 2, "leader": 1, "leader_epoch": 3, "isr": [1, 2]}
    ours = {"leader_life": 7, "eligible": [3]}
    assert json.loads(forms.state_node(STATE)) == state | ours
    topic = json.loads(forms.topic_node(TOPIC))
    assert topic == {
        "version": 3, "topic_id": "AAECAwQFBgcICQoLDA0ODw",
        "partitions": {"0": [1, 2], "1": [2, 3]},
        "adding_replicas": {"0": [3]}, "removing_replicas": {"0": [1]},
    }  # fmt: skip
    broker = json.loads(forms.broker_node(BROKER, 1234))
    assert broker == {
        "version": 5, "host": "box", "port": 9092, "rack": "r1", "jmx_port": -1, "features": {},
        "endpoints": ["CLIENTS://box:9092", "SSL://[::1]:9093"], "timestamp": "1234", "life": 7,
        "listener_security_protocol_map": {"CLIENTS": "PLAINTEXT", "SSL": "SSL"},
    }  # fmt: skip


def test_kafkas_own_nodes_are_read() -> None:
    broker = b'{"version":1,"host":"box","port":9092,"jmx_port":-1,"timestamp":"1"}'
    found = forms.broker_from(broker, 4, "here")
    assert (str(found.listeners), found.life, found.rack) == ("PLAINTEXT://box:9092", 0, "")
    state = b'{"controller_epoch":7,"leader":-1,"version":1,"leader_epoch":4,"isr":[1,2]}'
    assert forms.state_from(state, 9, "here") == PartitionState(-1, 0, 4, (1, 2), (), 7, 9)


def state_with(**fields: object) -> bytes:
    return json.dumps(json.loads(forms.state_node(STATE)) | fields).encode()


def topic_with(**fields: object) -> bytes:
    return json.dumps(json.loads(forms.topic_node(TOPIC)) | fields).encode()


def broker_with(**fields: object) -> bytes:
    return json.dumps(json.loads(forms.broker_node(BROKER, 1)) | fields).encode()


STATES = {
    b"": "wanted JSON, got",
    b"\xff\x00": "wanted JSON",
    b"[" * 100_000: "wanted JSON",
    b"7": "wanted fields, got int",
    b"{}": "version is missing, wanted a number from 0 to 2147483647",
    state_with(version=2): "has version 2, and this appliance knows up to 1: a newer program",
    state_with(version="1"): "version is 1, wanted a number",
    state_with(leader=-2): "leader is -2, wanted a number from -1 to 2147483647",
    state_with(leader=True): "leader is True",
    state_with(leader=1.0): "leader is 1.0",
    state_with(leader=2**31): "leader is 2147483648",
    state_with(leader_epoch=None): "leader_epoch is missing",
    state_with(leader_life=-1): "leader_life is -1",
    state_with(isr={}): "isr is {}, wanted a list of at most 64 brokers",
    state_with(isr=[1, 1]): "wanted each broker once",
    state_with(isr=["1"]): "wanted brokers from 0",
    state_with(isr=[*range(65)]): "wanted a list of at most 64",
    state_with(eligible=[-1]): "eligible is",
}  # fmt: skip


@pytest.mark.parametrize("data", STATES, ids=range(len(STATES)))
def test_a_foreign_state_is_told_in_words(data: bytes) -> None:
    with pytest.raises(FormUnknown) as unknown:
        forms.state_from(data, 1, "/x/state")
    assert str(unknown.value).startswith("/x/state in ZooKeeper")
    assert STATES[data] in str(unknown.value)
    assert len(str(unknown.value)) < 400


TOPICS = {
    topic_with(version=4): "has version 4, and this appliance knows up to 3",
    topic_with(topic_id=None): "topic_id is missing",
    topic_with(topic_id="x"): "topic_id is x, wanted 22 letters of base64",
    topic_with(topic_id="ä" * 22): "wanted 22 letters of base64",
    topic_with(partitions={"1": [1]}): "wanted numbers from 0 without a gap",
    topic_with(partitions={"0": []}): "one without replicas",
    topic_with(partitions={"-1": [1]}): "wanted numbers of partitions",
    topic_with(partitions={"9" * 5000: [1]}): "wanted numbers of partitions",
    topic_with(partitions=[[1]]): "wanted brokers of at most 100000 partitions",
    topic_with(adding_replicas={"0": "1"}): "adding_replicas is 1",
}


@pytest.mark.parametrize("data", TOPICS, ids=range(len(TOPICS)))
def test_a_foreign_topic_is_told_in_words(data: bytes) -> None:
    with pytest.raises(FormUnknown) as unknown:
        forms.topic_from(data, "t", 1, "/t")
    assert TOPICS[data] in str(unknown.value)


BROKERS = {
    broker_with(version=6): "a newer program wrote it",
    broker_with(endpoints=["nothing"]): "wanted NAME://HOST:PORT",
    broker_with(endpoints=["X://h:99999"]): "wanted NAME://HOST:PORT",
    broker_with(endpoints="X://h:1"): "endpoints is",
    broker_with(endpoints=[], host=7): "host is 7",
    broker_with(endpoints=[], port=-1): "port is -1",
    broker_with(listener_security_protocol_map={"A": 1}): "wanted texts",
    broker_with(rack="r" * 300): "rack is",
    broker_with(life="1"): "life is 1",
}


@pytest.mark.parametrize("data", BROKERS, ids=range(len(BROKERS)))
def test_a_foreign_broker_is_told_in_words(data: bytes) -> None:
    with pytest.raises(FormUnknown) as unknown:
        forms.broker_from(data, 1, "/b")
    assert BROKERS[data] in str(unknown.value)


# Notices

NEWS = TopicNews("t", ID, TOPIC, TopicConfig({"a": "b"}, 2), {0: STATE, 1: STATE})


def test_notices_are_read_as_they_were_written() -> None:
    for notice in (
        Notice(3, (NEWS, TopicNews("gone", OTHER_ID, is_deleted=True)), leaving={2: 9}),
        Notice(3, is_everything=True),
        Notice(3, leaving={}),
        Notice(3, stopping=9),
    ):
        assert notice_from(notice_node(notice), "here") == notice


NOTICES = {
    b'{"version":2}': "a newer program",
    b'{"version":1}': "by is missing",
    b'{"version":1,"by":1,"topics":7}': "topics is 7",
    b'{"version":1,"by":1,"topics":[7]}': "wanted topics with fields",
    b'{"version":1,"by":1,"topics":[{"name":"t"}]}': "topic_id is missing",
    b'{"version":1,"by":1,"stopping":"x"}': "stopping is x, wanted a number",
    b'{"version":1,"by":1,"leaving":[1]}': "wanted pairs of broker and life",
    b'{"version":1,"by":1,"leaving":[["a",1]]}': "wanted pairs of broker and life",
    b'{"version":1,"by":1,"leaving":[[[],1]]}': "wanted pairs of broker and life",
}
IN_TOPIC = {
    b'"states":[]': "wanted states by partition",
    b'"states":{"x":[1,{}]}': "wanted numbers of partitions",
    b'"states":{"0":[1]}': "wanted a version and a state",
    b'"states":{"0":[1,7]}': "wanted a version and a state",
    b'"states":{"0":["1",{}]}': "wanted a version and a state",
    b'"states":{"0":[1,{}]}': "leader is missing",
    b'"node":7': "node is 7",
    b'"node":{}': "node_version is missing",
    b'"config":[]': "config is []",
}
HEAD = b'{"version":1,"by":1,"topics":[{"name":"t","topic_id":"AAECAwQFBgcICQoLDA0ODw",'
NOTICES |= {HEAD + data + b"}]}": words for data, words in IN_TOPIC.items()}


@pytest.mark.parametrize("data", NOTICES, ids=range(len(NOTICES)))
def test_a_foreign_notice_is_told_in_words(data: bytes) -> None:
    with pytest.raises(FormUnknown) as unknown:
        notice_from(data, "/c")
    assert NOTICES[data] in str(unknown.value)


def test_a_large_round_takes_several_notices() -> None:
    states = dict.fromkeys(range(5000), STATE)
    partitions = ((1, 2, 3),) * 5000
    news = [TopicNews("t", ID, ClusterTopic("t", ID, partitions), states=states), NEWS]
    pieces = [*in_pieces(news)]
    for piece in pieces:
        assert len(notice_node(Notice(1, piece))) < 700_000
    found = merged(each for piece in pieces for each in piece)
    assert found == [
        TopicNews("t", ID, TOPIC, NEWS.config, {**states, **NEWS.states})
    ]
    assert max(len(each.states) for piece in pieces for each in piece) == STATES_MAX


def test_what_has_no_room_in_a_notice_has_to_be_read() -> None:
    partitions = (tuple(range(2**31 - 64, 2**31)),) * 3000
    wide = TopicNews("t", ID, ClusterTopic("t", ID, partitions))
    for piece in in_pieces([wide, NEWS]):
        data = notice_node(Notice(1, piece, leaving={2: 3}))
        assert len(data) < 1_000_000
        assert notice_from(data, "here") in (
            Notice(1, is_everything=True, leaving={2: 3}), Notice(1, (NEWS,), leaving={2: 3}),
        )  # fmt: skip


def test_answers_of_strangers_are_passed_over() -> None:
    keys = [("t", 0), ("u", 1)]
    nobody = dict.fromkeys(keys, 41)
    for answer in (None, 7, [7], [["t"]], [["t", 0, "x"]], [["t", {}, 0]], [["none", 0, 0]]):
        assert codes_in(answer, keys) == nobody
    assert codes_in([["t", 0, 0], [[], 0, 0]], keys) == nobody | {("t", 0): 0}


# The table


def test_older_news_change_nothing() -> None:
    table = Table()
    table.apply(NEWS)
    changes = table.take_changes()
    assert (changes.names, changes.keys) == ({"t"}, {("t", 0), ("t", 1)})
    older = PartitionState(2, 1, 1, (2,), version=4)
    table.apply(TopicNews("t", ID, states={0: older}))
    table.apply(TopicNews("t", OTHER_ID, states={0: PartitionState(2, 1, 9, (2,), version=99)}))
    table.apply(TopicNews("t", OTHER_ID, is_deleted=True))
    assert table.states["t", 0] == STATE
    assert not table.take_changes().names


def test_a_topic_made_again_is_another_one() -> None:
    table = Table()
    table.apply(NEWS)
    table.take_changes()
    table.apply(TopicNews("t", OTHER_ID, ClusterTopic("t", OTHER_ID, ((3,),))))
    assert table.states == {}
    assert table.configs == {}
    assert table.take_changes().keys == {("t", 0), ("t", 1)}
    table.apply(TopicNews("t", OTHER_ID, is_deleted=True))
    assert table.topics == {}


def test_what_is_not_read_is_gone_unless_it_came_meanwhile() -> None:
    table = Table()
    table.apply(NEWS)
    begun = table.begin_reading()
    table.apply(TopicNews("new", OTHER_ID, ClusterTopic("new", OTHER_ID, ((1,),))))
    table.replace([], begun)
    assert [*table.topics] == ["new"]
    assert table.states == {}


def test_what_was_deleted_while_all_was_read_does_not_come_back() -> None:
    table = Table()
    table.apply(NEWS)
    begun = table.begin_reading()
    table.apply(TopicNews("t", ID, is_deleted=True))
    table.replace([NEWS], begun)
    assert table.topics == {}
    table.apply(TopicNews("t", OTHER_ID, ClusterTopic("t", OTHER_ID, ((3,),))))
    table.replace([NEWS], begun)
    assert table.topics["t"].topic_id == OTHER_ID, "what was made anew meanwhile stays"


def test_what_is_there_again_is_believed() -> None:
    """A broker that was away takes the ids of its topics with it."""
    table = Table()
    table.apply(TopicNews("t", ID, is_deleted=True))
    table.replace([NEWS], table.begin_reading())
    assert [*table.topics] == ["t"]
    assert table.deleted == {}, "at later news its files would go"


def test_what_is_deleted_again_while_it_is_read_stays_away() -> None:
    table = Table()
    table.apply(TopicNews("t", ID, is_deleted=True))
    begun = table.begin_reading()
    table.apply(TopicNews("t", ID, is_deleted=True))
    table.replace([NEWS], begun)
    assert (table.topics, [*table.deleted]) == ({}, [ID])


def test_states_of_partitions_that_are_not_there_are_left() -> None:
    table = Table()
    table.apply(TopicNews("t", ID, TOPIC, states={7: STATE}))
    assert table.states == {}

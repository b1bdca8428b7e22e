"""Topics as clients see them: Metadata, CreateTopics, DeleteTopics, CreatePartitions,
DescribeTopicPartitions."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from appliance.protocol.messages.create_partitions import CreatePartitionsRequest
from appliance.protocol.messages.create_topics import CreateTopicsRequest
from appliance.protocol.messages.delete_topics import DeleteTopicsRequest
from appliance.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from appliance.protocol.messages.metadata import MetadataRequest
from appliance.topics.topic_rows import TopicRows
from appliance.topics.topics import Topics
from tests.support.control import Control
from tests.support.wire_client import frame_of

NO_ID = uuid.UUID(int=0)
NOT_ASKED = -(2**31)


def metadata(control: Control, *names: str, version: int = 13, **asked: Any) -> Any:
    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    return control.ask(MetadataRequest(topics=topics, **asked), version)


# Metadata


@pytest.mark.parametrize("version", range(14))
def test_metadata_tells_the_broker_and_the_topic(control: Control, version: int) -> None:
    topic = control.create("t", 3)
    answer = metadata(control, "t", version=version)
    (broker,) = answer.brokers
    advertised = control.broker.advertised
    assert (broker.node_id, broker.host, broker.port) == (1, advertised.host, advertised.port)
    assert broker.rack is None
    assert answer.controller_id == (1 if version >= 1 else -1)
    assert answer.cluster_id == (control.broker.cluster_id if version >= 2 else None)
    (row,) = answer.topics
    assert (row.error_code, row.name, row.is_internal) == (0, "t", False)
    assert row.topic_id == (topic.id if version >= 10 else NO_ID)
    assert [each.partition_index for each in row.partitions] == [0, 1, 2]
    for each in row.partitions:
        assert (each.leader_id, each.replica_nodes, each.isr_nodes) == (1, [1], [1])
        assert (each.error_code, each.offline_replicas) == (0, [])
        assert each.leader_epoch == (0 if version >= 7 else -1)


@pytest.mark.parametrize("version", range(14))
def test_metadata_of_all_and_of_none(control: Control, version: int) -> None:
    control.create("a")
    control.create("b")
    everything = MetadataRequest(topics=[] if version == 0 else None)
    assert [each.name for each in control.ask(everything, version).topics] == ["a", "b"]
    if version > 0:
        assert control.ask(MetadataRequest(topics=[]), version).topics == []


@pytest.mark.parametrize("version", range(14))
def test_metadata_makes_a_topic_that_a_client_asks_for(control: Control, version: int) -> None:
    (row,) = metadata(control, "new", version=version).topics
    assert (row.error_code, len(row.partitions)) == (0, 1)
    assert "new" in control.broker.topics


@pytest.mark.parametrize("version", range(4, 14))
def test_metadata_makes_no_topic_when_the_client_forbids_it(control: Control, version: int) -> None:
    (row,) = metadata(control, "new", version=version, allow_auto_topic_creation=False).topics
    assert (row.error_code, row.name, row.partitions) == (3, "new", [])
    assert control.broker.topics == {}


@pytest.mark.parametrize("version", range(14))
def test_metadata_makes_no_topic_when_the_broker_forbids_it(tmp_path: Path, version: int) -> None:
    control = Control(tmp_path, auto_create=False)
    (row,) = metadata(control, "new", version=version).topics
    assert row.error_code == 3
    assert control.broker.topics == {}
    control.close()


def test_a_topic_made_on_the_way_has_the_brokers_number_of_partitions(tmp_path: Path) -> None:
    control = Control(tmp_path, num_partitions=4)
    (row,) = metadata(control, "new").topics
    assert len(row.partitions) == 4
    control.close()


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ä", "x" * 250, "a/b"])
@pytest.mark.parametrize("may_create", [True, False])
def test_metadata_of_an_invalid_name_makes_nothing(
    control: Control, name: str, may_create: bool
) -> None:
    (row,) = metadata(control, name, allow_auto_topic_creation=may_create).topics
    assert (row.error_code, row.name) == (17, name)
    assert control.broker.topics == {}


def test_a_topic_that_is_named_twice_is_told_once(control: Control) -> None:
    assert [each.name for each in metadata(control, "a", "a", "b").topics] == ["a", "b"]


def test_two_clients_that_make_one_topic_both_get_it(control: Control) -> None:
    asked = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="new")])
    places = [control.queue.put(frame_of(asked, 3, 9), each) for each in (1, 2, 3)]
    control.until(lambda: set(places) <= set(control.queue.answers))
    bodies = {control.queue.answers[each] for each in places}
    assert len(bodies) == 1
    assert not control.queue.closed


@pytest.mark.parametrize("version", [12, 13])
def test_metadata_by_id(control: Control, version: int) -> None:
    topic = control.create("t")
    unknown = uuid.uuid4()
    asked = [
        MetadataRequest.MetadataRequestTopic(name=None, topic_id=each)
        for each in (topic.id, unknown)
    ]
    known, lost = control.ask(MetadataRequest(topics=asked), version).topics
    assert (known.error_code, known.name, known.topic_id) == (0, "t", topic.id)
    assert (lost.error_code, lost.name, lost.topic_id) == (100, None, unknown)


@pytest.mark.parametrize("version", [10, 11])
def test_metadata_by_id_is_refused_before_version_12(control: Control, version: int) -> None:
    topic = control.create("t")
    asked = [MetadataRequest.MetadataRequestTopic(name=None, topic_id=topic.id)]
    (row,) = control.ask(MetadataRequest(topics=asked), version).topics
    assert row.error_code == 42


@pytest.mark.parametrize("version", range(8, 14))
def test_authorized_operations_are_told_only_when_asked_for(control: Control, version: int) -> None:
    control.create("t")
    plain = metadata(control, "t", version=version)
    assert plain.topics[0].topic_authorized_operations == NOT_ASKED
    assert plain.cluster_authorized_operations == NOT_ASKED
    full = metadata(
        control,
        "t",
        "no such",
        version=version,
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    assert full.topics[0].topic_authorized_operations == 3576
    assert full.topics[1].topic_authorized_operations == NOT_ASKED
    assert full.cluster_authorized_operations == (8096 if version <= 10 else NOT_ASKED)


# CreateTopics

Creatable = CreateTopicsRequest.CreatableTopic


def create(control: Control, *topics: Any, version: int = 7, validate_only: bool = False) -> Any:
    asked = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    return control.ask(asked, version).topics


@pytest.mark.parametrize("version", range(2, 8))
def test_topics_are_made(control: Control, version: int) -> None:
    one, two = create(control, Creatable("a", 3, 1), Creatable("b", -1, -1), version=version)
    assert (one.name, one.error_code, one.error_message) == ("a", 0, None)
    assert [len(control.broker.topics[each].logs) for each in "ab"] == [3, 1]
    if version >= 5:
        assert (one.num_partitions, one.replication_factor) == (3, 1)
        assert (two.num_partitions, two.replication_factor) == (1, 1)
        configs = {each.name: each for each in one.configs}
        assert configs["retention.bytes"].value == "-1"
        assert configs["cleanup.policy"].config_source == 5
        assert len(configs) == 35
    assert one.topic_id == (control.broker.topics["a"].id if version >= 7 else NO_ID)


def test_a_topic_is_made_with_its_configs(control: Control) -> None:
    config = CreateTopicsRequest.CreatableTopicConfig("retention.ms", "1000")
    (row,) = create(control, Creatable("a", 1, 1, configs=[config]))
    assert control.broker.topics["a"].configs == {"retention.ms": "1000"}
    (shown,) = [each for each in row.configs if each.name == "retention.ms"]
    assert (shown.value, shown.config_source) == ("1000", 1)


def test_topics_of_one_request_are_told_each_its_own_configs(control: Control) -> None:
    own = [[], ["1000"], [], ["2000"], ["1000"]]
    rows = create(control, *(
        Creatable(f"t{place}", 1, 1, configs=[
            CreateTopicsRequest.CreatableTopicConfig("retention.ms", each) for each in values])
        for place, values in enumerate(own)))  # fmt: skip
    shown = [each.value for row in rows for each in row.configs if each.name == "retention.ms"]
    assert shown[0] == shown[2]
    assert shown[1::2] + shown[4:] == ["1000", "2000", "1000"]


def assigned(*holders: tuple[int, list[int]], partitions: int = -1, factor: int = -1) -> Any:
    rows = [CreateTopicsRequest.CreatableReplicaAssignment(i, brokers) for i, brokers in holders]
    return Creatable("a", partitions, factor, assignments=rows)


REFUSED = {
    "no partitions": (Creatable("a", 0, 1), 37),
    "less than no partitions": (Creatable("a", -2, 1), 37),
    "replication factor 2": (Creatable("a", 1, 2), 38),
    "replication factor 0": (Creatable("a", 1, 0), 38),
    "replication factor -2": (Creatable("a", 1, -2), 38),
    "invalid name": (Creatable("a b", 1, 1), 17),
    "Kafka's own name": (Creatable("__cluster_metadata", 1, 1), 17),
    "more partitions than allowed": (Creatable("a", 1001, 1), 44),
    "the most partitions there can be": (Creatable("a", 2**31 - 1, 1), 44),
    "unknown config": (
        Creatable("a", 1, 1, configs=[CreateTopicsRequest.CreatableTopicConfig("no.such", "1")]),
        40,
    ),
    "config out of range": (
        Creatable(
            "a", 1, 1, configs=[CreateTopicsRequest.CreatableTopicConfig("retention.ms", "-7")]
        ),
        40,
    ),
    "config without a value": (
        Creatable(
            "a", 1, 1, configs=[CreateTopicsRequest.CreatableTopicConfig("retention.ms", None)]
        ),
        40,
    ),
    "assignment with a number of partitions": (assigned((0, [1]), partitions=1), 42),
    "assignment with a replication factor": (assigned((0, [1]), factor=1), 42),
    "assignment to another broker": (assigned((0, [1]), (1, [2])), 39),
    "assignment to nobody": (assigned((0, [])), 39),
    "assignment with a gap": (assigned((0, [1]), (2, [1])), 39),
    "assignment of one partition twice": (assigned((0, [1]), (0, [1])), 39),
}


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize(("asked", "code"), REFUSED.values(), ids=REFUSED)
def test_a_topic_is_refused(control: Control, asked: Any, code: int, validate_only: bool) -> None:
    bad, good = create(control, asked, Creatable("good", 1, 1), validate_only=validate_only)
    assert (bad.error_code, bad.num_partitions, bad.configs) == (code, -1, [])
    assert bad.error_message
    assert good.error_code == 0
    assert set(control.broker.topics) == (set() if validate_only else {"good"})


def test_a_topic_is_made_as_assigned(control: Control) -> None:
    (row,) = create(control, assigned((1, [1]), (0, [1])))
    assert (row.error_code, row.num_partitions) == (0, 2)


@pytest.mark.parametrize("asked", [
    pytest.param(Creatable("a", 1, 1), id="as it is"),
    pytest.param(Creatable("a", 1, 3), id="on more brokers than live"),
    pytest.param(Creatable("a", 0, 1), id="with no partitions"),
])
def test_a_topic_that_exists_is_refused(control: Control, asked: Any) -> None:
    """By clients that make it at each start this is taken for success, other errors are not."""
    control.create("a")
    (row,) = create(control, asked)
    assert (row.error_code, row.error_message) == (36, "topic a exists already")


def test_a_topic_that_is_to_be_made_twice_is_not_made(control: Control) -> None:
    one, two = create(control, Creatable("a", 1, 1), Creatable("b", 1, 1), Creatable("a", 2, 1))
    assert (one.name, one.error_code, two.name, two.error_code) == ("a", 42, "b", 0)


def transactions(control: Control, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The catalog's from here on, as they come."""
    found: list[str] = []
    for name in ("put", "set_partitions"):
        whole = getattr(TopicRows, name)

        def counted(*given: Any, _name: str = name, _whole: Any = whole, **named: Any) -> Any:
            found.append(_name)
            return _whole(*given, **named)

        monkeypatch.setattr(TopicRows, name, counted)
    return found


def test_many_of_one_request_are_one_change_of_the_catalog(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    control.create("old")
    found = transactions(control, monkeypatch)
    names = ["a", "old", "b", "c d", "e"]
    rows = create(control, *(Creatable(each, 1, 1) for each in names))
    assert [(each.name, each.error_code) for each in rows] == [
        (name, code) for name, code in zip(names, [0, 36, 0, 17, 0], strict=True)
    ]
    topics = [CreatePartitionsRequest.CreatePartitionsTopic(each, count, None)
              for each, count in [("a", 3), ("none", 3), ("b", 1), ("e", 2)]]  # fmt: skip
    answer = control.ask(CreatePartitionsRequest(topics=topics), 3)
    assert [(each.name, each.error_code) for each in answer.results] == [
        ("a", 0), ("none", 3), ("b", 37), ("e", 0)]  # fmt: skip
    assert {each: len(control.broker.topics[each].logs) for each in "abe"} == {
        "a": 3, "b": 1, "e": 2}  # fmt: skip
    assert found == ["put", "set_partitions"]


def test_validating_makes_nothing(control: Control) -> None:
    (row,) = create(control, Creatable("a", -1, -1), validate_only=True)
    assert (row.error_code, row.num_partitions, row.topic_id) == (0, 1, NO_ID)
    assert len(row.configs) == 35
    assert control.broker.topics == {}


# DeleteTopics


@pytest.mark.parametrize("version", range(1, 7))
def test_topics_are_deleted_by_name(control: Control, version: int) -> None:
    topic = control.create("a")
    control.create("b")
    names = ["a", "missing"]
    asked = DeleteTopicsRequest(
        topic_names=names, topics=[DeleteTopicsRequest.DeleteTopicState(name=n) for n in names]
    )
    gone, missing = control.ask(asked, version).responses
    assert (gone.name, gone.error_code, gone.error_message) == ("a", 0, None)
    assert gone.topic_id == (topic.id if version >= 6 else NO_ID)
    assert (missing.name, missing.error_code) == ("missing", 3)
    assert set(control.broker.topics) == {"b"}
    assert "a" in metadata(control, "a").topics[0].name  # the name is free again


def test_topics_are_deleted_by_id(control: Control) -> None:
    topic = control.create("a")
    ids = [topic.id, uuid.uuid4()]
    rows = [DeleteTopicsRequest.DeleteTopicState(topic_id=each) for each in ids]
    gone, missing = control.ask(DeleteTopicsRequest(topics=rows), 6).responses
    assert (gone.name, gone.topic_id, gone.error_code) == ("a", topic.id, 0)
    assert (missing.name, missing.topic_id, missing.error_code) == (None, ids[1], 100)


def make_anew_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic `a`, when the request has found it and has not yet deleted it."""
    right = Topics.delete_all

    async def late(topics: Topics, wanted: Any) -> Any:
        await right(topics, {"a": None})
        await topics.create("a", 1)
        return await right(topics, wanted)

    monkeypatch.setattr(Topics, "delete_all", late)


@pytest.mark.parametrize("version", [5, 6])
def test_whichever_topic_has_the_name_is_deleted(
    control: Control, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """Only who asks by an id gives one."""
    control.create("a")
    make_anew_meanwhile(monkeypatch)
    rows = [DeleteTopicsRequest.DeleteTopicState(name="a")]
    (row,) = control.ask(DeleteTopicsRequest(rows, ["a"]), version).responses
    assert (row.error_code, control.broker.topics) == (0, {})


def test_a_topic_that_was_made_anew_is_not_deleted_by_the_id_of_the_former(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = control.create("a")
    make_anew_meanwhile(monkeypatch)
    rows = [DeleteTopicsRequest.DeleteTopicState(topic_id=topic.id)]
    (row,) = control.ask(DeleteTopicsRequest(rows), 6).responses
    assert (row.error_code, [*control.broker.topics]) == (100, ["a"])


def test_a_topic_without_name_and_id_or_with_both_is_not_deleted(control: Control) -> None:
    topic = control.create("a")
    rows = [
        DeleteTopicsRequest.DeleteTopicState(),
        DeleteTopicsRequest.DeleteTopicState(name="a", topic_id=topic.id),
    ]
    answer = control.ask(DeleteTopicsRequest(topics=rows), 6)
    assert [each.error_code for each in answer.responses] == [42, 42]
    assert "a" in control.broker.topics


def test_a_topic_that_is_to_be_deleted_twice_is_not_deleted(control: Control) -> None:
    control.create("a")
    (row,) = control.ask(DeleteTopicsRequest(topic_names=["a", "a"]), 3).responses
    assert (row.name, row.error_code) == ("a", 42)
    assert "a" in control.broker.topics


def test_a_topic_that_is_to_be_deleted_by_name_and_by_id_is_not_deleted(control: Control) -> None:
    topic = control.create("a")
    control.create("b")
    State = DeleteTopicsRequest.DeleteTopicState
    rows = [State(name="a"), State(name="b"), State(topic_id=topic.id)]
    answer = control.ask(DeleteTopicsRequest(topics=rows), 6)
    assert [(each.name, each.error_code) for each in answer.responses] == [
        ("a", 42), ("b", 0), ("a", 42)]  # fmt: skip
    assert [*control.broker.topics] == ["a"]


def test_deletion_can_be_forbidden(tmp_path: Path) -> None:
    control = Control(tmp_path, may_delete=False)
    control.create("a")
    (row,) = control.ask(DeleteTopicsRequest(topic_names=["a"]), 5).responses
    assert row.error_code == 73
    control.close()


# CreatePartitions

More = CreatePartitionsRequest.CreatePartitionsTopic
Holder = CreatePartitionsRequest.CreatePartitionsAssignment


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_added(control: Control, version: int) -> None:
    control.create("a")
    asked = CreatePartitionsRequest(
        topics=[More("a", 3, None), More("missing", 3, None)], timeout_ms=100
    )
    done, missing = control.ask(asked, version).results
    assert (done.name, done.error_code, done.error_message) == ("a", 0, None)
    assert (missing.name, missing.error_code) == ("missing", 3)
    assert len(control.broker.topics["a"].logs) == 3
    assert len(metadata(control, "a").topics[0].partitions) == 3


NOT_ADDED = {
    "fewer": (More("a", 1, None), 37),
    "as many": (More("a", 2, None), 37),
    "none": (More("a", 0, None), 37),
    "more than allowed": (More("a", 1001, None), 44),
    "assigned to another": (More("a", 3, [Holder([2])]), 39),
    "assigned too often": (More("a", 3, [Holder([1]), Holder([1])]), 39),
    "assigned to nobody": (More("a", 3, []), 39),
}


@pytest.mark.parametrize(("asked", "code"), NOT_ADDED.values(), ids=NOT_ADDED)
def test_partitions_are_not_added(control: Control, asked: Any, code: int) -> None:
    control.create("a", 2)
    (row,) = control.ask(CreatePartitionsRequest(topics=[asked]), 3).results
    assert row.error_code == code
    assert len(control.broker.topics["a"].logs) == 2


def test_adding_partitions_can_be_validated(control: Control) -> None:
    control.create("a")
    asked = CreatePartitionsRequest(topics=[More("a", 2, [Holder([1])])], validate_only=True)
    (row,) = control.ask(asked, 3).results
    assert row.error_code == 0
    assert len(control.broker.topics["a"].logs) == 1


def test_a_topic_that_is_to_grow_twice_does_not(control: Control) -> None:
    control.create("a")
    asked = CreatePartitionsRequest(topics=[More("a", 2, None), More("a", 3, None)])
    assert [each.error_code for each in control.ask(asked, 3).results] == [42]


# DescribeTopicPartitions

Described = DescribeTopicPartitionsRequest.TopicRequest
Cursor = DescribeTopicPartitionsRequest.Cursor


def describe(
    control: Control, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> Any:
    asked = DescribeTopicPartitionsRequest(
        topics=[Described(each) for each in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(*cursor),
    )
    return control.ask(asked, 0)


def test_topics_are_described_in_the_order_of_their_names(control: Control) -> None:
    topic = control.create("b", 2)
    answer = describe(control, "c c", "b", "a", "b")
    assert [(each.name, each.error_code) for each in answer.topics] == [
        ("a", 3),
        ("b", 0),
        ("c c", 17),
    ]
    row = answer.topics[1]
    assert (row.topic_id, row.topic_authorized_operations) == (topic.id, 3576)
    assert [each.partition_index for each in row.partitions] == [0, 1]
    assert row.partitions[0].eligible_leader_replicas == []
    assert answer.next_cursor is None


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 2000, 0, -1])
def test_pages_tell_every_partition_once(control: Control, limit: int) -> None:
    counts = {"a": 3, "b": 1, "c": 2}
    for name, count in counts.items():
        control.create(name, count)
    seen, cursor, pages = [], None, 0
    while True:
        answer = describe(control, limit=limit, cursor=cursor)
        pages += 1
        found = [(row.name, p.partition_index) for row in answer.topics for p in row.partitions]
        assert len(found) <= max(limit, 1)
        seen += found
        if answer.next_cursor is None:
            break
        cursor = (answer.next_cursor.topic_name, answer.next_cursor.partition_index)
    assert seen == [(name, i) for name, count in counts.items() for i in range(count)]
    assert pages == -(-6 // max(1, limit))


def test_a_page_begins_at_its_cursor_even_if_the_topic_is_gone(control: Control) -> None:
    for name in "ace":
        control.create(name)
    answer = describe(control, cursor=("b", 7))
    assert [each.name for each in answer.topics] == ["c", "e"]


def test_a_negative_cursor_is_refused(control: Control) -> None:
    control.create("a")
    (row,) = describe(control, "a", cursor=("a", -1)).topics
    assert row.error_code == 42


# What cannot be opened, and what cannot be deleted


def test_a_partition_that_cannot_be_opened_has_no_leader_and_the_others_have(
    control: Control,
) -> None:
    topic = control.create("t", 2)
    topic.logs, topic.unserved = [topic.logs[0], None], {1: "segment unreadable"}
    (row,) = metadata(control, "t").topics
    assert row.error_code == 0
    assert [(each.error_code, each.leader_id) for each in row.partitions] == [(0, 1), (5, -1)]
    assert row.partitions[1].offline_replicas == [1]
    (row,) = describe(control, "t").topics
    assert [(each.error_code, each.leader_id) for each in row.partitions] == [(0, 1), (5, -1)]
    assert create(control, Creatable("t", 1, 1))[0].error_code == 36


def test_the_name_of_a_topic_whose_files_stay_is_not_free(control: Control) -> None:
    control.broker.topics.undeleted["t"] = "t-0 cannot be moved"
    (row,) = metadata(control, "t").topics
    assert (row.error_code, row.partitions) == (56, [])
    (row,) = metadata(control, "t", allow_auto_topic_creation=False).topics
    assert row.error_code == 3
    assert create(control, Creatable("t", 1, 1))[0].error_code == 56
    assert control.broker.topics == {}


# Internal topics


def test_internal_topics_are_the_brokers_own(control: Control) -> None:
    name = "__consumer_offsets"
    new = CreateTopicsRequest.CreatableTopic(name, 3, 1)
    for validate_only in (False, True):
        asked = CreateTopicsRequest(topics=[new], validate_only=validate_only)
        assert control.ask(asked, 7).topics[0].error_code == 17
    assert metadata(control, name).topics[0].error_code == 3
    control.run(control.broker.group_places.make_offsets_topic())
    (row,) = metadata(control, name).topics
    assert (row.error_code, row.is_internal, len(row.partitions)) == (0, True, 1)
    doomed = DeleteTopicsRequest.DeleteTopicState(name)
    assert control.ask(DeleteTopicsRequest([doomed]), 6).responses[0].error_code == 17
    more = CreatePartitionsRequest.CreatePartitionsTopic(name, 9, None)
    assert control.ask(CreatePartitionsRequest([more]), 3).results[0].error_code == 17
    assert len(control.broker.topics[name].logs) == 1

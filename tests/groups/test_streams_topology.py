"""What a topology means with the topics that there are, and which topologies are refused."""

from __future__ import annotations

import time
from typing import Any

import pytest

from appliance.groups.states import GroupRefused
from appliance.groups.streams import records
from appliance.groups.streams.topics_of_topology import StatusCode, TopicsOfTopology, topics_of
from appliance.groups.streams.topology import Subtopology, Topology, check, of_rows
from appliance.protocol import ErrorCode
from appliance.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from appliance.topics.internal_topic import load_value
from tests.support.streams_group import COUNTING, internal, subtopology


def found(topology: Topology, tasks_max: int = 1000, **counts: int) -> TopicsOfTopology:
    return topics_of(topology, counts.get, tasks_max)


def of(*rows: Subtopology) -> Topology:
    return Topology(0, rows)


def test_a_repartition_topic_has_as_many_partitions_as_what_is_read_before_it() -> None:
    told = found(COUNTING, t=3)
    assert told.status is not None
    assert told.status.code == StatusCode.MISSING_INTERNAL_TOPICS
    assert told.status.text == "Internal topics are missing: counts, words"
    assert [(each.topic.name, each.partitions) for each in told.missing] == [
        ("counts", 3), ("words", 3)]
    assert told.task_counts == {"0": 3, "1": 3}
    ready = found(COUNTING, t=3, words=3, counts=3)
    assert (ready.is_ready, ready.missing) == (True, ())


def test_one_repartition_topic_may_follow_another() -> None:
    chain = of(
        subtopology("0", "t", repartition_sinks=("a",)),
        subtopology("1", repartition_sources=(internal("a"),), repartition_sinks=("b",)),
        subtopology("2", repartition_sources=(internal("b"),)),
    )
    assert found(chain, t=5).task_counts == {"0": 5, "1": 5, "2": 5}
    fixed = of(*chain.subtopologies[:1], chain.subtopologies[1]._replace(
        repartition_sources=(internal("a", 2),)), chain.subtopologies[2])
    assert found(fixed, t=5).task_counts == {"0": 5, "1": 2, "2": 2}


def test_a_long_chain_is_counted_in_no_time() -> None:
    """In the order in which each waits for the next."""
    links = [
        subtopology(f"{n:04}", repartition_sources=(internal(f"r{n + 1}"),),
                    repartition_sinks=(f"r{n}",))
        for n in range(1000)
    ]  # fmt: skip
    chain = of(*links, subtopology("last", "t", repartition_sinks=("r1000",)),
               subtopology("first", repartition_sources=(internal("r0"),)))  # fmt: skip
    begin = time.thread_time()
    assert set(found(chain, 10_000, t=3).task_counts.values()) == {3}
    assert time.thread_time() - begin < 2


def test_a_loop_that_something_enters_is_as_large_as_that() -> None:
    loop = of(
        subtopology("0", "t", repartition_sinks=("a",)),
        subtopology("1", repartition_sources=(internal("a"),), repartition_sinks=("a",)),
    )
    assert found(loop, t=4).task_counts == {"0": 4, "1": 4}


def test_source_topics_must_be_there() -> None:
    told = found(of(subtopology("0", "there", "b", "a")), there=1)
    assert told.status == (StatusCode.MISSING_SOURCE_TOPICS, "Source topics a, b are missing.")


@pytest.mark.parametrize(("rows", "counts", "text"), [
    ({}, {"a": 2, "b": 3},
     "Following topics do not have the same number of partitions: [a(2), b(3)]"),
    ({"repartition_sources": (internal("r", 3),)}, {"a": 2, "b": 2},
     "Number of partitions [3] of repartition topic [r] doesn't match number of partitions [2] "
     "of the source topic."),
])
def test_topics_of_a_copartition_group_have_equally_many_partitions(
    rows: dict[str, Any], counts: dict[str, int], text: str
) -> None:
    group = frozenset({"a", "b"}.union(each.name for each in rows.get("repartition_sources", ())))
    topology = of(subtopology("0", "a", "b", copartitioned=(group,), **rows))
    assert found(topology, **counts).status == (StatusCode.INCORRECTLY_PARTITIONED_TOPICS, text)


def test_a_repartition_topic_that_says_nothing_follows_its_copartition_group() -> None:
    topology = of(
        subtopology("0", "small", repartition_sinks=("r",)),
        subtopology("1", "large", repartition_sources=(internal("r"),),
                    copartitioned=(frozenset({"large", "r"}),)),
    )  # fmt: skip
    told = found(topology, small=2, large=6)
    assert [(each.topic.name, each.partitions) for each in told.missing] == [("r", 6)]


def test_an_internal_topic_of_another_size_is_told() -> None:
    told = found(COUNTING, t=3, words=3, counts=2)
    assert told.status == (
        StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
        "Existing topic counts has different number of partitions: expected 3, found 2",
    )


def test_more_tasks_than_the_setting_allows_are_none() -> None:
    told = found(COUNTING, tasks_max=5, t=3)
    assert told.status is not None
    assert "6 tasks" in told.status.text
    assert "group.streams.max.tasks" in told.status.text
    assert not told.missing, "nothing is made for it"


@pytest.mark.parametrize(("topology", "text"), [
    (Topology(-1, (subtopology("0", "t"),)), "must be non-negative"),
    (of(), "must have subtopologies"),
    (of(subtopology("0", "t"), subtopology("0", "u")), "the same id"),
    (of(subtopology("0")), "does not contain any source topics"),
    (of(subtopology("0", "t", changelogs=(internal("c", 2),))), "undefined partition count"),
    (of(subtopology("0", "t", changelogs=(internal("c", -2),))), "-2 partitions"),
    (of(subtopology("0", repartition_sources=(internal("r"),))), "never used as a sink"),
    (of(subtopology("0", repartition_sources=(internal("r"),), repartition_sinks=("r",))),
     "loops"),
    (of(subtopology("0", "t", changelogs=tuple(internal(f"c{n}") for n in range(4)))),
     "group.streams.max.internal.topics"),
])  # fmt: skip
def test_what_cannot_be_is_refused(topology: Topology, text: str) -> None:
    with pytest.raises(GroupRefused, match=text) as refused:
        check(topology, 3)
    assert refused.value.kafka_code == ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_a_copartition_group_names_topics_that_there_are() -> None:
    asked = StreamsGroupHeartbeatRequest
    row = asked.Subtopology("0", ["t"], copartition_groups=[asked.CopartitionGroup([1], [], [])])
    with pytest.raises(GroupRefused, match="a copartition group names topic"):
        of_rows(asked.Topology(0, [row]))


def test_a_topology_comes_back_from_its_record() -> None:
    topology = of(subtopology(
        "0", "a", "b", repartition_sources=(internal("r", 2, ("k", "v")),),
        changelogs=(internal("c"),), copartitioned=(frozenset({"b", "r"}),)))  # fmt: skip
    value = records.topology_record("g", topology).value
    assert value is not None
    assert of_rows(load_value(records.TopologyValue, value)) == topology

"""Share groups by Apache Kafka's own tools: the console consumer, kafka-share-groups, and others,
before and after the broker is killed; and our records printed by Kafka's own formatters."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.interop import kafka_jars
from tests.interop.kafka_tools import DEADLINE_S, TOOLS, KafkaTools
from tests.interop.test_groups import until
from tests.interop.test_kafka_group_tools import printed
from tests.interop.test_restart import Restarted

COUNT, PARTITIONS = 30, 3
PACE = ("--set", "group.share.heartbeat.interval.ms=1000")
STATE_FORMATTER = "group.share.ShareGroupStateMessageFormatter"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restarted]:
    with closing(Restarted(tmp_path_factory.mktemp("share"), *PACE)) as made:
        yield made


@pytest.fixture(scope="module")
def tools(
    broker: Restarted, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaTools]:
    with closing(KafkaTools(broker.address, tmp_path_factory.mktemp("classes"))) as started:
        yield started


def begin(tools: KafkaTools, name: str, *configs: str) -> str:
    """A topic with records, and a share group of the same name that will read all of it."""
    tools.must("kafka-topics", "--create", "--topic", name, "--partitions", str(PARTITIONS))
    write(tools, name, 0, COUNT)
    wanted = ",".join(["share.auto.offset.reset=earliest", *configs])
    tools.must("kafka-configs", "--alter", "--entity-type", "groups", "--entity-name", name,
               "--add-config", wanted)
    return name


def write(tools: KafkaTools, topic: str, first: int, end: int) -> None:
    lines = "".join(f"{i}:v{i}\n" for i in range(first, end))
    tools.must("kafka-console-producer", "--topic", topic, "--reader-property", "parse.key=true",
               "--reader-property", "key.separator=:", stdin=lines)


def read(tools: KafkaTools, group: str, count: int, *words: str) -> list[str]:
    said = tools.must("kafka-console-share-consumer", "--topic", group, "--group", group,
                      "--max-messages", str(count), *words)
    return said.split()


def values(first: int, end: int) -> list[str]:
    return sorted(f"v{i}" for i in range(first, end))


def rows(tools: KafkaTools, *words: str) -> list[dict[str, str]]:
    said = tools.must("kafka-share-groups", *words)
    lines = [line.split() for line in said.splitlines() if line.strip()]
    head = next((i for i, line in enumerate(lines) if line[0] == "GROUP"), len(lines))
    return [dict(zip(lines[head], line, strict=False)) for line in lines[head + 1 :]]


def offsets(tools: KafkaTools, group: str) -> dict[str, tuple[str, str]]:
    found = rows(tools, "--describe", "--group", group)
    return {row["PARTITION"]: (row["START-OFFSET"], row["LAG"]) for row in found}


def ends_of(tools: KafkaTools, topic: str) -> dict[str, str]:
    said = tools.must("kafka-get-offsets", "--topic", topic)
    return dict(line.split(":")[1:] for line in said.split())


def done(tools: KafkaTools, topic: str) -> dict[str, tuple[str, str]]:
    return {index: (end, "0") for index, end in ends_of(tools, topic).items()}


def test_the_console_consumer_reads_and_goes_on_after_a_kill(
    broker: Restarted, tools: KafkaTools
) -> None:
    group = begin(tools, "console")
    assert sorted(read(tools, group, COUNT)) == values(0, COUNT)
    assert offsets(tools, group) == done(tools, group)
    broker.kill()
    assert offsets(tools, group) == done(tools, group)
    write(tools, group, COUNT, 2 * COUNT)
    assert sorted(read(tools, group, COUNT)) == values(COUNT, 2 * COUNT)
    assert offsets(tools, group) == done(tools, group)


def test_what_is_released_comes_again_and_what_is_rejected_does_not(tools: KafkaTools) -> None:
    group = begin(tools, "refused")
    assert len(read(tools, group, COUNT, "--release")) == COUNT
    said = read(tools, group, COUNT, "--reject", "--formatter-property", "print.delivery=true")
    assert Counter(word.partition(":")[2] for word in said if ":" in word) == {"2": COUNT}
    assert offsets(tools, group) == done(tools, group)


def test_groups_are_listed_and_described(tools: KafkaTools) -> None:
    group = begin(tools, "described")
    read(tools, group, COUNT)
    assert group in tools.must("kafka-share-groups", "--list").split()
    listed = {row["GROUP"]: row for row in rows(tools, "--list", "--state", "Empty")}
    assert listed[group]["STATE"] == "Empty"
    every = tools.must("kafka-groups", "--list").splitlines()
    assert [line.split()[1:3] for line in every if line.startswith(group)] == [["Share", "share"]]
    assert group not in tools.must("kafka-consumer-groups", "--list").split()
    (state,) = rows(tools, "--describe", "--group", group, "--state", "--verbose")
    assert (state["STATE"], state["#MEMBERS"]) == ("Empty", "0")
    assert int(state["GROUP-EPOCH"]) >= 2
    said = tools.run("kafka-share-groups", "--describe", "--group", group, "--members")
    assert "has no active members" in said.said + said.complained


def test_members_at_work_are_described(
    broker: Restarted, tools: KafkaTools, tmp_path: Path
) -> None:
    group = begin(tools, "working")
    with (tmp_path / "said").open("wb") as said:
        consumer = kafka_jars.start(
            TOOLS["kafka-verifiable-share-consumer"], "--bootstrap-server", broker.address,
            "--topic", group, "--group-id", group, output=said)
        try:
            until(lambda: offsets(tools, group) == done(tools, group), "all records")
            (state,) = rows(tools, "--describe", "--group", group, "--state")
            (member,) = rows(tools, "--describe", "--group", group, "--members")
            refused = tools.run("kafka-share-groups", "--delete", "--group", group)
        finally:
            consumer.terminate()
            consumer.wait(DEADLINE_S)
    assert (state["STATE"], state["#MEMBERS"]) == ("Stable", "1")
    assert (member["HOST"], member["#PARTITIONS"]) == ("/127.0.0.1", str(PARTITIONS))
    assert member["ASSIGNMENT"] == f"{group}:0,1,2"
    assert "is not EMPTY" in refused.said + refused.complained
    events = [json.loads(line) for line in (tmp_path / "said").read_text().splitlines()
              if line.startswith("{")]
    counts = [each["count"] for each in events if each["name"] == "offsets_acknowledged"]
    assert sum(counts) == COUNT
    assert all(each["success"] for each in events if each["name"] == "offsets_acknowledged")


@pytest.mark.release("the console consumer goes on after a kill, in less")
def test_a_consumer_at_work_survives_the_broker(
    broker: Restarted, tools: KafkaTools, tmp_path: Path
) -> None:
    group = begin(tools, "survives")
    with (tmp_path / "said").open("wb") as said:
        consumer = kafka_jars.start(
            TOOLS["kafka-verifiable-share-consumer"], "--bootstrap-server", broker.address,
            "--topic", group, "--group-id", group, "--verbose", "--acknowledgement-mode", "sync",
            output=said)
        try:
            for turn in range(1, 3):
                until(lambda: offsets(tools, group) == done(tools, group), "all records")
                broker.kill()
                write(tools, group, turn * COUNT, (turn + 1) * COUNT)
            until(lambda: offsets(tools, group) == done(tools, group), "the last records")
        finally:
            consumer.terminate()
            consumer.wait(DEADLINE_S)
    events = [json.loads(line) for line in (tmp_path / "said").read_text().splitlines()
              if line.startswith("{")]
    read = {each["value"] for each in events if each["name"] == "record_data"}
    assert sorted(read) == values(0, 3 * COUNT)


def test_offsets_are_reset(broker: Restarted, tools: KafkaTools) -> None:
    group = begin(tools, "reset")
    read(tools, group, COUNT)
    tools.must("kafka-share-groups", "--reset-offsets", "--group", group, "--topic", group,
               "--to-earliest", "--dry-run")
    assert offsets(tools, group) == done(tools, group)
    tools.must("kafka-share-groups", "--reset-offsets", "--group", group, "--all-topics",
               "--to-earliest", "--execute")
    broker.kill()
    assert offsets(tools, group) == {
        index: ("0", end) for index, end in ends_of(tools, group).items()}
    assert sorted(read(tools, group, COUNT)) == values(0, COUNT)
    tools.must("kafka-share-groups", "--reset-offsets", "--group", group, "--topic",
               f"{group}:1", "--to-datetime", "2020-01-01T00:00:00.000", "--execute")
    assert {index for index, each in offsets(tools, group).items() if each[0] == "0"} == {"1"}
    tools.must("kafka-share-groups", "--reset-offsets", "--group", group, "--topic", group,
               "--to-latest", "--execute")
    assert offsets(tools, group) == done(tools, group)


def test_a_group_that_is_not_there_may_begin_with_its_offsets(tools: KafkaTools) -> None:
    group = begin(tools, "before")
    tools.must("kafka-share-groups", "--reset-offsets", "--group", group, "--topic", group,
               "--to-latest", "--execute")
    write(tools, group, COUNT, COUNT + 3)
    assert sorted(read(tools, group, 3)) == values(COUNT, COUNT + 3)


def test_offsets_and_groups_are_deleted(broker: Restarted, tools: KafkaTools) -> None:
    group = begin(tools, "deleted")
    read(tools, group, COUNT)
    tools.must("kafka-share-groups", "--delete-offsets", "--group", group, "--topic", group)
    said = tools.run("kafka-share-groups", "--describe", "--group", group)
    assert group not in [word for line in said.said.splitlines() for word in line.split()[1:2]]
    assert sorted(read(tools, group, COUNT)) == values(0, COUNT)
    tools.must("kafka-share-groups", "--delete", "--group", group)
    broker.kill()
    assert group not in tools.must("kafka-share-groups", "--list").split()
    assert sorted(read(tools, group, COUNT)) == values(0, COUNT)


def test_many_consumers_read_what_one_writes(tools: KafkaTools) -> None:
    group = begin(tools, "perf")
    said = tools.must("kafka-share-consumer-perf-test", "--topic", group, "--group", group,
                      "--num-records", str(COUNT), "--threads", "4", "--hide-header",
                      "--timeout", "20000")
    assert f", {COUNT}," in said


def test_kafkas_own_formatters_read_our_records(tools: KafkaTools) -> None:
    group = begin(tools, "formatted")
    read(tools, group, COUNT)
    kept = [row for row in printed(tools, "ShareGroupMessageFormatter")
            if row["key"]["data"]["groupId"] == group]
    of_type = {row["key"]["type"]: row["value"] for row in kept if row["value"] is not None}
    assert set(of_type) == {10, 11, 12, 13, 14, 15}
    (topic,) = of_type[15]["data"]["initializedTopics"]
    assert (topic["topicName"], sorted(topic["partitions"])) == (group, [0, 1, 2])
    assert of_type[10]["data"]["subscribedTopicNames"] == [group]
    assert of_type[10]["data"]["clientId"] == "console-share-consumer"
    assert of_type[11]["data"]["epoch"] >= of_type[14]["data"]["memberEpoch"]
    states = [row for row in printed(tools, STATE_FORMATTER, "__share_group_state")
              if row["key"]["data"]["groupId"] == group]
    last = {row["key"]["data"]["partition"]: row["value"]["data"] for row in states}
    known = [(index, batch) for index, each in last.items() for batch in each["stateBatches"]]
    assert {str(index): str(batch["lastOffset"] + 1) for index, batch in known} == (
        ends_of(tools, group))
    assert {(batch["deliveryState"], batch["deliveryCount"]) for _, batch in known} == {(2, 1)}

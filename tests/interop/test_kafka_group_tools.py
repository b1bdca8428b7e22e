"""Groups with Apache Kafka's own tools: Java consumers in groups, their offsets described, reset
and deleted, and the records of `__consumer_offsets` printed by Kafka's own formatters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.kafka_tools import KafkaTools
from tests.support.warm_broker import WarmBroker as Broker

COUNT = 30
PARTITIONS = 3
FORMATTERS = "org.apache.kafka.tools.consumer."


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaTools]:
    folder: Path = tmp_path_factory.mktemp("group-tools")
    with Broker(folder / "data", "--set", "group.initial.rebalance.delay.ms=0") as broker:
        started = KafkaTools(broker.kafka, folder)
        try:
            yield started
        finally:
            started.close()


def read_by(tools: KafkaTools, group: str, *words: str) -> str:
    """A topic with the group's name; the group has read and committed all of it."""
    tools.must("kafka-topics", "--create", "--topic", group, "--partitions", str(PARTITIONS))
    lines = "".join(f"{i}:v{i}\n" for i in range(COUNT))
    tools.must("kafka-console-producer", "--topic", group, "--reader-property", "parse.key=true",
               "--reader-property", "key.separator=:", stdin=lines)
    said = tools.must("kafka-console-consumer", "--topic", group, "--group", group,
                      "--from-beginning", "--max-messages", str(COUNT), *words)
    assert sorted(said.split()) == sorted(f"v{i}" for i in range(COUNT))
    return group


def described(tools: KafkaTools, group: str, *words: str) -> list[dict[str, str]]:
    """The rows of the table, by column."""
    said = tools.must("kafka-consumer-groups", "--describe", "--group", group, *words)
    lines = [line.split() for line in said.splitlines() if line.strip()]
    head = next(i for i, line in enumerate(lines) if line[0] == "GROUP")
    return [dict(zip(lines[head], line, strict=False)) for line in lines[head + 1 :]]


def ends_of(tools: KafkaTools, topic: str) -> dict[str, str]:
    said = tools.must("kafka-get-offsets", "--topic", topic)
    return dict(line.split(":")[1:] for line in said.split())


@pytest.mark.parametrize("strategy", ["Range", "RoundRobin", "CooperativeSticky"])
def test_a_java_consumer_reads_in_a_group(tools: KafkaTools, strategy: str) -> None:
    name = f"org.apache.kafka.clients.consumer.{strategy}Assignor"
    group = read_by(tools, f"java-{strategy}", "--command-property",
                    f"partition.assignment.strategy={name}")
    assert group in tools.must("kafka-consumer-groups", "--list").split()
    rows = described(tools, group)
    assert {row["PARTITION"]: row["CURRENT-OFFSET"] for row in rows} == ends_of(tools, group)
    assert {row["LAG"] for row in rows} == {"0"}
    (state,) = described(tools, group, "--state")
    assert (state["STATE"], state["#MEMBERS"]) == ("Empty", "0")


def test_offsets_are_moved_and_deleted(tools: KafkaTools) -> None:
    group = read_by(tools, "moved")
    tools.must("kafka-consumer-groups", "--group", group, "--topic", group, "--reset-offsets",
               "--to-earliest", "--execute")
    assert {row["CURRENT-OFFSET"] for row in described(tools, group)} == {"0"}
    again = tools.must("kafka-console-consumer", "--topic", group, "--group", group,
                       "--max-messages", str(COUNT))
    assert len(again.split()) == COUNT
    tools.must("kafka-consumer-groups", "--group", group, "--topic", f"{group}:1",
               "--delete-offsets")
    assert {row["PARTITION"] for row in described(tools, group)} == {"0", "2"}
    tools.must("kafka-consumer-groups", "--group", group, "--delete")
    assert group not in tools.must("kafka-consumer-groups", "--list").split()


def printed(
    tools: KafkaTools, formatter: str, topic: str = "__consumer_offsets"
) -> list[dict[str, Any]]:
    """All records of an internal topic that the formatter knows."""
    said = tools.must("kafka-console-consumer", "--topic", topic,
                      "--from-beginning", "--timeout-ms", "8000", "--formatter",
                      f"{FORMATTERS}{formatter}")
    found, decoder = [], json.JSONDecoder()
    while said.startswith("{"):  # JSON objects without separators
        row, end = decoder.raw_decode(said)
        found.append(row)
        said = said[end:]
    return found


def test_kafkas_own_formatters_read_our_records(tools: KafkaTools) -> None:
    group = read_by(tools, "formatted")
    found = {
        row["key"]["data"]["partition"]: row["value"]
        for row in printed(tools, "OffsetsMessageFormatter")
        if row["key"]["data"]["group"] == group
    }
    offsets = {str(i): str(each["data"]["offset"]) for i, each in found.items()}
    assert offsets == ends_of(tools, group)
    assert {each["version"] for each in found.values()} == {3}
    assert all(each["data"]["leaderEpoch"] in (0, -1) for each in found.values())
    groups = [
        row["value"]
        for row in printed(tools, "GroupMetadataMessageFormatter")
        if row["key"]["data"]["group"] == group
    ]
    stable, empty = groups[-2]["data"], groups[-1]["data"]
    assert {each["version"] for each in groups} == {3}
    assert (stable["protocolType"], stable["protocol"], stable["generation"]) == (
        "consumer", "range", 1)
    (member,) = stable["members"]
    assert member["clientId"] == "console-consumer"
    assert member["memberId"] == stable["leader"]
    assert (empty["generation"], empty["members"], empty["leader"]) == (2, [], None)

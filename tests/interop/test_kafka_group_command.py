"""kafka-consumer-groups: every action on active and inactive groups; other tools for groups."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import confluent_kafka
import pytest

from tests.interop.kafka_tools import KafkaTools
from tests.interop.test_groups import Member, until
from tests.interop.test_kafka_group_tools import described
from tests.interop.test_transactions import rows
from tests.support.warm_broker import WarmBroker as Broker

TOPIC, PARTITIONS, EACH = "numbers", 2, 10  # records in each partition
FIRST_MS = 1_700_000_000_000  # timestamps, one second apart
PROTOCOLS = {"classic": "Classic", "consumer": "Consumer"}


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaTools]:
    folder: Path = tmp_path_factory.mktemp("group-command")
    with Broker(folder / "data", "--set", "group.initial.rebalance.delay.ms=0") as broker:
        started = KafkaTools(broker.kafka, folder)
        try:
            started.must("kafka-topics", "--create", "--topic", TOPIC, "--partitions",
                         str(PARTITIONS))
            producer = confluent_kafka.Producer({"bootstrap.servers": broker.kafka})
            for i in range(PARTITIONS * EACH):
                producer.produce(TOPIC, b"%d" % i, partition=i % PARTITIONS,
                                 timestamp=FIRST_MS + i // PARTITIONS * 1000)
            assert producer.flush(30) == 0
            yield started
        finally:
            started.close()


@pytest.fixture(params=PROTOCOLS)
def working(tools: KafkaTools, request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """A group with one member that has all partitions; and its protocol."""
    group = f"{request.node.originalname}-{request.param}"
    configs = {"group_protocol": request.param, "client_id": "worker", "group_instance_id": "one"}
    with closing(Member(tools.address, group, TOPIC, **configs)) as member:
        until(lambda: len(member.values) == PARTITIONS * EACH, "all records")
        until(lambda: offsets_of(tools, group) == {str(EACH)}, "the commit")
        yield group, request.param


def offsets_of(tools: KafkaTools, group: str) -> set[str]:
    return {row["CURRENT-OFFSET"] for row in described(tools, group)}


def commit(tools: KafkaTools, group: str, offset: int) -> str:
    places = [confluent_kafka.TopicPartition(TOPIC, each, offset) for each in range(PARTITIONS)]
    settings = {"bootstrap.servers": tools.address, "group.id": group}
    with closing(confluent_kafka.Consumer(settings)) as committing:
        committing.commit(offsets=places, asynchronous=False)
    return group


# Active groups


def test_what_a_group_does_is_described(tools: KafkaTools, working: tuple[str, str]) -> None:
    group, protocol = working
    offsets = described(tools, group, "--offsets", "--verbose")
    assert [(row["PARTITION"], row["CURRENT-OFFSET"], row["LAG"]) for row in offsets] == [
        (str(each), str(EACH), "0") for each in range(PARTITIONS)]
    (member,) = described(tools, group, "--members", "--verbose")
    assert {row["CONSUMER-ID"] for row in offsets} == {member["CONSUMER-ID"]}
    assert (member["CLIENT-ID"], member["GROUP-INSTANCE-ID"], member["#PARTITIONS"]) == (
        "worker", "one", str(PARTITIONS))
    assert member["CURRENT-ASSIGNMENT"] == f"{TOPIC}:0,1"
    is_new = protocol == "consumer"
    assert (member["CURRENT-EPOCH"] == member["TARGET-EPOCH"] == "-") is not is_new
    (state,) = described(tools, group, "--state", "--verbose")
    assert (state["STATE"], state["#MEMBERS"]) == ("Stable", "1")
    # the name of the column and its value have a space
    said = tools.must("kafka-consumer-groups", "--describe", "--group", group, "--state")
    assert (" uniform " if is_new else " range ") in said


def test_groups_are_listed_by_state_and_type(tools: KafkaTools, working: tuple[str, str]) -> None:
    group, protocol = working
    resting = commit(tools, f"resting-{protocol}", 1)

    def listed(*words: str) -> dict[str, dict[str, str]]:
        said = tools.must("kafka-consumer-groups", "--list", *words)
        return {row.pop("GROUP"): row for row in rows(said)}

    kind = PROTOCOLS[protocol]
    both = listed("--state", "--type")
    assert both[group] == {"TYPE": kind, "STATE": "Stable"}
    assert both[resting] == {"TYPE": "Classic", "STATE": "Empty"}
    assert group not in listed("--state", "Empty")
    assert resting in listed("--state", "Empty")
    assert listed("--type", protocol)[group] == {"TYPE": kind}
    groups = {row["GROUP"]: row for row in rows(tools.must("kafka-groups", "--list"))}
    assert groups[group] == {"GROUP": group, "TYPE": kind, "PROTOCOL": "consumer"}


def test_a_group_at_work_is_left_alone(tools: KafkaTools, working: tuple[str, str]) -> None:
    group, _ = working
    for words, why in {
        ("--delete",): "GroupNotEmptyException",
        ("--delete-offsets", "--topic", TOPIC): "GroupSubscribedToTopicException",
        ("--reset-offsets", "--to-earliest", "--topic", TOPIC, "--execute"):
            "is inactive, but the current state is Stable",
    }.items():
        ended = tools.run("kafka-consumer-groups", "--group", group, *words)
        assert why in ended.said + ended.complained, words
    assert offsets_of(tools, group) == {str(EACH)}


# Inactive groups


def reset(tools: KafkaTools, group: str, *words: str) -> dict[str, str]:
    """The new offsets by partition from the tool's output."""
    said = tools.must("kafka-consumer-groups", "--group", group, "--reset-offsets", *words)
    return {row["PARTITION"]: row["NEW-OFFSET"] for row in table(said, "GROUP")}


def table(said: str, first: str) -> list[dict[str, str]]:
    """The rows below the line that begins with the name of the first column."""
    return rows(f"{first} " + said.partition(f"\n{first} ")[2])


@pytest.mark.parametrize(("mode", "offset"), [
    ("--to-earliest", 0),
    ("--to-latest", EACH),
    ("--to-current", 6),
    ("--to-offset 3", 3),
    ("--shift-by -2", 4),
    ("--shift-by 100", EACH),  # not beyond the log end
    ("--by-duration PT1H", EACH),  # all records are older
    ("--to-datetime 2023-11-14T22:13:25.000", 5),  # five seconds after the first
    ("--to-datetime 2100-01-01T00:00:00.000", EACH),
])  # fmt: skip
def test_offsets_are_reset(tools: KafkaTools, mode: str, offset: int) -> None:
    group = commit(tools, f"reset{mode.replace(' ', '')}", 6)
    words = (*mode.split(), "--topic", f"{TOPIC}:1")
    assert reset(tools, group, *words, "--dry-run") == {"1": str(offset)}
    assert offsets_of(tools, group) == {"6"}
    assert reset(tools, group, *words, "--execute") == {"1": str(offset)}
    found = {row["PARTITION"]: row["CURRENT-OFFSET"] for row in described(tools, group)}
    assert found == {"0": "6", "1": str(offset)}


def test_offsets_go_through_a_file(tools: KafkaTools, tmp_path: Path) -> None:
    group = commit(tools, "exported", 7)
    words = ("--group", group, "--reset-offsets")
    said = tools.must("kafka-consumer-groups", *words, "--to-current", "--all-topics", "--export",
                      "--dry-run")
    lines = sorted(said.split())
    assert lines == [f"{TOPIC},0,7", f"{TOPIC},1,7"]
    path = tmp_path / "offsets.csv"
    path.write_text("\n".join(lines).replace(",7", ",2") + "\n")
    tools.must("kafka-consumer-groups", *words, "--from-file", str(path), "--execute")
    assert offsets_of(tools, group) == {"2"}


def test_groups_and_offsets_are_deleted(tools: KafkaTools) -> None:
    groups = [commit(tools, f"gone-{i}", 1) for i in range(2)]
    said = tools.must("kafka-consumer-groups", "--delete-offsets", "--topic", f"{TOPIC}:0",
                      "--group", groups[0])
    assert [row["STATUS"] for row in table(said, "TOPIC")] == ["Successful"]
    assert [row["PARTITION"] for row in described(tools, groups[0])] == ["1"]
    named = [word for each in (*groups, "nobody") for word in ("--group", each)]
    said = tools.must("kafka-consumer-groups", "--delete", *named)
    assert "Group 'nobody' could not be deleted due to: " in said
    assert "GroupIdNotFoundException" in said
    assert not {*groups} & {*tools.must("kafka-consumer-groups", "--list").split()}
    assert "GroupIdNotFoundException" in str(
        tools.run("kafka-consumer-groups", "--describe", "--group", groups[0]))


# Other tools


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_verifiable_consumer_commits_what_it_read(tools: KafkaTools, protocol: str) -> None:
    group = f"verifiable-{protocol}"
    said = tools.must("kafka-verifiable-consumer", "--topic", TOPIC, "--group-id", group,
                      "--group-protocol", protocol, "--reset-policy", "earliest",
                      "--max-messages", str(PARTITIONS * EACH))
    told = [json.loads(line) for line in said.splitlines()]
    read = [each for each in told if each["name"] == "records_consumed"]
    assert sum(each["count"] for each in read) == PARTITIONS * EACH
    assert all(each["success"] for each in told if each["name"] == "offsets_committed")
    assert offsets_of(tools, group) == {str(EACH)}


def test_an_application_of_streams_is_reset(tools: KafkaTools) -> None:
    application = commit(tools, "application", 6)
    store = f"{application}-words-changelog"
    tools.must("kafka-topics", "--create", "--topic", store)
    tools.must("kafka-streams-application-reset", "--application-id", application,
               "--input-topics", TOPIC, "--to-offset", "4", "--force")
    assert offsets_of(tools, application) == {"4"}
    assert store not in tools.must("kafka-topics", "--list").split()

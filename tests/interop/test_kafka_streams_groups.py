"""Groups of Kafka Streams with Apache Kafka's own tool, `kafka-streams-groups.sh`; an application
of the classic protocol comes over to the newer one and goes back."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from subprocess import Popen
from threading import Event
from typing import Any

import pytest

from tests.interop import kafka_jars
from tests.interop.kafka_tools import KafkaTools
from tests.interop.test_streams import PER_LINE, WORDS, Counts, word_count, write_lines
from tests.interop.test_transactions import created
from tests.support.logs import until
from tests.support.remote_control import RemoteControl
from tests.support.streams_group_client import Member, counting
from tests.support.warm_broker import WarmBroker as Broker

GROUP = "word-count"
PARTITIONS = 2
LINES = [" ".join(WORDS[:PER_LINE])] * 20
WORDS_READ = len(LINES) * PER_LINE
DEADLINE_S = 90
STREAMS, CLASSIC = "group.protocol=streams", "group.protocol=classic"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    folder: Path = tmp_path_factory.mktemp("streams-groups")
    with Broker(folder / "data") as made:
        for topic in ("lines", "counts"):
            created(made.kafka, topic, PARTITIONS)
        yield made


@pytest.fixture(scope="module")
def tools(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaTools]:
    with closing(KafkaTools(broker.kafka, tmp_path_factory.mktemp("tools"))) as made:
        yield made


def told(tools: KafkaTools, *words: str) -> list[dict[str, str]]:
    """The rows of the table, by column."""
    said = tools.must("kafka-streams-groups", *words)
    lines = [line.split() for line in said.splitlines() if line.strip()]
    head = next(i for i, line in enumerate(lines) if line[0] == "GROUP")
    return [dict(zip(lines[head], line, strict=False)) for line in lines[head + 1 :]]


def group_of(broker: Broker) -> dict[str, Any]:
    found: dict[str, Any] = broker.get(f"/api/v1/groups/{GROUP}")[1]
    return found


def stop(program: Popen[bytes]) -> None:
    assert program.stdin is not None
    program.stdin.close()
    assert program.wait(DEADLINE_S) == 0


@pytest.mark.release("tests/groups/test_streams_records.py has the bytes that Kafka read here")
def test_kafka_reads_the_records_of_such_a_group(tmp_path: Path) -> None:
    """Of all kinds; with them it could go on."""
    settings = {"group.streams.initial.rebalance.delay.ms": "0",
                "group.streams.num.standby.replicas": "1"}  # fmt: skip
    options = [word for pair in settings.items() for word in ("--set", "=".join(pair))]
    with Broker(tmp_path / "data", *options) as broker:
        created(broker.kafka, "t", PARTITIONS)
        host, port = broker.kafka.split(":")
        with closing(RemoteControl((host, int(port)))) as control:
            members = [Member(control, each, counting()) for each in ("one", "two")]
            until(lambda: [counts(each) for each in members] == [True, True], DEADLINE_S)
            epoch = members[0].epoch
    (log,) = (tmp_path / "data").rglob("__consumer_offsets-0/*.log")
    said = kafka_jars.must_run("org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder",
                               "--files", str(log))
    found = {}
    for key, value in re.findall(r"key: (\{.*?\}) payload: (\{.*\})$", said, re.MULTILINE):
        found[int(json.loads(key)["type"])] = json.loads(value)["data"]
    assert found.keys() == {17, 19, 20, 21, 22, 23}
    assert (found[17]["epoch"], found[20]["assignmentEpoch"]) == (epoch, epoch)
    assert (found[22]["memberEpoch"], found[22]["state"]) == (epoch, 1)
    assert [each["assignmentEpochs"] for each in found[22]["activeTasks"]] == [[epoch], [epoch]]


def counts(member: Member) -> bool:
    """It has its tasks, and a copy of the other's."""
    member.beat()
    return all(member.tasks[role] for role in ("active_tasks", "standby_tasks"))


@pytest.mark.release("tests/api/test_handlers_streams_groups.py has the answers, without a JVM")
def test_the_tool_lists_describes_resets_and_deletes(
    broker: Broker, tools: KafkaTools, tmp_path: Path
) -> None:
    write_lines(broker.kafka, LINES, Event())
    with closing(Counts(broker.kafka)) as counts:
        for number, protocol in enumerate((CLASSIC, STREAMS, CLASSIC, STREAMS), 1):
            (folder := tmp_path / str(number)).mkdir()
            with word_count(broker.kafka, folder, protocol) as program:
                write_lines(broker.kafka, LINES, Event())
                counts.read_up_to(WORDS_READ * (number + 1), DEADLINE_S)
                if number == 2:
                    check_running(broker, tools)
                stop(program)
            until(lambda: group_of(broker)["state"] == "Empty", DEADLINE_S)
    each_word = Counter(" ".join(LINES).split())
    wanted = {word: [*range(1, each_word[word] * 5 + 1)] for word in WORDS}
    assert counts.steps == wanted, "what the other protocol has committed is not counted again"
    check_stopped(broker, tools)


def check_running(broker: Broker, tools: KafkaTools) -> None:
    assert tools.must("kafka-streams-groups", "--list").split() == [GROUP]
    describe = ("--describe", "--group", GROUP)
    until(lambda: told(tools, *describe, "--state")[0]["STATE"] == "Stable", DEADLINE_S)
    (state,) = told(tools, *describe, "--state", "--verbose")
    assert (state["#MEMBERS"], state["GROUP-EPOCH"]) == ("1", state["TARGET-ASSIGNMENT-EPOCH"])
    members = tools.must("kafka-streams-groups", *describe, "--members", "--verbose")
    assert "ACTIVE: 0:[0,1]; 1:[0,1]" in members
    topics = {row["TOPIC"] for row in told(tools, *describe)}
    assert topics == {"lines", f"{GROUP}-words-repartition"}
    refused = tools.run("kafka-streams-groups", "--delete", "--group", GROUP)
    assert "is not EMPTY" in refused.said + refused.complained
    group = group_of(broker)
    (member,) = group["member_rows"]
    assert (group["protocol"], group["assignor"], group["state"]) == ("streams", "sticky", "Stable")
    assert member["tasks"]["active"] == ["0_0", "0_1", "1_0", "1_1"]
    assert member["partitions"]["lines"] == [0, 1]


def check_stopped(broker: Broker, tools: KafkaTools) -> None:
    tools.must("kafka-streams-groups", "--group", GROUP, "--reset-offsets", "--input-topic",
               "lines", "--to-earliest", "--execute")
    offsets = group_of(broker)["offsets"]  # the tool shows those of members alone
    assert {row["committed"] for row in offsets if row["topic"] == "lines"} == {0}
    tools.must("kafka-streams-groups", "--group", GROUP, "--delete-offsets", "--input-topic",
               "lines")
    assert all(row["committed"] is None for row in group_of(broker)["offsets"]
               if row["topic"] == "lines")
    tools.must("kafka-streams-groups", "--delete", "--group", GROUP)
    assert tools.must("kafka-streams-groups", "--list").split() == []

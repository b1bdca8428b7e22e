"""The admin port and the bulk port of one broker, about partitions that others lead or have."""

from __future__ import annotations

import json
import re
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer, TopicPartition

from appliance.cli.main import main
from appliance.zookeeper.server import ZooKeeperServer
from appliance_spark.columns import Column
from appliance_spark.endpoint import Endpoint
from appliance_spark.fetching import Fetching, Source
from appliance_spark.planning import Split
from tests.support.logs import until
from tests.support.rest import Rest
from tests.support.three_brokers import DEADLINE_S, Brokers, brokers

ALL = {"from": "oldest", "limit": "1000"}


@pytest.fixture
def two(
    server: ZooKeeperServer, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Brokers]:
    root = "/tests/" + re.sub(r"\W", "-", request.node.name)
    with brokers(server, root, tmp_path) as found:
        found.start(1, 2)
        yield found


def rest(cluster: Brokers, node: int) -> Rest:
    return Rest(cluster.running[node].admin)


def made(cluster: Brokers, topic: str, partitions: int, factor: int) -> dict[int, int]:
    """Who leads each."""
    cluster.create(topic, partitions=partitions, factor=factor)
    leaders = {}
    for each in range(partitions):
        found = cluster.until(
            topic, lambda it: it.leader != -1 and len(it.isrs) == factor, each
        )
        leaders[each] = found.leader
    assert {*leaders.values()} == {1, 2}
    return leaders


def bounds(cluster: Brokers, topic: str, partition: int) -> Any:
    """As the leader has it: the log's start, and the high watermark."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "nobody"})
    found = consumer.get_watermark_offsets(TopicPartition(topic, partition), DEADLINE_S)
    consumer.close()
    return found


def values(answer: Any) -> list[str]:
    return sorted(each["value"]["text"] for each in answer["messages"])


def said(cluster: Brokers, node: int, *words: str) -> str:
    admin = {"APPLIANCE_ADMIN_ADDRESS": cluster.running[node].admin}
    found = CliRunner().invoke(main, [*words], env=admin, catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.output


def test_one_broker_answers_for_partitions_that_another_leads(two: Brokers) -> None:
    assert "created" in said(two, 1, "topic", "create", "of-two", "--replication-factor", "2")
    two.until("of-two", lambda found: len(found.isrs) == 2)
    described = said(two, 1, "topic", "describe", "of-two")
    assert re.search(r"\b(1 2|2 1) +(1 2|2 1) +1 +ok\b", described)
    leaders = made(two, "t", 2, 2)
    one = rest(two, 1)
    wanted = [{"partition": each, "value": {"text": f"p{each}"}} for each in leaders]
    told = one.post("/topics/t/messages", {"messages": wanted})["produced"]
    assert told == [{"partition": 0, "offset": 0}, {"partition": 1, "offset": 0}]
    for each in leaders:
        assert two.everything("t", each) == [f"p{each}"]
        two.produce("t", ["more"] * 50, each)
        # at once: a follower's word may not be older than what was acknowledged
        found = one.get("/topics/t/messages", partition=each, **ALL)
        assert (len(found["messages"]), found["problems"]) == (51, [])
    plan = one.get("/topics/t/plan", prefix="/export/v1")
    assert [each["end"] for each in plan["partitions"]] == [51, 51]

    group = two.member("g", "t")
    group.take(102)
    group.commit()
    group.close()
    coordinator = rest(two, two.coordinator("g"))
    told = coordinator.post("/groups/g/reset", {"to": "earliest", "dry_run": False})["partitions"]
    assert [(each["start"], each["before"], each["after"], each["end"]) for each in told] == [
        (0, 51, 0, 51)] * 2  # fmt: skip
    for time_ms, after in ((1, 0), (1 << 50, 51)):
        told = coordinator.post("/groups/g/reset", {"to": "time", "time_ms": time_ms})["partitions"]
        assert [each["after"] for each in told] == [after] * 2

    emptied = one.post("/topics/t/empty")["partitions"]
    assert [(each["from_offset"], each["to_offset"]) for each in emptied] == [(0, 51), (0, 51)]
    assert [bounds(two, "t", each) for each in leaders] == [(51, 51), (51, 51)]


@pytest.mark.release("two brokers are started again, for what is refused")
def test_what_is_not_on_a_broker_is_named_with_who_has_it(two: Brokers) -> None:
    leaders = made(two, "t", 2, 1)
    mine = next(each for each, node in leaders.items() if node == 1)
    other = 1 - mine
    one = rest(two, 1)
    body = {"messages": [{"partition": each, "value": {"text": f"p{each}"}} for each in leaders]}
    one.post("/topics/t/messages", body)  # also where nothing is here
    found = one.get("/topics/t/messages", **ALL)
    assert values(found) == [f"p{mine}"]
    (away,) = found["problems"]
    where = f"t-{other} is led by broker 2 ({two.address(2)})"
    assert (away["partition"], away["what"]) == (other, f"not on this broker: {where}")
    decoded = f"/export/v1/topics/t/partitions/{other}/batches?format=jsonl"
    for path in ("/api/v1/topics/t/range", "/api/v1/topics/t/export", decoded):
        answer = one.raw("GET", path)
        assert answer.status == 421, path
        assert where in answer.body["error"]["message"], path
    live = f"http://{one.admin}/api/v1/topics/t/messages/live"
    with urllib.request.urlopen(live, timeout=DEADLINE_S) as stream:
        while stream.readline() != b"event: elsewhere\n":
            pass
        told = json.loads(stream.readline().partition(b": ")[2])
    assert told == {"partitions": [{"partition": other, "where": where}]}
    hold = {"topic": "t", "offsets": {f"{mine}": 0}}
    assert one.ask("PUT", "/holds/x", hold, prefix="/export/v1").status == 200
    made(two, "shared", 2, 2)
    refused = one.ask("PUT", "/holds/y", {**hold, "topic": "shared"}, prefix="/export/v1")
    assert (refused.status, refused.body["error"]["code"]) == (403, "policy_violation")

    two.stop(2, signal.SIGKILL)
    two.until("t", lambda it: it.leader == -1, other)
    answer = one.ask("POST", "/topics/t/messages", body)
    assert (answer.status, answer.body["error"]["code"]) == (421, "not_leader_or_follower")
    assert two.everything("t", mine) == [f"p{mine}"]  # nothing of it was written
    assert one.ask("POST", "/topics/t/empty").status == 421
    assert one.ask("GET", "/topics/t/plan", prefix="/export/v1").status == 421
    assert two.everything("t", mine) == [f"p{mine}"]


@pytest.mark.release("plans and streams of one broker are in tests/spark/test_spark_fetching.py")
def test_spark_reads_all_partitions_at_one_broker(two: Brokers) -> None:
    leaders = made(two, "t", 2, 1)
    wanted = {}
    for each in leaders:
        wanted[each] = [f"p{each}-{i}" for i in range(500)]
        two.produce("t", wanted[each], each)
    producer = Producer({"bootstrap.servers": two.bootstrap, "transactional.id": "x"})
    producer.init_transactions(DEADLINE_S)
    for end, text in ((producer.abort_transaction, "not"), (producer.commit_transaction, "yes")):
        producer.begin_transaction()
        for each in leaders:
            producer.produce("t", text, partition=each)
        producer.flush(DEADLINE_S)  # else an abort takes back what was not sent
        end(DEADLINE_S)
    endpoint = Endpoint(f"http://{two.running[1].admin}", "", 3)
    plan = endpoint.plan("t", "earliest", "latest", 6, "read_committed")
    assert [each["end"] - each["start"] for each in plan["partitions"]] == [504, 504]
    columns = (Column("offset", False), Column("value", True))
    found: dict[int, list[str]] = {each: [] for each in leaders}
    for each in plan["splits"]:
        source = Source(endpoint, "read_committed", True, columns)
        split = Split("t", each["partition"], each["start"], each["end"], plan["topic_id"],
                      plan["url"])  # fmt: skip
        for batch in Fetching(source, split).batches():
            found[each["partition"]] += [it.decode() for it in batch["value"].to_pylist()]
    assert found == {each: [*wanted[each], "yes"] for each in leaders}
    assert {each["partition"] for each in plan["splits"]} == {0, 1}
    assert len(plan["splits"]) >= 4


@pytest.mark.release("two brokers are started again, for what one of them does not tell any more")
def test_the_lag_of_a_group_has_what_is_on_other_brokers_alone(two: Brokers) -> None:
    leaders = made(two, "t", 2, 1)
    for each in leaders:
        two.produce("t", ["a"] * 10, each)
    group = two.member("g", "t")
    group.take(20)
    group.commit()
    group.close()
    for each in leaders:
        two.produce("t", ["b"] * 5, each)
    node = two.coordinator("g")
    coordinator = rest(two, node)
    told = coordinator.get("/groups/g")
    assert [(each["committed"], each["start"], each["end"], each["lag_records"])
            for each in told["offsets"]] == [(10, 0, 15, 5)] * 2  # fmt: skip
    assert (told["lag_records"], told["unknown_partitions"]) == (10, 0)
    assert "10 records behind" in said(two, node, "group", "describe", "g")
    (away,) = [each for each, leader in leaders.items() if leader != node]
    two.stop(3 - node, signal.SIGKILL)
    until(lambda: coordinator.get("/groups/g")["unknown_partitions"] == 1, 60)
    told = coordinator.get("/groups/g")
    assert told["lag_records"] == 5
    (row,) = [each for each in told["offsets"] if each["partition"] == away]
    assert (row["end"], row["end_unknown"], row["lag_records"]) == (None, True, None)
    assert "1 partition in no sum" in said(two, node, "group", "describe", "g")

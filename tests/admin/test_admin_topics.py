"""Of a topic over REST: configs in words, who reads and writes it, and several topics at once."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from appliance.testing import RunningBroker
from tests.support.rest import Rest

WAIT_S = 20.0
DAY_MS = 86_400_000


@pytest.fixture
def rest(appliance_broker: RunningBroker) -> Rest:
    return Rest(appliance_broker.admin)


def make(rest: Rest, *names: str, **configs: str) -> None:
    for each in names:
        rest.post("/topics", {"name": each, "partitions": 2, "configs": configs})


def config(rest: Rest, topic: str, name: str) -> Any:
    rows = rest.get(f"/topics/{topic}")["configs"]
    return next(each for each in rows if each["name"] == name)


# Configs


def test_a_config_is_written_and_read_in_words(rest: Rest) -> None:
    made = rest.post("/topics", {"name": "t", "configs": {"retention.ms": "3d"}})
    assert (made["retention_ms"], made["kept"]) == (3 * DAY_MS, "3 d")
    changed = rest.ask("PATCH", "/topics/t", {"configs": {"retention.bytes": "1 GiB"}}).body
    assert changed["kept"] == "3 d or 1 GiB"
    row = config(rest, "t", "retention.ms")
    assert (row["value"], row["words"]) == (str(3 * DAY_MS), "3 d")
    assert (row["broker_value"], row["broker_words"]) == (str(7 * DAY_MS), "7 d")
    assert "also as 3d" in row["accepts"]
    status, code = rest.refused("PATCH", "/topics/t", {"configs": {"retention.ms": "3 GB"}})
    assert (status, code) == (400, "invalid_config")


def test_configs_stand_in_groups_and_those_without_effect_apart(rest: Rest) -> None:
    rows = rest.get("/topic-configs")["configs"]
    groups = list(dict.fromkeys(each["group"] for each in rows))
    assert groups[0] == "Retention"
    assert groups[-1] == "No effect here"
    by_name = {each["name"]: each for each in rows}
    assert by_name["min.insync.replicas"]["group"] == "No effect here"  # on one box
    assert by_name["cleanup.policy"]["choices"] == ["compact", "delete"]
    assert by_name["delete.retention.ms"]["no_effect"].endswith("cleanup.policy is delete.")


def test_a_setting_of_the_broker_takes_words_too(rest: Rest) -> None:
    rows = rest.ask("PATCH", "/settings", {"configs": {"log.retention.ms": "2 d"}}).body["settings"]
    row = next(each for each in rows if each["name"] == "log.retention.ms")
    assert (row["value"], row["words"]) == (str(2 * DAY_MS), "2 d")


# Several


def results(rest: Rest, what: str, body: dict[str, Any]) -> list[tuple[str, str]]:
    answer = rest.post(f"/several-topics/{what}", body)
    assert answer["dry_run"] == body.get("dry_run", True)
    return [(each["topic"], each["outcome"]) for each in answer["results"]]


def test_several_topics_are_configured_and_each_has_its_result(rest: Rest) -> None:
    make(rest, "a", "b")
    body = {"topics": ["a", "b", "none", "__consumer_offsets"], "configs": {"retention.ms": "3d"}}
    wanted = [("a", "would be changed"), ("b", "would be changed"), ("none", "refused"),
              ("__consumer_offsets", "refused")]  # fmt: skip
    assert results(rest, "configs", body) == wanted
    assert config(rest, "a", "retention.ms")["source"] != "topic"
    done = rest.post("/several-topics/configs", {**body, "dry_run": False})["results"]
    assert [each["outcome"] for each in done] == ["changed", "changed", "refused", "refused"]
    assert done[0]["changes"] == [
        {"name": "retention.ms", "before": str(7 * DAY_MS), "after": str(3 * DAY_MS),
         "before_words": "7 d", "after_words": "3 d"}]  # fmt: skip
    assert "there is no topic 'none'" in done[2]["text"]
    assert config(rest, "b", "retention.ms")["words"] == "3 d"
    assert results(rest, "configs", {**body, "topics": ["a", "a"]}) == [("a", "unchanged")]
    back = {"topics": ["a"], "configs": {"retention.ms": None}, "dry_run": False}
    assert results(rest, "configs", back) == [("a", "changed")]
    assert results(rest, "configs", back) == [("a", "unchanged")]
    for text in ("soon", "3 GB"):
        wrong = {"topics": ["a"], "configs": {"retention.ms": text}}
        assert results(rest, "configs", wrong) == [("a", "refused")]


def test_several_topics_are_deleted_and_each_is_in_the_audit_trail(
    rest: Rest, appliance_broker: RunningBroker
) -> None:
    make(rest, "a", "b", "c")
    producer = Producer({"bootstrap.servers": appliance_broker.bootstrap})
    for _ in range(3):
        producer.produce("a", b"x" * 100)
    assert producer.flush(WAIT_S) == 0
    body: dict[str, Any] = {"topics": ["a", "none", "b"]}
    (first, *_) = rest.post("/several-topics/delete", body)["results"]
    assert first["outcome"] == "would be deleted"
    assert first["text"].startswith("3 records, ")
    assert len(rest.get("/topics")["topics"]) == 3
    done = results(rest, "delete", {**body, "dry_run": False})
    assert done == [("a", "deleted"), ("none", "refused"), ("b", "deleted")]
    assert [each["name"] for each in rest.get("/topics")["topics"]] == ["c"]
    rows = rest.get("/audit")["entries"]
    acts = [(each["action"], each["outcome"]) for each in rows if "DELETE" in each["action"]]
    assert acts == [("DELETE /api/v1/topics/b", "done"), ("DELETE /api/v1/topics/none", "failed"),
                    ("DELETE /api/v1/topics/a", "done")]  # fmt: skip


def test_a_request_has_a_bounded_number_of_topics(rest: Rest) -> None:
    names = [f"t{number}" for number in range(101)]
    for asked in (names, []):
        status, _ = rest.refused("POST", "/several-topics/delete", {"topics": asked})
        assert status == 400


# Who reads and writes it


def test_a_topic_has_consumers_with_the_lag_of_this_topic(
    rest: Rest, appliance_broker: RunningBroker
) -> None:
    make(rest, "orders", "clicks")
    producer = Producer({"bootstrap.servers": appliance_broker.bootstrap})
    for topic, count in (("orders", 5), ("clicks", 7)):
        for number in range(count):
            producer.produce(topic, b"x", partition=number % 2)
    assert producer.flush(WAIT_S) == 0
    consumer = Consumer({"bootstrap.servers": appliance_broker.bootstrap, "group.id": "billing",
                         "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe(["orders", "clicks"])
    assert consumer.consume(1, WAIT_S)
    (row,) = rest.get("/topics/orders/consumers")["groups"]
    assert (row["group"], row["members"], row["partitions"]) == ("billing", 1, 2)
    assert (row["lag_records"], row["no_commit_records"], row["unread_partitions"]) == (5, 5, 0)
    consumer.close()
    assert rest.get("/topics/clicks/consumers")["groups"] == []  # nobody has committed
    assert rest.refused("GET", "/topics/none/consumers")[0] == 404


def test_a_topic_knows_its_producers_and_what_is_open(
    rest: Rest, appliance_broker: RunningBroker
) -> None:
    make(rest, "orders", "clicks")
    bootstrap = appliance_broker.bootstrap
    plain = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    plain.produce("orders", b"x", partition=1)
    assert plain.flush(WAIT_S) == 0
    mover = Producer({"bootstrap.servers": bootstrap, "transactional.id": "mover"})
    mover.init_transactions(WAIT_S)
    mover.begin_transaction()
    for _ in range(3):
        mover.produce("orders", b"y", partition=0)
    assert mover.flush(WAIT_S) == 0
    found = rest.get("/topics/orders/producers")
    names = [each["transactional_id"] for each in found["producers"]]
    assert (found["total"], sorted(names, key=str), found["is_complete"]) == (
        2, [None, "mover"], True)  # fmt: skip
    (one,) = found["transactions"]
    assert (one["transactional_id"], one["state"]) == ("mover", "Ongoing")
    assert one["started_ms"] <= time.time() * 1000 + 1000
    assert one["partitions"] == [{"partition": 0, "first_offset": 0, "held_records": 3}]
    assert rest.get("/topics/clicks/producers")["transactions"] == []
    mover.commit_transaction(WAIT_S)
    deadline = time.monotonic() + WAIT_S
    while (after := rest.get("/topics/orders/producers"))["transactions"]:  # its markers come soon
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert [each["in_transaction"] for each in after["producers"]] == [False, False]
    del plain, mover  # while there is a broker

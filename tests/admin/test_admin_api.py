"""Topics and groups over REST, from a running broker. What it answers is compared with what Kafka's
clients and the files say, and with the document that it serves of itself."""

from __future__ import annotations

import json
import socket
import struct
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from appliance.admin import api, body_schema, health, partition_snapshot, topics
from appliance.admin.route import Param
from appliance.errors import RequestInvalid
from appliance.testing import RunningBroker, running_broker
from tests.support.rest import PREFIX, Rest, name

DEADLINE_S = 20.0


@pytest.fixture
def rest(appliance_broker: RunningBroker) -> Rest:
    return Rest(appliance_broker.admin)


def produce(broker: RunningBroker, topic: str, values: list[bytes], **facts: Any) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    for each in values:
        producer.produce(topic, each, **facts)
    assert producer.flush(DEADLINE_S) == 0


@pytest.fixture
def consumer(appliance_broker: RunningBroker) -> Iterator[Callable[..., Consumer]]:
    made: list[Consumer] = []

    def make(group: str, **settings: Any) -> Consumer:
        made.append(
            Consumer({"bootstrap.servers": appliance_broker.bootstrap, "group.id": group,
                      "auto.offset.reset": "earliest", "enable.auto.commit": False, **settings})
        )
        return made[-1]

    yield make
    for each in made:
        each.close()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# The document

def test_the_document_names_every_route_and_no_other(rest: Rest) -> None:
    served = {(each.url, each.method.lower()) for each in api.ROUTES}
    paths = rest.document["paths"]
    assert {(path, method) for path, own in paths.items() for method in own} == served
    ids = [operation["operationId"] for own in paths.values() for operation in own.values()]
    assert len(ids) == len(set(ids))


def test_every_schema_is_one(rest: Rest) -> None:
    from jsonschema import Draft202012Validator

    for own in rest.document["paths"].values():
        for operation in own.values():
            for answer in operation["responses"].values():
                for content in answer.get("content", {}).values():
                    Draft202012Validator.check_schema(content["schema"])
            if "requestBody" in operation:
                content = operation["requestBody"]["content"]["application/json"]
                Draft202012Validator.check_schema(content["schema"])


@pytest.mark.parametrize(
    ("value", "of", "text"),
    [
        ("x", int, "body: got 'x', wanted integer"),
        (True, int, "body: got True, wanted integer"),
        ([1, "x"], list[int], "body[1]: got 'x', wanted integer"),
        ({"a": {}}, dict[str, str], "body.a: got {}, wanted string"),
        (1, str | None, "body: got 1, wanted string or null"),
        ("x", Literal["a", "b"] | None, "body: got 'x', wanted one of a, b or null"),
        (-1, body_schema.Natural, "body: got -1, wanted 0 to 9223372036854775807"),
        (2**63, body_schema.Natural | None,
         "body: got 9223372036854775808, wanted 0 to 9223372036854775807 or null"),
        ({"0": -1}, dict[str, body_schema.Natural],
         "body.0: got -1, wanted 0 to 9223372036854775807"),
        ([1, 2, 3], Annotated[list[int], body_schema.Limits(1, 2)],
         "body: got 3 entries, wanted 1 to 2"),
        ([], Annotated[list[int], body_schema.Limits(1, 2)], "body: got 0 entries, wanted 1 to 2"),
        ({"name": "a", "partitions": "x"}, topics.NewTopic | None,
         "body.partitions: got 'x', wanted integer"),
        ({"name": "a", "more": 1}, topics.NewTopic,
         "body.more: no such field, wanted name, partitions, replication_factor, configs"),
    ],
)
def test_what_is_wrong_with_a_body_is_told_by_its_place(value: Any, of: Any, text: str) -> None:
    with pytest.raises(body_schema.BodyInvalid) as refused:
        body_schema.check(value, of)
    assert str(refused.value) == text


@pytest.mark.parametrize("value", [0, 2**63 - 1, None])
def test_what_is_at_a_limit_is_taken(value: Any) -> None:
    body_schema.check(value, body_schema.Natural | None)


def test_limits_are_in_the_document(rest: Rest) -> None:
    def sent(path: str, method: str, name: str) -> Any:
        content = rest.document["paths"][PREFIX + path][method]["requestBody"]["content"]
        return content["application/json"]["schema"]["properties"][name]

    days = {"type": "integer", "minimum": 1, "maximum": 3650}
    assert sent("/tokens", "post", "days") == days
    rules = sent("/acls", "post", "acls")
    assert (rules["minItems"], rules["maxItems"]) == (0, 1000)


def test_a_row_has_what_its_type_names_and_no_more() -> None:
    @dataclass
    class Kept:
        name: str
        size: int
        secret: str = "x"

    class Row(TypedDict):
        name: str
        source: str
        size_bytes: int

    wanted = {"name": "a", "source": "b", "size_bytes": 3}
    row = body_schema.row_of(Row, Kept("a", 3), size_bytes=3, source="b")
    assert [*row.items()] == [*wanted.items()], "in the order of the type"
    with pytest.raises(AttributeError, match="source"):
        body_schema.row_of(Row, Kept("a", 3), size_bytes=3)


@pytest.mark.parametrize(
    ("param", "text", "words"),
    [
        (Param("n", int, "", minimum=1, maximum=9), "0",
         "got '0', wanted a whole number from 1 to 9"),
        (Param("n", int, "", minimum=1), "x", "got 'x', wanted a whole number of at least 1"),
        (Param("n", int, ""), "1_0", "got '1_0', wanted a whole number"),
        (Param("n", int, ""), str(2**63), "got '9223372036854775808', wanted a whole number"),
        (Param("n", bool, ""), "yes", "got 'yes', wanted true or false"),
        (Param("n", str, "", choices=("a", "b")), "c", "got 'c', wanted one of a, b"),
    ],
)
def test_a_parameter_is_refused_in_words(param: Param, text: str, words: str) -> None:
    with pytest.raises(RequestInvalid) as refused:
        param.read({"n": text})
    assert str(refused.value) == f"n: {words}"


# Errors

@pytest.mark.parametrize(
    ("method", "path", "body", "wanted"),
    [
        ("GET", "/topics/none", None, (404, "unknown_topic_or_partition")),
        ("GET", "/topics/a%20b", None, (404, "unknown_topic_or_partition")),
        ("GET", "/groups/none", None, (404, "group_id_not_found")),
        ("GET", "/topics?limit=0", None, (400, "invalid_request")),
        ("GET", "/topics?limit=1e3", None, (400, "invalid_request")),
        ("GET", "/topics?size=1", None, (400, "invalid_request")),
        ("GET", "/topics?internal=yes", None, (400, "invalid_request")),
        ("POST", "/topics", {}, (400, "invalid_request")),
        ("POST", "/topics", {"name": 3}, (400, "invalid_request")),
        ("POST", "/topics", {"name": "a", "more": 1}, (400, "invalid_request")),
        ("POST", "/topics", {"name": "a/b"}, (400, "invalid_topic_exception")),
        ("POST", "/topics", {"name": "a", "partitions": 0}, (400, "invalid_partitions")),
        ("POST", "/topics", {"name": "a", "configs": {"x": "1"}}, (400, "invalid_config")),
        ("POST", "/topics", {"name": "__consumer_offsets"}, (400, "invalid_topic_exception")),
        ("DELETE", "/topics/none", None, (404, "unknown_topic_or_partition")),
        ("POST", "/groups/g/reset", {"to": "there"}, (400, "invalid_request")),
        ("POST", "/groups/g/reset", {"to": "time"}, (400, "invalid_request")),
    ],
)
def test_what_is_refused(
    rest: Rest, method: str, path: str, body: Any, wanted: tuple[int, str]
) -> None:
    bare, _, query = path.partition("?")
    parts = dict([query.split("=")]) if query else {}
    assert rest.refused(method, bare, body, **parts) == wanted


def test_a_body_must_be_json_and_not_too_large(rest: Rest) -> None:
    path = f"{PREFIX}/topics"
    for body, kind, status in (
        (b"{", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b'{"name": "a"}', "text/plain", 400),
        (b'{"name": "' + b"a" * (5 << 20) + b'"}', "application/json", 413),
    ):
        answer = rest.raw("POST", path, body, Content_Type=kind)
        assert answer.status == status
        assert set(answer.body["error"]) == {"code", "message"}
    assert rest.raw("PUT", path).status == 405
    assert rest.raw("GET", f"{PREFIX}/none").body["error"]["code"] == "not_found"


# Topics

def test_a_topic_lives_and_dies(rest: Rest, appliance_broker: RunningBroker) -> None:
    made = rest.post("/topics", {"name": "orders", "partitions": 2,
                                 "configs": {"retention.ms": "5000"}})
    assert (made["partitions"], made["retention_ms"]) == (2, 5000)
    for body in ({"name": "orders"}, {"name": "orders", "replication_factor": 3}):
        assert rest.refused("POST", "/topics", body) == (409, "topic_already_exists")
    change = {"partitions": 3, "configs": {"retention.ms": None, "max.message.bytes": "9000"}}
    changed = rest.ask("PATCH", "/topics/orders", change).body
    configs = {each["name"]: each for each in changed["configs"]}
    assert (changed["partitions"], configs["max.message.bytes"]["value"]) == (3, "9000")
    assert configs["max.message.bytes"]["source"] == "topic"
    assert configs["retention.ms"]["source"] == "default"
    listed = AdminClient({"bootstrap.servers": appliance_broker.bootstrap}).list_topics(timeout=10)
    assert len(listed.topics["orders"].partitions) == 3
    assert rest.ask("DELETE", "/topics/orders").status == 204
    assert rest.refused("GET", "/topics/orders") == (404, "unknown_topic_or_partition")


def test_a_topic_is_told_as_its_files_are(rest: Rest, appliance_broker: RunningBroker) -> None:
    rest.post("/topics", {"name": "orders", "configs": {"segment.bytes": "4000"}})
    for _ in range(20):
        produce(appliance_broker, "orders", [b"x" * 500])
    files = sorted((appliance_broker.data_dir / "orders-0").glob("*.log"))
    size = sum(each.stat().st_size for each in files)
    topic = rest.get("/topics/orders")
    (partition,) = topic["partition_rows"]
    assert (topic["records"], topic["size_bytes"], topic["segments"]) == (20, size, len(files))
    assert partition["log_end_offset"] == partition["durable_offset"] == 20
    assert partition["last_flush_ms"] > 0
    assert abs(topic["last_write_ms"] - time.time() * 1000) < 60_000
    found = rest.get("/topics/orders/partitions/0/segments")
    assert [each["file"] for each in found["segments"]] == [each.name for each in files]
    assert [each["size_bytes"] for each in found["segments"]] == [
        each.stat().st_size for each in files
    ]
    assert sum(each["records"] for each in found["segments"]) == 20
    assert [each["state"] for each in found["segments"]] == ["sealed"] * (len(files) - 1) + [
        "active"
    ]
    times = [each["first_timestamp_ms"] for each in found["segments"]]
    assert times == sorted(times)
    assert Path(found["directory"]).name == "orders-0"
    assert rest.refused("GET", "/topics/orders/partitions/1/segments")[0] == 404
    assert rest.refused("GET", "/topics/orders/partitions/x/segments")[0] == 404


def test_topics_are_filtered_sorted_and_paged(rest: Rest, appliance_broker: RunningBroker) -> None:
    for number in range(5):
        rest.post("/topics", {"name": f"topic-{number}", "partitions": number + 1})
    produce(appliance_broker, "topic-2", [b"x" * 10_000])
    time.sleep(1.1)  # a survey is a second old at most

    def names(**query: Any) -> list[str]:
        return [each["name"] for each in rest.get("/topics", **query)["topics"]]

    assert names() == [f"topic-{number}" for number in range(5)]
    assert names(order="-size_bytes", limit=1) == ["topic-2"]
    assert names(order="-partitions", limit=2) == ["topic-4", "topic-3"]
    assert names(q="PIC-3") == ["topic-3"]
    assert names(offset=3, limit=5) == ["topic-3", "topic-4"]
    page = rest.get("/topics", limit=2)
    assert (page["total"], len(page["topics"])) == (5, 2)
    assert page["unavailable"] == {}


def test_a_topic_is_emptied(rest: Rest, appliance_broker: RunningBroker) -> None:
    rest.post("/topics", {"name": "orders"})
    produce(appliance_broker, "orders", [b"x"] * 7)
    assert rest.post("/topics/orders/empty") == {
        "topic": "orders",
        "partitions": [{"partition": 0, "from_offset": 0, "to_offset": 7}],
    }
    assert rest.get("/topics/orders")["records"] == 0
    rest.post("/topics", {"name": "kept", "configs": {"cleanup.policy": "compact"}})
    assert rest.refused("POST", "/topics/kept/empty", {}) == (403, "policy_violation")


# Groups

def commit(consumer: Consumer, topic: str, offset: int) -> None:
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)


def test_a_group_is_told_with_its_members_and_lag(
    rest: Rest, appliance_broker: RunningBroker, consumer: Callable[..., Consumer]
) -> None:
    produce(appliance_broker, "orders", [b"x"] * 10)
    reader = consumer("readers", **{"client.id": "reader-1"})
    reader.subscribe(["orders"])
    until(lambda: reader.poll(0.2) is not None)
    commit(reader, "orders", 4)
    (row,) = rest.get("/groups")["groups"]
    assert row == {"group": "readers", "protocol": "classic", "state": "Stable", "members": 1,
                   "topics": ["orders"], "lag_records": 6, "lag_seconds": row["lag_seconds"],
                   "no_commit_records": 0, "no_commit_partitions": 0, "unknown_partitions": 0}
    group = rest.get("/groups/readers")
    (member,) = group["member_rows"]
    assert (member["client_id"], member["partitions"]) == ("reader-1", {"orders": [0]})
    (offset,) = group["offsets"]
    assert (offset["committed"], offset["end"], offset["lag_records"]) == (4, 10, 6)
    assert 0 < offset["lag_seconds"] == group["lag_seconds"] < 60
    assert (offset["member_id"], offset["lost_records"]) == (member["member_id"], 0)
    assert group["unread"] == []
    assert rest.refused("DELETE", "/groups/readers") == (409, "non_empty_group")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_partitions_that_a_member_has_and_never_committed_are_in_the_lag(
    tmp_path: Path, protocol: str
) -> None:
    """A reader that commits one of three partitions is behind in the other two as well."""
    with running_broker(tmp_path, {"group.lag.interval.seconds": "1"}) as broker:
        rest = Rest(broker.admin)
        rest.post("/topics", {"name": "orders", "partitions": 3})
        for partition in range(3):
            produce(broker, "orders", [b"x"] * 10, partition=partition)
        reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "readers",
                           "auto.offset.reset": "earliest", "enable.auto.commit": False,
                           "group.protocol": protocol})  # fmt: skip
        reader.subscribe(["orders"])
        until(lambda: reader.poll(0.2) is not None and len(reader.assignment()) == 3)
        (row,) = rest.get("/groups")["groups"]
        assert (row["lag_records"], row["no_commit_records"]) == (30, 30)
        commit(reader, "orders", 4)
        group = rest.get("/groups/readers")
        assert (group["lag_records"], group["topics"]) == (26, ["orders"])
        assert (group["no_commit_partitions"], group["no_commit_records"]) == (2, 20)
        told = [(each["committed"], each["no_commit_yet"], each["lag_records"], each["end"])
                for each in group["offsets"]]  # fmt: skip
        assert told == [(4, False, 6, 10), (None, True, 10, 10), (None, True, 10, 10)]
        assert {each["member_id"] for each in group["offsets"]} == {
            each["member_id"] for each in group["member_rows"]
        }
        worst = {"group": "readers", "records": 26, "no_commit_records": 20}
        until(lambda: (rest.get("/health")["most_behind"] or {}).items() >= worst.items())
        page = rest.raw("GET", "/metrics").body.decode()
        of = '{group="readers",topic="orders"}'
        assert f"appliance_group_lag_records{of} 26.0" in page
        assert f"appliance_group_no_commit_records{of} 20.0" in page
        reader.close()
        assert rest.get("/groups/readers")["lag_records"] == 6, "nobody wants the others now"


def test_lag_has_a_past(tmp_path: Path) -> None:
    with running_broker(tmp_path, {"group.lag.interval.seconds": "1"}) as broker:
        rest = Rest(broker.admin)
        produce(broker, "orders", [b"x"] * 3)
        rest.post("/groups/behind/reset", {"to": "earliest", "topics": [{"topic": "orders"}],
                                           "dry_run": False})
        until(lambda: len(rest.get("/groups/behind/lag")["topics"].get("orders", [])) > 1)
        found = rest.get("/groups/behind/lag")
        assert found["interval_s"] == 1
        first, second, *_ = found["topics"]["orders"]
        assert first["records"] == second["records"] == 3
        assert first["seconds"] < second["seconds"]
        assert rest.get("/groups")["groups"][0]["lag_seconds"] > 0
        assert rest.get("/health")["most_behind"]["group"] == "behind"
        page = rest.raw("GET", "/metrics").body.decode()
        assert 'appliance_group_lag_records{group="behind",topic="orders"} 3.0' in page
        assert 'appliance_group_lag_seconds{group="behind",topic="orders"}' in page


def test_a_group_of_the_newer_protocol_is_told(
    rest: Rest, appliance_broker: RunningBroker, consumer: Callable[..., Consumer]
) -> None:
    produce(appliance_broker, "orders", [b"x"])
    reader = consumer("newer", **{"group.protocol": "consumer"})
    reader.subscribe(["orders"])
    until(lambda: reader.poll(0.2) is not None)
    commit(reader, "orders", 1)
    group = rest.get("/groups/newer")
    assert (group["protocol"], group["assignor"]) == ("consumer", "uniform")
    assert [each["partitions"] for each in group["member_rows"]] == [{"orders": [0]}]
    assert group["lag_records"] == 0


def test_offsets_are_set_anew_after_a_dry_run(
    rest: Rest, appliance_broker: RunningBroker, consumer: Callable[..., Consumer]
) -> None:
    produce(appliance_broker, "orders", [b"x"] * 5, timestamp=1_700_000_000_000)
    produce(appliance_broker, "orders", [b"y"] * 5, timestamp=1_700_000_100_000)
    reader = consumer("readers")
    commit(reader, "orders", 7)
    path = "/groups/readers/reset"

    def after(**asked: Any) -> int:
        (row,) = rest.post(path, asked)["partitions"]
        assert row["before"] == 7
        found: int = row["after"]
        return found

    assert after(to="earliest") == 0
    assert after(to="latest") == 10
    assert after(to="offset", offset=3) == 3
    assert after(to="offset", offset=99) == 10
    assert after(to="shift", shift=-2) == 5
    assert after(to="time", time_ms=1_700_000_050_000) == 5
    assert after(to="time", time_ms=1_800_000_000_000) == 10
    assert rest.get("/groups/readers")["offsets"][0]["committed"] == 7
    done = rest.post(path, {"to": "shift", "shift": -2, "dry_run": False})
    assert not done["dry_run"]
    (committed,) = reader.committed([TopicPartition("orders", 0)], timeout=10)
    assert committed.offset == 5
    nobody = {"to": "group", "group": "nobody", "topics": [{"topic": "t"}]}
    assert rest.refused("POST", "/groups/copy/reset", nobody)[0] == 404
    copy = {"to": "group", "group": "readers", "dry_run": False}
    assert rest.post("/groups/copy/reset", copy)["partitions"][0]["after"] == 5
    assert rest.get("/groups/copy")["lag_records"] == 5


def test_a_group_with_members_is_not_reset(
    rest: Rest, appliance_broker: RunningBroker, consumer: Callable[..., Consumer]
) -> None:
    produce(appliance_broker, "orders", [b"x"])
    reader = consumer("readers")
    reader.subscribe(["orders"])
    until(lambda: reader.poll(0.2) is not None)
    answer = rest.ask("POST", "/groups/readers/reset", {"to": "earliest"})
    assert (answer.status, answer.body["error"]["code"]) == (409, "non_empty_group")
    assert "1 members" in answer.body["error"]["message"]
    reader.unsubscribe()

    def is_empty() -> bool:
        reader.poll(0.1)  # it leaves while it is polled
        return bool(rest.get("/groups/readers")["state"] == "Empty")

    until(is_empty)
    assert rest.post("/groups/readers/reset", {"to": "earliest"})["dry_run"]


def test_an_id_may_be_any_text(rest: Rest, consumer: Callable[..., Consumer]) -> None:
    rest.post("/topics", {"name": "t"})
    odd = "a/b ?&#%<b>ä"
    commit(consumer(odd), "t", 0)
    assert rest.get(f"/groups/{name(odd)}")["group"] == odd
    assert rest.ask("DELETE", f"/groups/{name(odd)}").status == 204
    assert rest.get("/groups")["total"] == 0


# Health

def test_health_is_one_sentence(rest: Rest, appliance_broker: RunningBroker) -> None:
    health = rest.get("/health")
    assert health["sentence"] == "Healthy: accepting writes, nothing was written since the start."
    produce(appliance_broker, "orders", [b"x"])
    time.sleep(1.1)
    health = rest.get("/health")
    assert health["sentence"].startswith("Healthy: accepting writes, everything is on disk, last ")
    assert (health["status"], health["findings"], health["topics"]) == ("ok", [], 1)
    assert health["listeners"]["kafka"] == appliance_broker.bootstrap
    assert health["storage"]["total_bytes"] > health["storage"]["free_bytes"] > 0
    assert health["unflushed"]["records"] == 0
    assert json.dumps(health)


def test_health_is_followed(appliance_broker: RunningBroker) -> None:
    url = f"http://{appliance_broker.admin}{PREFIX}/live"
    with urllib.request.urlopen(url, timeout=DEADLINE_S) as events:
        found: list[Any] = []
        while len(found) < 2 or (len(found) < 5 and not found[-1]["traffic"]["produce_p99_ms"]):
            if events.readline() == b"event: health\n":
                found.append(json.loads(events.readline().removeprefix(b"data: ")))
                produce(appliance_broker, "orders", [b"x" * 1000] * 50)
    first, second = found[0]["traffic"], found[-1]["traffic"]
    assert (first["received_bytes_per_s"], first["produce_p99_ms"]) == (0, None)
    assert second["received_bytes_per_s"] > 1000
    assert second["received_records_per_s"] > 1
    assert 0 < second["produce_p99_ms"] <= 10_000


def test_a_percentile_is_of_what_came_since() -> None:
    none = [0] * 17
    assert partition_snapshot.percentile(none, none) is None
    assert partition_snapshot.percentile([100, *none[1:]], []) == 0.1
    assert partition_snapshot.percentile([100, 2, *none[2:]], none) == 0.25
    assert partition_snapshot.percentile([100, 2, *none[2:]], [100, *none[1:]]) == 0.25
    assert partition_snapshot.percentile([*none[1:], 5], none) == 10_000


def test_a_page_that_is_closed_is_no_error(
    appliance_broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        with socket.create_connection(address_of(appliance_broker)) as page:
            path = f"GET {PREFIX}/live HTTP/1.1"
            page.sendall(f"{path}\r\nHost: 127.0.0.1\r\n\r\n".encode())
            assert b"200 OK" in page.recv(4096)
            page.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    time.sleep(4.5)  # two more events, which nobody takes
    assert Rest(appliance_broker.admin).get("/health")["status"] == "ok"
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == []


def address_of(broker: RunningBroker) -> tuple[str, int]:
    host, port = broker.admin.split(":")
    return host, int(port)


def test_what_follows_from_a_survey_is_worked_out_once(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    real = health.totals_of

    def counted(taken: partition_snapshot.Taken) -> health.Totals:
        made.append(id(taken))
        return real(taken)

    monkeypatch.setattr(health, "totals_of", counted)
    monkeypatch.setattr(partition_snapshot, "FRESH_SECONDS", 60.0)
    for _ in range(5):
        assert rest.get("/health")["partitions"] == 0
    assert len(made) == 1
    monkeypatch.setattr(partition_snapshot, "FRESH_SECONDS", 0.0)
    rest.get("/health")
    assert len(made) >= 2

"""Messages over REST: what is found equals what was produced, and a look is bounded."""

from __future__ import annotations

import base64
import csv
import http.client
import io
import json
import time
import urllib.parse
import urllib.request
from typing import Any

import pyarrow
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyarrow import parquet

from appliance.admin import message_filter, message_replay, message_scan, shown_message
from appliance.errors import RequestInvalid, TimedOut
from appliance.record._records import Record
from appliance.testing import RunningBroker
from tests.support.rest import PREFIX, Rest

DEADLINE_S = 20.0
PATH = "/topics/orders/messages"


@pytest.fixture
def rest(appliance_broker: RunningBroker) -> Rest:
    return Rest(appliance_broker.admin)


def producer(broker: RunningBroker, **settings: Any) -> Producer:
    return Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, **settings})


def produce(broker: RunningBroker, count: int, **settings: Any) -> None:
    made = producer(broker, **settings)
    for number in range(count):
        value = json.dumps({"id": number, "user": {"name": f"u{number % 3}"}}).encode()
        made.produce("orders", value, b"k%d" % number, timestamp=1_700_000_000_000 + number,
                     headers=[("type", b"even" if number % 2 == 0 else b"odd")])
    assert made.flush(DEADLINE_S) == 0


def offsets(answer: Any) -> list[int]:
    return [each["offset"] for each in answer["messages"]]


# Looking

@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_message_is_shown_as_it_was_sent(
    rest: Rest, appliance_broker: RunningBroker, codec: str
) -> None:
    produce(appliance_broker, 3, **{"compression.type": codec})
    found = rest.get(PATH, **{"from": "oldest"})
    assert offsets(found) == [0, 1, 2]
    one = found["messages"][1]
    assert one["key"] == {"size": 2, "form": "text", "text": "k1", "is_cut": False}
    assert (one["value"]["form"], one["value"]["text"]) == (
        "json", '{"id": 1, "user": {"name": "u1"}}')
    assert one["headers"][0]["value"]["text"] == "odd"
    assert one["timestamp_ms"] == 1_700_000_000_001
    assert (found["is_complete"], found["next"], found["left_offsets"]) == (True, None, 0)


def test_where_a_look_begins(rest: Rest, appliance_broker: RunningBroker) -> None:
    produce(appliance_broker, 10)
    for where, wanted in (
        ("newest", [9, 8, 7]), ("oldest", [0, 1, 2]), ("offset:4", [4, 5, 6]),
        ("offset:-2", [8, 9]), ("time:1700000000007", [7, 8, 9]), ("time:1900000000000", []),
    ):
        assert offsets(rest.get(PATH, limit=3, **{"from": where})) == wanted
    for wrong in ("there", "offset:x", "time:", "offset:99999999999999999999"):
        assert rest.refused("GET", PATH, **{"from": wrong}) == (400, "invalid_request")


def test_the_newest_are_those_of_all_partitions(
    rest: Rest, appliance_broker: RunningBroker
) -> None:
    """Though the first partition alone has more than enough."""
    rest.post("/topics", {"name": "orders", "partitions": 3})
    made = producer(appliance_broker)
    for partition, begin in ((0, 10_000), (2, 20_000), (1, 30_000)):
        for number in range(100):
            made.produce("orders", b"x", partition=partition, timestamp=begin + number)
    assert made.flush(DEADLINE_S) == 0
    answer = rest.get(PATH, limit=150, **{"from": "newest"})
    found = answer["messages"]
    assert [each["partition"] for each in found] == [1] * 100 + [2] * 50
    # what was read and given back is not searched yet
    assert (answer["scanned_offsets"], answer["left_offsets"]) == (150, 150)
    assert [each["offset"] for each in found] == [*range(99, -1, -1), *range(99, 49, -1)]


@pytest.mark.parametrize("where", ["oldest", "newest"])
def test_looks_go_on_until_all_is_seen_once(
    rest: Rest, appliance_broker: RunningBroker, where: str
) -> None:
    rest.post("/topics", {"name": "orders", "partitions": 3})
    produce(appliance_broker, 700)
    found: list[tuple[int, int]] = []
    query: dict[str, Any] = {"from": where, "limit": 64}
    while True:
        answer = rest.get(PATH, **query)
        found += [(each["partition"], each["offset"]) for each in answer["messages"]]
        if answer["is_complete"]:
            break
        query["cursor"] = answer["next"]
    assert len(found) == len(set(found)) == 700


def test_a_search_tells_how_far_it_came(
    rest: Rest, appliance_broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No match in what was scanned is not the same as none at all."""
    produce(appliance_broker, 2000, **{"batch.num.messages": 100})
    monkeypatch.setattr(message_scan, "LOOK_BYTES_MAX", 1)
    monkeypatch.setattr(message_scan, "READ_BYTES", 1)
    query = {"from": "oldest", "filter": "value.id = 1999"}
    answer = rest.get(PATH, **query)
    assert (answer["messages"], answer["is_complete"]) == ([], False)
    assert 0 < answer["scanned_offsets"] < 2000
    assert answer["scanned_offsets"] + answer["left_offsets"] == 2000
    monkeypatch.undo()
    answer = rest.get(PATH, cursor=answer["next"], **query)
    assert (offsets(answer), answer["is_complete"]) == ([1999], True)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", [0, 1, 2, 3, 4, 5]),
        ("value.id = 4", [4]),
        ("value.id >= 4", [4, 5]),
        ("value.id != 4 and value.id > 2", [3, 5]),
        ('value.user.name = "u1"', [1, 4]),
        ("header.type = odd and value.id < 4", [1, 3]),
        ("header.none exists", []),
        ("header.type exists and offset = 2", [2]),
        ("key contains 5", [5]),
        ('key ~ "^k[23]$"', [2, 3]),
        ("value.user.none != x", []),
        ("timestamp > 1700000000004", [5]),
        ("partition = 0 and size > 30 and offset <= 0", [0]),
    ],
)
def test_filters(rest: Rest, appliance_broker: RunningBroker, text: str,
                 wanted: list[int]) -> None:
    produce(appliance_broker, 6)
    assert offsets(rest.get(PATH, filter=text, **{"from": "oldest"})) == wanted


@pytest.mark.parametrize(
    "text",
    ["value", "value is x", "value = ", 'value = "a', "value = a or key = b", "other = 1",
     "value..a = 1", "value[x] = 1", 'value ~ "(("', "header. = 1", "a" * 3000,
     " and ".join(["offset = 1"] * 30), "__import__('os').system('true') = 1"],
)
def test_what_is_no_filter(text: str) -> None:
    with pytest.raises(RequestInvalid):
        message_filter.parse(text)


@pytest.mark.parametrize("most", [message_filter.TEXT_MAX, 1 << 20])
def test_quotes_without_end_are_read_once(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """With the limit, and so that it would hold without one: each quote could be the first."""
    monkeypatch.setattr(message_filter, "TEXT_MAX", most)
    for text in ('"\\' * (most // 2), "value = " + '"\\' * 500):
        with pytest.raises(RequestInvalid, match="a quote is not closed"):
            message_filter.parse(text)


@pytest.mark.parametrize("quoted", ['"a\\"b"', '"a\\\\"', '"a b"', '""', '"a\\\nb"', '"a\nb"'])
def test_a_quoted_value_is_what_stands_in_it(quoted: str) -> None:
    value = json.loads(quoted.replace("\\\n", "\\n").replace("\n", "\\n"))
    assert message_filter.parse(f"value = {quoted}").fits(0, Record(0, None, value.encode()))


def test_a_path_goes_through_lists_and_past_what_is_no_json() -> None:
    wanted = message_filter.parse('value.items[1].tags[0] = "x y"')
    good = Record(0, None, b'{"items": [0, {"tags": ["x y"]}]}')
    assert wanted.fits(0, good)
    for other in (b"{", b'{"items": 3}', b'{"items": [1]}', None, b"[" * 100_000):
        assert not wanted.fits(0, Record(0, None, other))


def test_bytes_are_shown_as_hex_and_long_values_cut(
    rest: Rest, appliance_broker: RunningBroker
) -> None:
    made = producer(appliance_broker)
    made.produce("orders", b"\xff\x00", None)
    made.produce("orders", b"x" * 100_000, b"<script>alert(1)</script>")
    made.produce("orders", None, b"deleted")
    assert made.flush(DEADLINE_S) == 0
    binary, long, tombstone = rest.get(PATH, **{"from": "oldest"})["messages"]
    assert binary["value"] == {"size": 2, "form": "hex", "text": "ff00", "is_cut": False}
    assert binary["key"] is None
    assert (long["value"]["size"], len(long["value"]["text"])) == (100_000, shown_message.TEXT_MAX)
    assert long["value"]["is_cut"]
    assert tombstone["value"] is None
    whole = rest.get(PATH, full="true", **{"from": "offset:1"})["messages"][0]
    assert len(whole["value"]["text"]) == 100_000


def test_a_text_that_is_too_long_to_look_at_is_no_json(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown_message.data_of(b"[1, 2]", 10)["form"] == "json"
    monkeypatch.setattr(shown_message, "JSON_MAX", 5)
    assert shown_message.data_of(b"[1, 2]", 10)["form"] == "text"


def test_what_a_transaction_took_back_is_not_shown(
    rest: Rest, appliance_broker: RunningBroker
) -> None:
    made = producer(appliance_broker, **{"transactional.id": "t"})
    made.init_transactions(DEADLINE_S)
    for value, is_kept in ((b"kept", True), (b"gone", False), (b"kept too", True)):
        made.begin_transaction()
        made.produce("orders", value)
        made.flush(DEADLINE_S)
        (made.commit_transaction if is_kept else made.abort_transaction)(DEADLINE_S)
    for where in ("oldest", "newest"):
        found = rest.get(PATH, **{"from": where})
        texts = sorted(each["value"]["text"] for each in found["messages"])
        assert texts == ["kept", "kept too"]


def test_a_batch_that_cannot_be_read_is_told_and_passed_over(
    rest: Rest, appliance_broker: RunningBroker
) -> None:
    rest.post("/topics", {"name": "orders"})
    made = producer(appliance_broker)
    for value in (b"a" * 50, b"b" * 50, b"c" * 50):
        made.produce("orders", value)
        assert made.flush(DEADLINE_S) == 0
    (file,) = (appliance_broker.data_dir / "orders-0").glob("*.log")
    data = bytearray(file.read_bytes())
    at = data.index(b"bbb")
    with file.open("r+b") as log:
        log.seek(at)
        log.write(b"B")
    found = rest.get(PATH, **{"from": "oldest"})
    assert [each["value"]["text"][0] for each in found["messages"]] == ["a", "c"]
    (problem,) = found["problems"]
    assert (problem["partition"], problem["offset"]) == (0, 1)


@pytest.mark.parametrize("cursor", ["x", "0:1", "9:0:1", "0:-1:5", "0:0:1,"])
def test_a_wrong_cursor_is_refused(
    rest: Rest, appliance_broker: RunningBroker, cursor: str
) -> None:
    produce(appliance_broker, 1)
    assert rest.refused("GET", PATH, cursor=cursor) == (400, "invalid_request")


# Producing

def test_what_is_produced_is_on_disk_and_read_by_clients(
    rest: Rest, appliance_broker: RunningBroker
) -> None:
    rest.post("/topics", {"name": "orders", "partitions": 2})
    body = {"messages": [
        {"key": {"text": "ä"}, "value": {"json": {"a": [1, None]}}, "partition": 1,
         "headers": [{"name": "h", "value": {"base64": base64.b64encode(b"\xff").decode()}}],
         "timestamp_ms": 1_700_000_000_000},
        {"value": {"text": "plain"}},
        {"key": {"text": "deleted"}, "value": None, "partition": 1},
    ]}
    produced = rest.post(PATH, body)["produced"]
    assert produced == [{"partition": 1, "offset": 0}, {"partition": 0, "offset": 0},
                        {"partition": 1, "offset": 1}]
    assert rest.get("/topics/orders")["partition_rows"][1]["durable_offset"] == 2
    consumer = Consumer({"bootstrap.servers": appliance_broker.bootstrap, "group.id": "g"})
    consumer.assign([TopicPartition("orders", 1, 0)])
    read: list[Any] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(read) < 2 and time.monotonic() < deadline:
        read += consumer.consume(2, 1)
    consumer.close()
    assert read[0].key() == "ä".encode()
    assert json.loads(read[0].value()) == {"a": [1, None]}
    assert read[0].headers() == [("h", b"\xff")]
    assert read[0].timestamp()[1] == 1_700_000_000_000
    assert read[1].value() is None


@pytest.mark.parametrize(
    "message",
    [{"value": {"text": "a", "json": 1}}, {"value": {}}, {"value": {"base64": "?"}},
     {"value": "a"}, {"partition": -1}, {"more": 1}],
)
def test_what_cannot_be_produced(rest: Rest, message: Any) -> None:
    rest.post("/topics", {"name": "orders"})
    status, _ = rest.refused("POST", PATH, {"messages": [message]})
    assert status in (400, 404)
    assert rest.get("/topics/orders")["records"] == 0


# Replaying

def test_a_replay_is_tried_first(rest: Rest, appliance_broker: RunningBroker) -> None:
    rest.post("/topics", {"name": "orders", "partitions": 2})
    rest.post("/topics", {"name": "again", "partitions": 2})
    produce(appliance_broker, 20)
    body = {"to_topic": "again", "filter": "header.type = even", "keeps_partition": True}
    dry = rest.post("/topics/orders/replay", body)
    assert (dry["dry_run"], dry["count"], len(dry["first"])) == (True, 10, 5)
    assert rest.get("/topics/again")["records"] == 0
    done = rest.post("/topics/orders/replay", {**body, "dry_run": False})
    assert (done["count"], done["next"], done["bytes"]) == (10, None, dry["bytes"])
    found = rest.get("/topics/again/messages", **{"from": "oldest"})["messages"]
    source = rest.get(PATH, limit=100, filter="header.type = even", **{"from": "oldest"})
    keys = {(each["partition"], each["key"]["text"]) for each in source["messages"]}
    assert {(each["partition"], each["key"]["text"]) for each in found} == keys
    narrow = rest.post("/topics", {"name": "narrow"})
    assert narrow["partitions"] == 1
    assert rest.refused("POST", "/topics/orders/replay", {**body, "to_topic": "narrow"}) == (
        400, "invalid_request")


def test_a_replay_says_what_it_did_not_read(
    rest: Rest, appliance_broker: RunningBroker
) -> None:
    rest.post("/topics", {"name": "again"})
    made = producer(appliance_broker)
    for value in (b"a" * 50, b"b" * 50, b"c" * 50):
        made.produce("orders", value)
        assert made.flush(DEADLINE_S) == 0
    cursor = rest.get("/topics/orders/range")["cursor"]
    damage(appliance_broker, b"bbb")
    body = {"to_topic": "again", "cursor": cursor, "dry_run": False}
    done = rest.post("/topics/orders/replay", body)
    (bad,) = done["unread"]
    assert (bad["partition"], bad["first_offset"], bad["end_offset"]) == (0, 1, 2)
    assert (done["count"], done["unread_offsets"], done["stopped"]) == (2, 1, None)
    delete_before(appliance_broker, 1)
    (gone, bad) = rest.post("/topics/orders/replay", {**body, "dry_run": True})["unread"]
    assert gone == {"partition": 0, "first_offset": 0, "end_offset": 1,
                    "what": "deleted before it was read"}  # fmt: skip
    assert (bad["first_offset"], bad["end_offset"]) == (1, 2)


def test_a_replay_that_stops_is_gone_on_with(
    rest: Rest, appliance_broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written before is not written again; of the piece at which it stopped nobody knows,
    and that is said."""
    rest.post("/topics", {"name": "orders", "partitions": 2})
    rest.post("/topics", {"name": "again"})
    produce(appliance_broker, 20)
    write, fails = message_replay.append, iter([False, False, True, True])

    async def slow(*given: Any) -> Any:
        done = await write(*given)
        if next(fails, False):
            raise TimedOut("the others do not answer")
        return done

    monkeypatch.setattr(message_replay, "append", slow)
    monkeypatch.setattr(message_replay, "PIECE_MESSAGES", 4)
    body = {"to_topic": "again", "dry_run": False}
    first = rest.post("/topics/orders/replay", body)
    assert (first["count"], first["stopped"]) == (8, (
        "8 messages of this step are in again, and of the next 4 some may be, which are there "
        "twice when it is tried again: the others do not answer"))  # fmt: skip
    rest_of_it = {**body, "cursor": first["next"]}
    refusal = rest.ask("POST", "/topics/orders/replay", rest_of_it)
    assert refusal.status == 504
    assert "of the next 4 some may be, which are there twice" in refusal.body["error"]["message"]
    last = rest.post("/topics/orders/replay", rest_of_it)
    assert (last["count"], last["next"], last["stopped"]) == (12, None, None)
    found = rest.get("/topics/again/messages", limit=100, **{"from": "oldest"})["messages"]
    keys = [each["key"]["text"] for each in found]
    assert len({*keys}) == 20
    assert len(keys) == 20 + 2 * 4, "no more than it said"


def damage(broker: RunningBroker, where: bytes) -> None:
    (file,) = (broker.data_dir / "orders-0").glob("*.log")
    at = file.read_bytes().index(where)
    with file.open("r+b") as log:
        log.seek(at)
        log.write(b"B")


def delete_before(broker: RunningBroker, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (deleted,) = admin.delete_records([TopicPartition("orders", 0, offset)]).values()
    assert deleted.result(DEADLINE_S).low_watermark == offset


# Following

def test_new_messages_are_followed(rest: Rest, appliance_broker: RunningBroker) -> None:
    produce(appliance_broker, 2)
    query = urllib.parse.urlencode({"filter": "header.type = odd"})
    url = f"http://{appliance_broker.admin}{PREFIX}{PATH}/live?{query}"
    with urllib.request.urlopen(url, timeout=DEADLINE_S) as stream:
        assert stream.headers.get_content_type() == "text/event-stream"
        assert stream.readline() == b": following\n"
        stream.readline()
        produce(appliance_broker, 4)
        events = []
        while len(events) < 2:
            line = stream.readline().decode()
            if line.startswith("data: "):
                events.append(json.loads(line.removeprefix("data: ")))
    assert [each["offset"] for each in events] == [3, 5]


def test_following_ends_with_the_topic_and_not_in_silence(
    rest: Rest, appliance_broker: RunningBroker
) -> None:
    produce(appliance_broker, 2)
    was = topic_id(rest)
    url = f"http://{appliance_broker.admin}{PREFIX}{PATH}/live"
    with urllib.request.urlopen(url, timeout=DEADLINE_S) as stream:
        assert stream.readline() == b": following\n"
        made_anew(rest)
        lines = stream.read().decode().split("\n")
    assert lines[1:] == ["event: deleted", f'data: {{"topic_id": "{was}"}}', "", ""]


def topic_id(rest: Rest) -> str:
    path = "/topics/orders/plan"
    found: str = rest.ask("GET", path, prefix="/export/v1").body["topic_id"]
    return found


def made_anew(rest: Rest) -> None:
    assert rest.ask("DELETE", "/topics/orders").status == 204
    body = {"name": "orders", "partitions": 3}
    assert rest.ask("POST", "/topics", body).status == 201


def test_a_cursor_does_not_go_on_in_another_topic_of_the_same_name(
    rest: Rest, appliance_broker: RunningBroker
) -> None:
    produce(appliance_broker, 4)
    look = rest.get(PATH, **{"from": "oldest", "limit": 1})
    whole = rest.get("/topics/orders/range", **{"from": "oldest"})["cursor"]
    was = topic_id(rest)
    made_anew(rest)
    produce(appliance_broker, 9)
    wanted = (409, "inconsistent_topic_id")
    assert rest.refused("GET", PATH, cursor=look["next"]) == wanted
    assert rest.refused("GET", "/topics/orders/export", cursor=whole, format="csv") == wanted
    body = {"to_topic": "orders", "cursor": whole}
    assert rest.refused("POST", "/topics/orders/replay", body) == wanted
    by_hand = whole.partition("@")
    assert by_hand[2] == was
    assert rest.ask("GET", PATH, cursor=by_hand[0]).status == 200


# Exporting

def exported(rest: Rest, kind: str, **query: Any) -> bytes:
    text = urllib.parse.urlencode({"format": kind, **query})
    answer = rest.raw("GET", f"{PREFIX}/topics/orders/export?{text}")
    assert answer.status == 200, answer.body
    assert answer.headers["Content-Disposition"] == f'attachment; filename="orders.{kind}"'
    data: bytes = answer.body or b""
    return data


def test_a_range_is_exported_in_every_format(
    rest: Rest, appliance_broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("appliance.admin.download.MESSAGES_OF_LOOK", 7)  # many pieces
    rest.post("/topics", {"name": "orders", "partitions": 2})
    produce(appliance_broker, 50)
    rest.post(PATH, {"messages": [{"value": {"base64": "/wA="}, "partition": 0}]})
    lines = [json.loads(each) for each in exported(rest, "jsonl").splitlines()]
    rows = [*csv.DictReader(io.StringIO(exported(rest, "csv").decode()))]
    arrow = pyarrow.ipc.open_stream(exported(rest, "arrow")).read_all().to_pylist()
    packed = parquet.read_table(io.BytesIO(exported(rest, "parquet"))).to_pylist()
    places = [(each["partition"], each["offset"]) for each in lines]
    assert len(places) == len(set(places)) == 51
    assert [(int(each["partition"]), int(each["offset"])) for each in rows] == places
    assert [(each["partition"], each["offset"]) for each in arrow] == places
    assert arrow == packed
    for line, row, columns in zip(lines, rows, arrow, strict=True):
        data = line["value"].encode()
        data = base64.b64decode(data) if line["value_is_base64"] else data
        assert (data, row["value"]) == (columns["value"], line["value"])
        assert round(columns["timestamp"].timestamp() * 1000) == line["timestamp_ms"]
    assert sum(each["value_is_base64"] for each in lines) == 1
    assert lines[0]["headers"][0]["name"] == arrow[0]["headers"][0]["key"] == "type"


def test_an_export_is_of_what_was_asked(rest: Rest, appliance_broker: RunningBroker) -> None:
    produce(appliance_broker, 10)

    def found(**query: Any) -> list[int]:
        lines = exported(rest, "jsonl", **query).splitlines()
        return [json.loads(each)["offset"] for each in lines]

    assert found(filter="value.id < 3") == [0, 1, 2]
    assert found(cursor="0:4:6") == [4, 5]
    assert found(**{"from": "offset:-2"}) == [8, 9]
    assert found(filter="value.id = 99") == []
    assert exported(rest, "csv", filter="value.id = 99").startswith(b"partition,offset,")
    assert rest.refused("GET", "/topics/orders/export", format="xml") == (400, "invalid_request")


def test_a_cell_that_is_almost_a_number_takes_no_time(
    rest: Rest, appliance_broker: RunningBroker
) -> None:
    """Numbers stay numbers, and what looks like a formula is text. Where a pattern tries every way
    to read a million digits, this does not end."""
    cells = ["-1", "+1.5e-3", "-.5", "-1.", "-" + "1" * 900_000 + "x", "-" + "1" * 900_000, "=A1",
             "-1.5.5", "-"]
    made = producer(appliance_broker)
    for each in cells:
        made.produce("orders", each.encode())
    assert made.flush(DEADLINE_S) == 0
    limit = csv.field_size_limit(1 << 20)
    rows = [*csv.DictReader(io.StringIO(exported(rest, "csv").decode()))]
    csv.field_size_limit(limit)
    assert [row["value"] for row in rows] == cells[:4] + [f"'{each}" for each in cells[4:]]


def test_an_export_of_damage_does_not_end_as_if_it_were_whole(
    rest: Rest, appliance_broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = producer(appliance_broker)
    for value in (b"a" * 50, b"b" * 50):
        made.produce("orders", value)
        assert made.flush(DEADLINE_S) == 0
    damage(appliance_broker, b"bbb")
    answer = rest.ask("GET", "/topics/orders/export")
    assert (answer.status, answer.body["error"]["code"]) == (503, "unreadable")
    assert answer.body["error"]["message"].startswith("orders-0, from offset 1 on: batch refused")
    monkeypatch.setattr("appliance.admin.download.MESSAGES_OF_LOOK", 1)  # a file is begun
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        exported(rest, "jsonl")


def test_a_range_is_found_by_offset_and_by_time(
    rest: Rest, appliance_broker: RunningBroker
) -> None:
    rest.post("/topics", {"name": "orders", "partitions": 2})
    produce(appliance_broker, 20)
    whole = rest.get("/topics/orders/range")
    assert whole["offsets"] == 20
    found = rest.get("/topics/orders/range", until="offset:4", partition=0, **{"from": "offset:1"})
    positions, _, topic_id = found["cursor"].partition("@")
    assert (positions, topic_id) == ("0:1:4", whole["cursor"].partition("@")[2])
    row = {"partition": 0, "first_offset": 1, "end_offset": 4}
    assert (found["offsets"], found["partitions"]) == (3, [row])
    newest = rest.get(PATH, limit=1)["messages"][0]["timestamp_ms"]
    late = rest.get("/topics/orders/range", **{"from": f"time:{newest + 1}"})
    assert late == {"cursor": "", "offsets": 0, "partitions": []}
    assert rest.get("/topics/orders/range", until=f"time:{newest + 1}") == whole
    assert rest.refused("GET", "/topics/orders/range", until="soon")[0] == 400

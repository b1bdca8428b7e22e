"""Connections, settings, the audit trail, the log and the support bundle over REST."""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from pathlib import Path

import pytest
from confluent_kafka import Producer

from appliance import config
from appliance.access.audit import ADDRESSES_OF_MINUTE, ROWS_OF_MINUTE, Asking, AuditTrail
from appliance.access.audit_rows import ROWS_MAX, STRANGER, AuditRow, AuditRows
from appliance.admin.audit import DEPTH_MAX
from appliance.catalog.catalog import Catalog
from appliance.process import event_log
from appliance.testing import RunningBroker, running_broker
from tests.support.rest import PREFIX, Rest

DEADLINE_S = 20.0


@pytest.fixture
def rest(appliance_broker: RunningBroker) -> Rest:
    return Rest(appliance_broker.admin)


def test_a_connection_is_told_with_what_it_calls_itself(
    rest: Rest, appliance_broker: RunningBroker
) -> None:
    settings = {"bootstrap.servers": appliance_broker.bootstrap, "client.id": "shop-1"}
    producer = Producer(settings)
    producer.produce("orders", b"x" * 5000)
    assert producer.flush(DEADLINE_S) == 0
    found = rest.get("/connections", q="SHOP")["connections"]
    assert found
    assert {each["client_id"] for each in found} == {"shop-1"}
    assert {each["peer"] for each in found} == {"127.0.0.1"}
    assert {each["software"] for each in found} == {"confluent-kafka-python"}
    assert sum(each["received_bytes"] for each in found) > 5000
    assert all(each["requests"] >= 1 and each["idle_ms"] <= each["connected_ms"] for each in found)
    assert rest.get("/connections", q="nobody") == {"total": 0, "connections": []}


def test_settings_tell_where_they_were_set(tmp_path: Path) -> None:
    with running_broker(tmp_path, {"num.partitions": "3"}) as broker:
        rest = Rest(broker.admin)
        rows = {each["name"]: each for each in rest.get("/settings")["settings"]}
        assert set(rows) == set(config.settings())
        assert (rows["num.partitions"]["value"], rows["num.partitions"]["source"]) == ("3", "--set")
        assert rows["log.segment.bytes"]["source"] == "default"
        assert rows["default.replication.factor"]["value"] == "1"
        assert rows["data.dir"]["source"] == "flag"
        assert rows["data.dir"]["needs_restart"]
        assert not rows["log.retention.ms"]["needs_restart"]
        body = {"configs": {"log.retention.ms": "60000"}}
        answer = rest.ask("PATCH", "/settings", body)
        rows = {each["name"]: each for each in answer.body["settings"]}
        assert rows["log.retention.ms"]["value"] == "60000"
        assert rows["log.retention.ms"]["source"] == "changed at run time"
        rest.post("/topics", {"name": "t"})
        assert rest.get("/topics/t")["retention_ms"] == 60_000
        assert rest.refused("PATCH", "/settings", {"configs": {"data.dir": "x"}})[0] == 400


def test_what_is_changed_is_in_the_trail_for_good(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        rest = Rest(broker.admin)
        rest.post("/topics", {"name": "orders"})
        rest.post("/topics/orders/messages", {"messages": [{"value": {"text": "secret"}}]})
        rest.refused("POST", "/topics", {"name": "orders"})
        rest.get("/topics")
    with running_broker(tmp_path) as broker:
        entries = Rest(broker.admin).get("/audit")["entries"]
        found = [(each["action"], each["status"], each["details"]) for each in entries]
        assert found == [
            (f"POST {PREFIX}/topics", 409, '{"name": "orders"}'),
            (f"POST {PREFIX}/topics/orders/messages", 201, '{"messages": 1}'),
            (f"POST {PREFIX}/topics", 201, '{"name": "orders"}'),
        ]
        last = entries[-1]
        assert last["peer"] == "127.0.0.1"
        older = Rest(broker.admin).get("/audit", before=entries[0]["id"], limit=1)["entries"]
        assert older == [entries[1]]


@pytest.mark.parametrize("depth", [DEPTH_MAX - 1, 600])
def test_what_is_nested_deep_is_noted(rest: Rest, depth: int) -> None:
    nested: object = "bottom"
    for _ in range(depth):
        nested = [nested]
    body = {"target": "/x", "topics": ["t"], "options": {"from": nested}}
    assert rest.refused("PUT", "/exports/daily", body) == (400, "invalid_request")
    (entry,) = rest.get("/audit")["entries"]
    assert (entry["action"], entry["status"]) == (f"PUT {PREFIX}/exports/daily", 400)
    assert ("bottom" in entry["details"]) is (depth < DEPTH_MAX)


def test_rows_of_an_older_version_that_are_nested_deep_are_shown(tmp_path: Path) -> None:
    catalog = Catalog.open(tmp_path / "catalog.db")
    for details in ("[" * 2000, "[" * 900 + "]" * 900):
        AuditRows(catalog).add(AuditRow(0, 1, "ada", "", "PUT", details, 200))
    catalog.close()
    with running_broker(tmp_path) as broker:
        assert len(Rest(broker.admin).get("/audit")["entries"]) == 2


def test_what_cannot_be_noted_has_a_row(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> str:
        raise RecursionError

    monkeypatch.setattr("appliance.admin.audit.details_of", fail)
    rest.post("/topics", {"name": "orders"})
    (entry,) = rest.get("/audit")["entries"]
    assert (entry["status"], entry["details"]) == (201, "")


def test_the_oldest_rows_of_the_trail_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("appliance.access.audit_rows.ROWS_MAX", 3)
    assert ROWS_MAX > 3
    catalog = Catalog.open(tmp_path / "catalog.db")
    trail = AuditRows(catalog)
    for number in range(5):
        trail.add(AuditRow(0, number, "", "", "", "", 200))
    assert [each.at_ms for each in trail.newest(None, 10)] == [4, 3, 2]
    catalog.close()


def test_nobody_pushes_another_out_of_the_trail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("appliance.access.audit_rows.ROWS_MAX", 10)
    monkeypatch.setattr("appliance.access.audit_rows.STRANGERS_MAX", 4)
    catalog = Catalog.open(tmp_path / "catalog.db")
    trail = AuditRows(catalog)
    trail.add(AuditRow(0, 0, "ada", "", "", "", 200))
    for number in range(1, 100):
        who = STRANGER if number % 2 else "otto"
        trail.add(AuditRow(0, number, who, "", "", "", 200))
        if number == 50:  # counted anew
            catalog.close()
            catalog = Catalog.open(tmp_path / "catalog.db")
            trail = AuditRows(catalog)
    assert [(each.at_ms, each.who) for each in trail.newest(None, 100)] == [
        *((number, STRANGER if number % 2 else "otto") for number in range(99, 91, -1)),
        (90, "otto"), (0, "ada"),
    ]  # fmt: skip
    catalog.close()


def test_what_somebody_does_without_end_is_counted(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        rest = Rest(broker.admin)
        rest.post("/topics", {"name": "orders"})
        for number in range(ROWS_OF_MINUTE + 30):
            rest.refused("POST", f"/topics/none-{number}/messages", {"messages": []})
        assert rest.ask("DELETE", "/topics/orders").status == 204  # what only an admin may do
    catalog = Catalog.open(tmp_path / "catalog.db")
    last, deleted, *others = AuditRows(catalog).newest(None, 1000)
    catalog.close()
    assert deleted.action == f"DELETE {PREFIX}/topics/orders"
    assert len(others) == ROWS_OF_MINUTE
    told = json.loads(last.details)
    assert (last.action, told["more"]) == (f"POST {PREFIX}/topics/{{topic}}/messages", 31)
    assert told["answers"] == {"404": 31}
    assert told["of"][0] == f"{PREFIX}/topics/none-19/messages"


def test_failed_logins_from_everywhere_are_few_rows(tmp_path: Path) -> None:
    catalog = Catalog.open(tmp_path / "catalog.db")

    async def fail() -> None:
        trail = AuditTrail(AuditRows(catalog))
        for number in range(1000):
            asking = Asking("ada" * 100, f"address-{number}", "admin", "password")
            trail.failed(asking, is_refused=number % 2 == 0)
        await trail.close()

    asyncio.run(fail())
    rows = AuditRows(catalog).newest(None, 1000)
    catalog.close()
    assert len(rows) == ADDRESSES_OF_MINUTE + 1
    told = [json.loads(each.details) for each in rows]
    assert sum(each["wrong"] for each in told) == sum(each["refused"] for each in told) == 500
    assert all(len(each.details) < 200 for each in rows)


def test_the_log_is_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "appliance")
    with event_log.kept(), running_broker(tmp_path) as broker:  # as beside one more broker
        rest = Rest(broker.admin)
        before = max((each["id"] for each in rest.get("/log", limit=5000)["lines"]), default=0)
        rest.post("/topics", {"name": "shown-in-the-log"})
        lines = rest.get("/log", after=before, q="SHOWN-in")["lines"]
        found = [(each["level"], each["name"]) for each in lines]
        assert found == [("info", "appliance.broker")]
        assert lines[0]["text"] == "topic created topic=shown-in-the-log partitions=1"
        assert rest.get("/log", after=before, level="error")["lines"] == []
    caplog.clear()


def test_a_bundle_holds_everything_but_records(
    rest: Rest, appliance_broker: RunningBroker
) -> None:
    rest.post("/topics", {"name": "orders"})
    body = {"messages": [{"key": {"text": "privy"}, "value": {"text": "privy"}}]}
    rest.post("/topics/orders/messages", body)
    answer = rest.raw("GET", f"{PREFIX}/bundle")
    assert answer.headers["Content-Type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(answer.body)) as archive:
        files = {each: archive.read(each).decode() for each in archive.namelist()}
    assert json.loads(files["topics.json"])["topics"][0]["name"] == "orders"
    assert "appliance_topic_size_bytes" in files["metrics.txt"]
    assert "recovery.txt" in files
    assert json.loads(files["settings.json"])["settings"]
    assert not [name for name, text in files.items() if "privy" in text]

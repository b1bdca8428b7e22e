"""Exports over REST: what was defined and reported is told, also after a restart."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from confluent_kafka import Producer

from appliance.access.audit_rows import AuditRow, AuditRows
from appliance.catalog.catalog import Catalog
from appliance.errors import StorageFull
from appliance.export import definitions_and_runs
from appliance.export.definitions_and_runs import Book
from appliance.export.export_rows import ExportRows
from appliance.testing import RunningBroker, running_broker
from tests.support.rest import Rest

DEADLINE_S = 20.0
EXPORT = {"topics": ["orders"], "target": "/data/lake",
          "schedule": {"cron": "5 * * * *", "timezone": "Europe/Berlin", "retries": 3}}


@pytest.fixture(scope="session")
def appliance_settings() -> Mapping[str, str]:
    return {"log.segment.bytes": "2000", "log.retention.check.interval.ms": "50",
            "checkpoint.interval.ms": "50", "export.runs.max": "3"}


@pytest.fixture
def rest(appliance_broker: RunningBroker) -> Rest:
    return Rest(appliance_broker.admin)


def produce(broker: RunningBroker, count: int, timestamp_ms: int | None = None) -> None:
    made = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0,
                     "batch.num.messages": 5})
    at_ms = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
    for number in range(count):
        made.produce("orders", b"value %d" % number, timestamp=at_ms)
    assert made.flush(DEADLINE_S) == 0


def put(rest: Rest, path: str, body: Any, prefix: str = "/api/v1") -> Any:
    answer = rest.ask("PUT", path, body, prefix=prefix)
    assert answer.status == 200, answer.body
    return answer.body


def run_of(number: int, state: str = "succeeded", **given: Any) -> dict[str, Any]:
    return {"id": f"run-{number}", "state": state, "started_ms": 1_700_000_000_000 + number,
            **given}


def part(end: int, **given: Any) -> dict[str, Any]:
    return {"topic": "orders", "partition": 0, "from": 0, "to": end, "rows": end, **given}


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def metric(rest: Rest, name: str) -> float:
    page = rest.raw("GET", "/metrics").body.decode()
    [found] = re.findall(rf"^appliance_{name}(?:{{[^}}]*}})? (\S+)$", page, re.MULTILINE)
    return float(found)


# Definitions

def test_an_export_is_defined_changed_and_forgotten(rest: Rest) -> None:
    assert rest.get("/exports") == {"exports": []}
    made = put(rest, "/exports/daily", EXPORT)
    status = made.pop("status")
    assert made == {"name": "daily", "pattern": None, "schema": None, "partition_by": None,
                    "options": {}, **EXPORT}
    assert (status["last_run"], status["topics"]) == (None, [])
    changed = put(rest, "/exports/daily", {"pattern": "or.*", "target": "/lake"})
    assert (changed["schedule"], changed["target"]) == (None, "/lake")
    assert [each["name"] for each in rest.get("/exports")["exports"]] == ["daily"]
    assert rest.ask("DELETE", "/exports/daily").status == 204
    assert rest.refused("GET", "/exports/daily") == (404, "resource_not_found")
    assert rest.refused("DELETE", "/exports/daily") == (404, "resource_not_found")


def test_a_pattern_that_would_take_for_ever_is_answered(rest: Rest) -> None:
    name = "a" * 60 + "-b"
    rest.post("/topics", {"name": name})
    made = put(rest, "/exports/daily", {"pattern": "(a+)+-", "target": "/x"})
    assert (made["status"]["topics"], made["status"]["fault"]) == ([], "")
    made = put(rest, "/exports/daily", {"pattern": "(a+)+-b", "target": "/x"})
    assert made["status"]["topics"] == [name]
    rest.ask("DELETE", f"/topics/{name}")
    rest.ask("DELETE", "/exports/daily")


def test_a_stored_pattern_that_is_refused_now_is_told_of_this_export_alone(tmp_path: Path) -> None:
    """Looking ahead was allowed once."""
    (tmp_path / "data").mkdir()
    catalog = Catalog.open(tmp_path / "data/catalog.db")
    for name, pattern in (("new", "or.*"), ("old", "(?!x)or.*")):
        Book(ExportRows(catalog), 3).put({"name": name, "pattern": pattern, "target": "/x"})
    catalog.close()
    with running_broker(tmp_path / "data") as broker:
        rest = Rest(broker.admin)
        faults = {each["name"]: each["status"]["fault"] for each in rest.get("/exports")["exports"]}
        assert faults["new"] == ""
        assert "'(?!x)or.*' is not a valid regular expression of RE2" in faults["old"]
        failed = rest.raw("GET", "/metrics").body.decode()
        assert 'appliance_export_last_run_failed{export="old"} 1.0' in failed
        assert 'appliance_export_last_run_failed{export="new"} 0.0' in failed
        told = [each["text"] for each in rest.get("/health")["findings"]]
        assert any("export old cannot run as it is defined: pattern: " in each for each in told)


SECRET = "s3cret-of-the-lake"
CATALOG = {"type": "rest", "uri": "http://127.0.0.1:1", "auth.type": "custom",
           "auth.impl": "subprocess.Popen", "credential": SECRET, "py-io-impl": "os.system"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"options": {"catalog": CATALOG}},
         "options.catalog: got dict, wanted the name of a catalog in pyiceberg's configuration"),
        ({"options": {"catalog": "../x"}}, "options.catalog: got str, wanted the name of a"),
        ({"options": {"conf": {"spark.jars": SECRET}}},
         "options conf are not known, wanted only from, to, isolation, accept_loss, "),
        ({"options": {"table_name": "lake.a/../b"}}, "options.table_name: got 'lake.a/../b', "),
        ({"options": {"table_name": "a." + "a" * 900_000 + "!"}}, "options.table_name: got 'a.aa"),
        ({"options": {"table_name": "lake." + "a" * 296}}, "of 300 characters at most"),
        ({"options": {"table_name": "lake"}}, "options.table_name: got 'lake', wanted NAMESPACE"),
        ({"options": {"table_name": "a.{topic}{topic}"}}, "options.table_name: got 'a.{topic}{"),
        ({"options": {"table_name": "{topic}.a"}}, "options.table_name: got '{topic}.a', wanted"),
        ({"options": {"from": "soon"}}, "options.from: got 'soon', wanted earliest, latest, an of"),
        ({"options": {"to": {"0": "x"}}}, "options.to: got {'0': 'x'}, wanted earliest, latest"),
        ({"options": {"split_bytes": 0}}, "options.split_bytes: got 0, wanted 1 or more"),
        ({"options": {"hold_bytes": True}}, "options.hold_bytes: got True, wanted 0 or more"),
        ({"options": {"framing": "x"}}, "options.framing: got 'x', wanted 'confluent' or 'none'"),
        ({"options": {"schema_json": "x" * (1 << 20) + "x"}}, "of 1048576 characters at most"),
        ({"target": "/srv/lake/../../etc"}, "target: got '/srv/lake/../../etc', wanted the absol"),
        ({"target": "lake"}, "target: got 'lake', wanted the absolute path of a folder"),
        ({"target": "s3://lake"}, "target: got s3://lake, wanted s3://BUCKET/FOLDER"),
        ({"target": f"s3://a:{SECRET}@lake/x"}, "target: got a user or a password in the URL of"),
        ({"partition_by": "hook:x"}, "partition_by: got 'hook:x', wanted timestamp, append or "),
        ({"schema": "avro"}, "options.schema_json: got none, wanted the schema of the values"),
        ({"options": {"catalog": "lake"}}, "options.catalog: got one without a table, wanted"),
        ({"options": {"table_name": "lake.x"}}, "options.table_name: got one without a table"),
        ({"target": "s3://lake/x", "options": {"delta": True}},
         "options.delta: got a Delta table of files in an object store, wanted one of a folder"),
        ({"target": "s3://lake/x", "options": {"table": "iceberg"}},
         "options.catalog: got none for a table in an object store, wanted the name of a catalog"),
        ({"schema": "pickle"}, "schema: got 'pickle', wanted one of raw, json, avro"),
    ],
)
def test_a_definition_says_what_is_on_a_list_and_no_secret(
    rest: Rest, given: dict[str, Any], said: str
) -> None:
    answer = rest.ask("PUT", "/exports/daily", {**EXPORT, **given})
    assert answer.status == 400
    assert said in str(answer.body)
    assert rest.get("/exports") == {"exports": []}
    noted = rest.get("/audit")["entries"]
    assert SECRET not in str(answer.body) + str(noted)


def test_secrets_that_an_older_version_kept_are_shown_to_nobody(tmp_path: Path) -> None:
    catalog = Catalog.open(tmp_path / "catalog.db")
    old = {**EXPORT, "name": "daily", "options": {"table": "iceberg", "catalog": CATALOG}}
    ExportRows(catalog).put("daily", json.dumps(old))
    for details in (json.dumps(old), json.dumps({**old, "x": "y" * 3000})[:400]):
        AuditRows(catalog).add(AuditRow(0, 1, "ada", "", "PUT /exports/daily", details, 200))
    catalog.close()
    with running_broker(tmp_path) as broker:
        rest = Rest(broker.admin)
        shown = rest.get("/exports/daily")
        assert shown["options"] == {"table": "iceberg", "catalog": "daily"}
        everything = f"{shown}{rest.get('/exports')}{rest.get('/audit')}"
        assert len(rest.get("/audit")["entries"]) == 2
        assert SECRET not in everything
        assert "Popen" not in everything
    found = Catalog.open(tmp_path / "catalog.db")
    assert SECRET not in str(ExportRows(found).all())
    found.close()


def test_an_older_build_leaves_options_of_a_newer_one_on_the_disk(tmp_path: Path) -> None:
    catalog = Catalog.open(tmp_path / "catalog.db")
    newer = json.dumps({**EXPORT, "name": "daily", "options": {"of.newer": 1}})
    ExportRows(catalog).put("daily", newer)
    book = Book(ExportRows(catalog), 3, is_of_newer=True)
    assert [each["options"] for each, _ in book.all()] == [{}]
    assert ExportRows(catalog).all() == {"daily": newer}
    Book(ExportRows(catalog), 3)
    assert "of.newer" not in ExportRows(catalog).all()["daily"]
    catalog.close()


def test_a_full_disk_stops_no_start_that_migrates(tmp_path: Path) -> None:
    """What was migrated is stored with the next report; what was deleted meanwhile is not."""
    catalog = Catalog.open(tmp_path / "catalog.db")
    for name in ("daily", "gone"):
        options = {"table": "iceberg", "catalog": {**CATALOG, "name": "lake", "x": "y" * 100_000}}
        ExportRows(catalog).put(name, json.dumps({**EXPORT, "name": name, "options": options}))
    run = catalog._database.execute
    run("CREATE TRIGGER full BEFORE UPDATE ON exports BEGIN "
        "INSERT INTO exports VALUES ('pad', hex(randomblob(1000000))); END")
    (pages,) = run("PRAGMA page_count").fetchone()
    run(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StorageFull):
        ExportRows(catalog).put("daily", "{}")
    book = Book(ExportRows(catalog), 3)
    assert [each["options"]["catalog"] for each, _ in book.all()] == ["lake", "lake"]
    book.put_run("daily", run_of(1))  # still full
    assert SECRET in ExportRows(catalog).all()["daily"]
    book.delete("gone")
    run(f"PRAGMA max_page_count = {pages + 10_000}")
    run("DROP TRIGGER full")
    book.put_run("daily", run_of(2))
    assert SECRET not in str(ExportRows(catalog).all())
    assert [*ExportRows(catalog).all()] == ["daily"]
    catalog.close()


def test_when_the_next_run_begins_is_what_a_scheduler_said_of_late(rest: Rest) -> None:
    body = {"next_run_ms": 1_800_000_000_000}
    assert rest.refused("PUT", "/exports/daily/next", body) == (404, "resource_not_found")
    assert put(rest, "/exports/daily", EXPORT)["status"]["next_run_ms"] is None
    assert put(rest, "/exports/daily/next", body) == body
    assert rest.get("/exports/daily")["status"]["next_run_ms"] == 1_800_000_000_000
    wrong = {"next_run_ms": -1}
    assert rest.refused("PUT", "/exports/daily/next", wrong) == (400, "invalid_request")
    assert not [each for each in rest.get("/audit")["entries"] if "next" in str(each["action"])]
    rest.ask("DELETE", "/exports/daily")
    assert put(rest, "/exports/daily", EXPORT)["status"]["next_run_ms"] is None


def test_a_scheduler_that_is_silent_is_no_longer_believed(tmp_path: Path) -> None:
    catalog = Catalog.open(tmp_path / "catalog.db")
    book = Book(ExportRows(catalog), 3)
    book.put({"name": "daily"})
    book.put_next_run("daily", 5, 1000.0)
    assert [book.next_run_ms("daily", 1000.0 + later) for later in (0, 180, 181)] == [5, 5, None]
    catalog.close()


@pytest.mark.parametrize(
    "wrong",
    [
        {"target": "/x"},
        {"topics": [], "target": "/x"},
        {"topics": ["a"], "pattern": "b", "target": "/x"},
        {"topics": ["a"]},
        {"topics": ["a"], "target": "  "},
        {"pattern": "(", "target": "/x"},
        {"pattern": "(?=a)a", "target": "/x"},
        {**EXPORT, "name": "another"},
        {**EXPORT, "schedule": {"cron": "soon"}},
        {**EXPORT, "schedule": {"cron": "* * * *"}},
        {**EXPORT, "schedule": {"cron": "* * * * *", "timezone": "Middle/Earth"}},
        {**EXPORT, "schedule": {"cron": "* * * * *", "timezone": "../../etc/passwd"}},
        {**EXPORT, "schedule": {"cron": "@daily", "retries": -1}},
        {**EXPORT, "schedule": {"when": "soon"}},
        {**EXPORT, "schedule": {"when": "daily 02:00 Middle/Earth"}},
        {**EXPORT, "schedule": {"when": "every minute" + " " * 200}},
        {**EXPORT, "schedule": {"retries": 1}},
        {**EXPORT, "what": 1},
    ],
)
def test_what_is_no_export_is_refused(rest: Rest, wrong: dict[str, Any]) -> None:
    assert rest.refused("PUT", "/exports/daily", wrong) == (400, "invalid_request")
    assert rest.get("/exports") == {"exports": []}


def test_a_schedule_in_words_is_kept_with_what_it_means(rest: Rest) -> None:
    words = {"when": "daily 02:00 Europe/Berlin", "retries": 1}
    made = put(rest, "/exports/daily", {**EXPORT, "schedule": words})["schedule"]
    assert made == {**words, "cron": "0 2 * * *", "timezone": "Europe/Berlin"}
    assert put(rest, "/exports/daily", {**EXPORT, "schedule": made})["schedule"] == made
    answer = rest.ask("PUT", "/exports/daily", {**EXPORT, "schedule": {**made, "cron": "@daily"}})
    assert (answer.status, "give one of them" in str(answer.body)) == (400, True)
    assert put(rest, "/exports/daily", {**EXPORT, "schedule": {"when": "5 * * * *"}})[
        "schedule"] == {"cron": "5 * * * *"}
    rest.ask("DELETE", "/exports/daily")


def test_a_schedule_is_previewed_in_its_zone_and_in_utc(rest: Rest) -> None:
    words = {"when": "weekly Monday 03:30", "timezone": "Europe/Berlin", "count": 2}
    found = rest.get("/export-schedule", **words)
    shown = (found["when"], found["cron"], found["timezone"])
    assert shown == ("weekly Monday 03:30", "30 3 * * 1", "Europe/Berlin")
    for each in found["next"]:
        at = datetime.fromtimestamp(each["at_ms"] / 1000, ZoneInfo("Europe/Berlin"))
        assert each["local"] == f"{at:%a %Y-%m-%d %H:%M %Z}"
        assert each["local"].startswith("Mon ")
        assert " 03:30 CE" in each["local"]
        assert each["utc"] == f"{at.astimezone(timezone.utc):%a %Y-%m-%d %H:%M} UTC"
    first, second = (each["at_ms"] for each in found["next"])
    assert time.time() * 1000 < first < second < (time.time() + 15 * 86400) * 1000
    for wrong in ({}, {"when": "soon"}, {"when": "0 0 31 2 *"}, {"when": "hourly Middle/Earth"},
                  {"when": "daily 02:00 UTC", "timezone": "Europe/Berlin"}):
        assert rest.refused("GET", "/export-schedule", **wrong) == (400, "invalid_request")


def test_a_name_is_one(rest: Rest) -> None:
    assert rest.refused("PUT", "/exports/a%20b", EXPORT) == (400, "invalid_request")


# Runs

def test_runs_are_kept_and_replaced_by_their_id(rest: Rest) -> None:
    assert rest.refused("POST", "/exports/daily/runs", run_of(0))[0] == 404
    put(rest, "/exports/daily", EXPORT)
    rest.post("/exports/daily/runs", run_of(0, "running", plan={"splits": 4}))
    rest.post("/exports/daily/runs", run_of(0, ended_ms=5, files=2, bytes=9,
                                            partitions=[part(7, dead_letters=1, missing=0)]))
    for number in (1, 2, 3, 4):
        rest.post("/exports/daily/runs", run_of(number, "failed", error="x" * 20_000))
    runs = rest.get("/exports/daily/runs")["runs"]
    # the last three, and what the next one begins from
    assert [each["id"] for each in runs] == ["run-4", "run-3", "run-2", "run-0"]
    assert len(runs[0]["error"]) == 10_000
    status = rest.get("/exports/daily")["status"]
    assert (status["last_run"]["id"], status["last_success"]["id"]) == ("run-4", "run-0")
    wrong = run_of(5, partitions=[{**part(3), "from": 4}])
    assert rest.refused("POST", "/exports/daily/runs", wrong) == (400, "invalid_request")


def test_an_export_that_is_behind_shows(rest: Rest, appliance_broker: RunningBroker) -> None:
    produce(appliance_broker, 100)
    rest.ask("PATCH", "/topics/orders", {"configs": {"retention.ms": "86400000"}})
    put(rest, "/exports/daily", EXPORT)
    status = rest.get("/exports/daily")["status"]
    assert (status["behind_records"], status["behind_seconds"]) == (100, None)
    now_ms = int(time.time() * 1000)
    run = run_of(1, partitions=[part(60, dead_letters=3)])
    rest.post("/exports/daily/runs", {**run, "started_ms": now_ms - 7_200_000})
    status = rest.get("/exports/daily")["status"]
    assert status["behind_records"] == 40
    assert 7200 <= status["behind_seconds"] < 7300
    assert 86_300 < status["seconds_left"] <= 86_400
    assert metric(rest, "export_behind_records") == 40
    assert 2 <= metric(rest, "export_behind_hours") < 2.1
    assert metric(rest, "export_last_rows") == 60
    assert metric(rest, "export_last_dead_letters") == 3
    assert metric(rest, "export_last_run_failed") == 0
    assert 86_300 < metric(rest, "export_seconds_until_deleted") <= 86_400
    rest.post("/exports/daily/runs", {**run_of(2, partitions=[part(100)]), "started_ms": now_ms})
    status = rest.get("/exports/daily")["status"]
    assert (status["behind_records"], status["behind_seconds"]) == (0, 0)
    assert status["seconds_left"] is None


# Holds

def test_a_hold_keeps_what_retention_would_delete(
    rest: Rest, appliance_broker: RunningBroker
) -> None:
    def start() -> int:
        found: int = rest.get("/topics/orders")["partition_rows"][0]["log_start_offset"]
        return found

    rest.post("/topics", {"name": "orders", "configs": {"retention.ms": "-1"}})
    produce(appliance_broker, 1000, timestamp_ms=1_700_000_000_000)
    hold = {"topic": "orders", "offsets": {"0": 500}}
    made = put(rest, "/holds/daily", hold, "/export/v1")
    assert (made["state"], made["max_bytes"], made["warning"]) == ("holding", 10 << 30, "")
    rest.ask("PATCH", "/topics/orders", {"configs": {"retention.ms": "1000"}})
    until(lambda: start() > 300)
    found = rest.ask("GET", "/holds/daily", prefix="/export/v1")
    until(lambda: metric(rest, "export_hold_bytes") > 0)
    assert 300 < start() <= 500
    assert found.status == 200
    put(rest, "/holds/daily", {**hold, "max_bytes": 100}, "/export/v1")
    until(lambda: metric(rest, "export_hold_released") == 1)
    until(lambda: start() > 900)
    told = [each["text"] for each in rest.get("/health")["findings"]]
    assert any("export hold daily of orders was released" in each for each in told)
    assert rest.ask("DELETE", "/holds/daily", prefix="/export/v1").status == 204
    assert rest.ask("GET", "/holds", prefix="/export/v1").body == {"holds": []}


@pytest.mark.parametrize(
    "wrong",
    [{"topic": "orders", "offsets": {"1": 0}}, {"topic": "orders", "offsets": {"x": 0}},
     {"topic": "orders", "offsets": {"0": -1}}, {"topic": "orders", "offsets": {"0": 1 << 70}},
     {"topic": "orders", "offsets": {}, "max_bytes": -1}],
)
def test_what_is_no_hold_is_refused(rest: Rest, wrong: dict[str, Any]) -> None:
    rest.post("/topics", {"name": "orders"})
    answer = rest.refused("PUT", "/holds/daily", wrong, prefix="/export/v1")
    assert answer == (400, "invalid_request")


def test_a_hold_of_no_topic_is_refused_and_goes_with_its_topic(rest: Rest) -> None:
    hold = {"topic": "orders", "offsets": {"0": 0}}
    answer = rest.refused("PUT", "/holds/daily", hold, prefix="/export/v1")
    assert answer == (404, "unknown_topic_or_partition")
    rest.post("/topics", {"name": "orders"})
    put(rest, "/holds/daily", hold, "/export/v1")
    rest.ask("DELETE", "/topics/orders")
    assert rest.refused("GET", "/holds/daily", prefix="/export/v1")[0] == 404


def test_all_of_it_is_there_after_a_restart(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        rest = Rest(broker.admin)
        rest.post("/topics", {"name": "orders"})
        put(rest, "/exports/daily", EXPORT)
        rest.post("/exports/daily/runs", run_of(1, partitions=[part(0)]))
        put(rest, "/holds/daily", {"topic": "orders", "offsets": {"0": 7}}, "/export/v1")
        before = rest.get("/exports/daily"), rest.get("/exports/daily/runs")
    with running_broker(tmp_path) as broker:
        rest = Rest(broker.admin)
        assert (rest.get("/exports/daily"), rest.get("/exports/daily/runs")) == before
        assert rest.ask("GET", "/holds/daily", prefix="/export/v1").body["offsets"] == {"0": 7}


def test_so_many_exports_and_no_more(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definitions_and_runs, "EXPORTS_MAX", 2)
    for name in ("a", "b", "a"):
        put(rest, f"/exports/{name}", EXPORT)
    assert rest.refused("PUT", "/exports/c", EXPORT) == (400, "invalid_request")

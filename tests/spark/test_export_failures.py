"""Failures of an export's runs: before the plan, by a kill, or without a start. The broker, its
metrics and health report each."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from appliance.catalog.catalog import Catalog
from appliance.export.definitions_and_runs import Book
from appliance.export.due import NEXT_RUN_BELIEVED_S, overdue
from appliance.export.export_rows import ExportRows
from appliance.testing import RunningBroker, running_broker
from appliance_spark import export_balance, export_run
from appliance_spark.export_broker import AdminPort, BrokerRefused
from appliance_spark.export_layout import ExportFailed
from appliance_spark.export_outcome import Outcomes
from tests.support.export_place import (
    Place,
    run_once,
    scheduler_of,
    small_disk,
    topic_of_ten,
)
from tests.support.rest import Rest

HOURLY = {"cron": "0 * * * *"}
# How long no scheduler reports until that counts; half a second more, for the sum of two floats
# may be a bit less than it is
SILENT_S = NEXT_RUN_BELIEVED_S + 0.5


@pytest.fixture
def place(
    appliance_broker: RunningBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Place]:
    rest = Rest(appliance_broker.admin)
    topic_of_ten(appliance_broker.bootstrap, rest)
    rest.ask("DELETE", "/exports/daily")
    made_place = Place(appliance_broker, tmp_path / "lakes", monkeypatch)
    with made_place.stack:
        yield made_place


def lock_held(place: Place) -> None:
    place.target.own.mkdir(parents=True)
    lock = place.stack.enter_context((place.target.own / "lock").open("w"))
    fcntl.flock(lock, fcntl.LOCK_EX)


def a_file_in_its_place(place: Place) -> None:
    place.target.root.write_text("")


def manifest_is_not_json(place: Place) -> None:
    place.target.own.mkdir(parents=True)
    place.target.manifest.write_text("{")


def manifest_lost(place: Place) -> None:
    folder = place.target.root / "topic=orders/date=2026-11-21/hour=08"
    folder.mkdir(parents=True)
    (folder / "a.parquet").write_text("")


def unmounted(place: Place) -> None:
    place.succeeded("abc", 7)


def replaced(place: Place) -> None:
    place.manifest(id="def", sequence=9)
    place.succeeded("abc", 7)


def older_copy(place: Place) -> None:
    place.manifest(id="abc", sequence=3)
    place.succeeded("abc", 7)


def records_deleted(place: Place) -> None:
    place.exported(2)
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": place.broker.bootstrap})
    for future in admin.delete_records([TopicPartition("orders", 0, 5)]).values():
        future.result(20)


def no_java(place: Place) -> None:
    place.patch.setenv("JAVA_HOME", "/nowhere")


def broken_java(place: Place) -> None:
    java = place.root / "jdk/bin/java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\nexit 1\n")
    java.chmod(0o755)
    place.patch.setenv("JAVA_HOME", str(java.parents[1]))


def disk_full(place: Place) -> None:
    """A full disk before the first byte of a run."""
    if os.geteuid() != 0:
        pytest.skip("only root mounts")
    small_disk(place.target.root, place.stack, "64k")
    with suppress(OSError), (place.target.root / "ballast").open("wb", buffering=0) as ballast:
        while True:
            ballast.write(bytes(4096))


def hostile_manifest(place: Place) -> None:
    place.manifest(table={"format": "iceberg", "name": "lake.{topic}",
                          "catalog": {"py-catalog-impl": "os.system"}})


WAYS: dict[str, tuple[Callable[[Place], Any], str]] = {
    "no topic matches": (lambda p: p.define(topics=[], pattern="none.*"), "has no topic now"),
    "topic deleted": (lambda p: p.rest.ask("DELETE", "/topics/orders"), "orders"),
    "target elsewhere": (lambda p: p.define(target="/srv/other"), "none of the folders for exp"),
    "no folders given": (lambda p: p.words.clear(), "(--root): none was given"),
    "a file in its place": (a_file_in_its_place, "lake"),
    "lock held": (lock_held, "is being written by process"),
    "manifest is not JSON": (manifest_is_not_json, "is not JSON"),
    "manifest of another version": (lambda p: p.manifest(format=99), "has format 99, wanted 1"),
    "manifest lost": (manifest_lost, "has files such as"),
    "not mounted": (unmounted, "and there is no export now. Is its file system mounted?"),
    "replaced": (replaced, "and there is def at commit 9 now. Is its file system mounted?"),
    "an older copy": (older_copy, "and there is abc at commit 3 now. Is its file system mounted?"),
    "topic made anew": (lambda p: p.exported(2, "x" * 22), "is another one than this target hol"),
    "records deleted": (records_deleted, "offsets 2 to 4 (3) were deleted before they were exp"),
    "log is shorter": (lambda p: p.exported(99), "ends at 10, before the position 99"),
    "no such catalog": (lambda p: p.define(options={"table": "iceberg", "catalog": "gone"}),
                        "there is no catalog gone here"),
    "hostile manifest": (hostile_manifest, "can be said in pyiceberg's own configuration alone"),
    "schema is no JSON": (lambda p: p.define(schema="json", options={"schema_json": "{"}),
                          "Expecting property name"),
    "disk full": (disk_full, "No space left on device"),
    "no Java": (no_java, "JAVA_HOME, /nowhere, has no bin/java"),
    "Java that ends at once": (broken_java, "Spark did not start"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_run_that_fails_is_seen(place: Place, way: str) -> None:
    prepare, words = WAYS[way]
    prepare(place)
    run = place.run_apart if prepare is broken_java else place.run
    assert run() != 0
    place.seen(words)


ENDS = {
    "killed, as for want of memory": ("kill -9 $$", "was killed by signal 9 (SIGKILL)"),
    "ended": ("kill -15 $$", "was killed by signal 15 (SIGTERM)"),
    "crashed": ("kill -11 $$", "was killed by signal 11 (SIGSEGV)"),
    "without a word": ("exit 3", "ended with code 3"),
}


@pytest.mark.parametrize("way", ENDS)
def test_a_killed_run_is_reported_by_its_scheduler(place: Place, way: str) -> None:
    script, words = ENDS[way]
    run_once(scheduler_of(place, ["/bin/sh", "-c", script]), time.time())
    place.seen(words)


def test_a_killed_run_that_reported_its_start_is_ended(place: Place) -> None:
    now = time.time()
    begun = {"id": "begun", "state": "running", "started_ms": round((now + 3602) * 1000)}
    place.rest.post("/exports/daily/runs", begun)
    run_once(scheduler_of(place, ["/bin/sh", "-c", "kill -9 $$"]), now)
    place.seen("was killed by signal 9")
    (run,) = place.rest.get("/exports/daily/runs")["runs"]
    assert run["id"] == "begun"


def test_a_report_of_the_run_itself_is_not_repeated(place: Place) -> None:
    place.define(topics=[], pattern="none.*")
    run_once(scheduler_of(place, place.command()), time.time() - 3601)
    place.seen("has no topic now")
    assert len(place.rest.get("/exports/daily/runs")["runs"]) == 1


def test_a_report_that_failed_is_sent_later(place: Place) -> None:
    said: list[str] = []
    port = AdminPort("127.0.0.1:1")
    outcomes = Outcomes(port, said.append)
    outcomes.ended("daily", -signal.SIGKILL, 1.0, 2.0)
    outcomes.tell()
    outcomes.tell()
    assert len(said) == 1  # not each second
    object.__setattr__(port, "address", place.broker.admin)
    outcomes.tell()
    place.seen("was killed by signal 9")


def test_a_definition_that_a_scheduler_refuses_is_reported(place: Place) -> None:
    def refuse(definition: dict[str, Any]) -> dict[str, Any]:
        raise ExportFailed(f"{definition['name']}: its target is elsewhere")

    scheduler = scheduler_of(place, [])
    scheduler.allowed = refuse
    scheduler.step(time.time())
    place.seen("its target is elsewhere")


@pytest.mark.parametrize("cron", ["61 * * * *", "0 0 31 2 *", "0 0 * * mon-xyz"])
def test_a_wrong_cron_is_refused_and_an_old_one_reported(
    place: Place, tmp_path: Path, cron: str
) -> None:
    body = {"topics": ["orders"], "target": "/x", "schedule": {"cron": cron}}
    answer = place.rest.ask("PUT", "/exports/wrong", body)
    assert (answer.status, cron in str(answer.body)) == (400, True)
    (tmp_path / "data").mkdir()
    catalog = Catalog.open(tmp_path / "data/catalog.db")
    ExportRows(catalog).put("daily", json.dumps({**body, "name": "daily"}))
    catalog.close()
    with running_broker(tmp_path / "data") as broker:
        rest = Rest(broker.admin)
        told = [each["text"] for each in rest.get("/health")["findings"]]
        assert any("export daily cannot run as it is defined: schedule" in each for each in told)
        page = rest.raw("GET", "/metrics").body.decode()
        assert 'appliance_export_last_run_failed{export="daily"} 1.0' in page


def test_an_export_without_a_scheduler_is_overdue(tmp_path: Path) -> None:
    catalog = Catalog.open(tmp_path / "catalog.db")
    definition = {"name": "daily", "topics": ["t"], "target": "/x", "schedule": HOURLY}
    ExportRows(catalog).put("daily", json.dumps(definition))
    book = Book(ExportRows(catalog), 3)
    now, later = 1_800_000_000.0, book.since + SILENT_S  # a quarter past: 08:00

    def told(clock: float = later) -> str:
        return overdue(*book.get("daily"), book, now, clock)

    assert told() == ("export daily was due at 2027-01-15 07:00:00Z, and no run began: is its "
                      "scheduler running?")
    assert told(later - 1) == ""  # the broker has just begun
    book.put_next_run("daily", 1, later)
    assert told() == ""  # a scheduler reports
    assert told(later + NEXT_RUN_BELIEVED_S + 1) != ""  # and stops
    begun = {"id": "r", "state": "running", "started_ms": round((now - 60) * 1000)}
    book.put_run("daily", begun)
    gone = later + NEXT_RUN_BELIEVED_S + 1
    assert "nobody has reported its end" in told(gone)
    book.put_run("daily", {**begun, "state": "succeeded"})
    assert told(gone) == ""
    catalog.close()


def test_an_export_that_was_defined_just_now_is_not_overdue_after_a_restart(tmp_path: Path) -> None:
    catalog = Catalog.open(tmp_path / "catalog.db")
    now = time.time()  # an hour may begin meanwhile
    Book(ExportRows(catalog), 3).put({"name": "daily", "schedule": HOURLY})
    book = Book(ExportRows(catalog), 3)
    assert book.get("daily")[0] == {"name": "daily", "options": {}, "schedule": HOURLY}
    later = book.since + SILENT_S
    assert overdue(*book.get("daily"), book, now + NEXT_RUN_BELIEVED_S, later) == ""
    assert overdue(*book.get("daily"), book, now + 7200, later) != ""
    catalog.close()


def test_a_run_that_later_ones_wait_for_is_told_while_its_scheduler_reports(
    tmp_path: Path,
) -> None:
    catalog = Catalog.open(tmp_path / "catalog.db")
    definition = {"name": "daily", "schedule": {**HOURLY, "jitter_seconds": 60}}
    ExportRows(catalog).put("daily", json.dumps(definition))
    book = Book(ExportRows(catalog), 3)
    clock, began = book.since + 1, 1_800_000_000.0  # 08:00
    book.put_next_run("daily", 1, clock)
    run = {"id": "r", "state": "running", "started_ms": round(began * 1000)}
    book.put_run("daily", run)

    def told(minutes: float) -> str:
        return overdue(*book.get("daily"), book, began + minutes * 60, clock)

    assert [told(each) for each in (1, 61, 120)] == ["", "", ""]
    assert told(121) == (
        "run r of export daily began at 2027-01-15 08:00:00Z and has not ended: those due at "
        "2027-01-15 09:00:00Z and 2027-01-15 10:00:00Z wait for it. Its output is in the "
        "scheduler's log")
    book.put({**definition, "schedule": {"cron": "* * * * *"}})
    assert [bool(told(each)) for each in (3, 9, 10)] == [False, False, True]
    book.put_run("daily", {**run, "state": "succeeded"})
    assert told(121) == ""
    catalog.close()


def test_a_run_of_a_wrong_clock_hides_no_failure(place: Place) -> None:
    """The run started ten years in the future. A later report still counts as the newest."""
    future = round((time.time() + 10 * 365 * 86_400) * 1000)
    place.rest.post("/exports/daily/runs", {
        "id": "wrong", "state": "succeeded", "started_ms": future, "plan": {}})
    place.define(topics=[], pattern="none.*")
    assert place.run() != 0
    place.seen("has no topic now")


def test_a_run_of_a_wrong_clock_hides_no_absence(tmp_path: Path) -> None:
    catalog = Catalog.open(tmp_path / "catalog.db")
    ExportRows(catalog).put("daily", json.dumps({"name": "daily", "schedule": HOURLY}))
    book = Book(ExportRows(catalog), 3)
    now, later = 1_800_000_000.0, book.since + SILENT_S
    book.put_run("daily", {"id": "r", "state": "succeeded", "started_ms": round(now * 2000)})
    assert "no run began" in overdue(*book.get("daily"), book, now, later)
    catalog.close()


def test_a_target_is_accepted_on_purpose(place: Place) -> None:
    unmounted(place)
    place.words.append("--accept-target")
    place.patch.setenv("JAVA_HOME", "/nowhere")
    assert place.run() != 0
    place.seen("has no bin/java")  # it has reached this step


@pytest.mark.parametrize(("dead", "is_failed"), [(0, False), (5, False), (6, True), (10, True)])
def test_a_run_of_dead_letters_commits_nothing(dead: int, is_failed: bool) -> None:
    rows = [{"rows": 10 - dead, "dead_letters": dead}]
    if not is_failed:
        export_balance.check_dead_letters(rows, 0.5, [])
        return
    with pytest.raises(ExportFailed, match=f"{dead} of 10 records are dead letters, at most a "):
        export_balance.check_dead_letters(rows, 0.5, [])


def test_a_broker_of_an_older_version_gets_the_report_without_letters() -> None:
    got: list[dict[str, Any]] = []

    class Older(AdminPort):
        def report(self, name: str, run: dict[str, Any]) -> None:
            if "letters" in run or run["id"] == "wrong":
                raise BrokerRefused("letters: no such field", 400)
            got.append(run)

    export_run._send(Older("unused"), "daily", {"id": "r", "letters": []})
    assert got == [{"id": "r"}]
    with pytest.raises(BrokerRefused):
        export_run._send(Older("unused"), "daily", {"id": "wrong"})


def test_no_split_hides_the_dead_letters_of_the_others() -> None:
    def split(partition: int, count: int) -> dict[str, Any]:
        letters = [{"offset": offset, "why": "not JSON"} for offset in range(count)]
        return {"topic": "t", "partition": partition, "letters": letters}

    plan = {"topics": [{"topic": "t", "topic_id": "one"}]}
    few = export_balance.letters_of(plan, [split(0, 2), split(1, 0)])
    assert [(each["partition"], each["offset"]) for each in few] == [(0, 0), (0, 1)]
    many = export_balance.letters_of(plan, [split(each, 50) for each in range(5)])
    assert len(many) == 50
    assert {each["partition"] for each in many} == {0, 1, 2, 3, 4}

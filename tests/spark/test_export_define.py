"""Definitions of exports by the command line, in a broker. No Spark runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from appliance.cli.main import main
from appliance_spark import export_define, export_definition, export_manifest
from appliance_spark.export_broker import AdminPort, BrokerRefused
from appliance_spark.export_layout import Target
from tests.support.spark_data import Sending
from tests.support.warm_broker import WarmBroker as Broker


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Broker(tmp_path_factory.mktemp("define") / "data") as broker:
        Sending(broker).create("clicks")
        yield broker.admin


def invoked(admin: str, *words: str) -> Any:
    return CliRunner().invoke(main, ["export", *words, "--admin", admin])


def told(admin: str, *words: str) -> dict[str, Any]:
    done = invoked(admin, *words, "--json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_an_export_is_defined_changed_and_runs_by_its_options(admin: str, tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"fields": {"id": "long"}}')
    made = told(admin, "define", "lake", "topics=clicks", "target=/srv/lake", "schema=json",
                "layout=day", "zone=Europe/Berlin", "file_bytes=128MiB", "delta=true", "from=7",
                f"schema_json=@{schema}", "schedule=daily 02:00 Europe/Berlin", "retries=5")
    assert made["topics"] == ["clicks"]
    assert made["options"] == {
        "layout": "day", "zone": "Europe/Berlin", "file_bytes": 128 << 20, "delta": True, "from": 7,
        "schema_json": '{"fields": {"id": "long"}}'}
    assert (made["schedule"]["cron"], made["schedule"]["retries"]) == ("0 2 * * *", 5)
    job = export_definition.job_of(made, AdminPort(admin))
    assert (job.wanted.layout, job.wanted.zone, job.wanted.file_bytes, job.has_delta) == (
        "day", "Europe/Berlin", 128 << 20, True)

    changed = told(admin, "set", "lake", "file_bytes=", "schedule=weekly Monday 03:30",
                   "isolation=read_uncommitted")
    assert changed["options"] == {
        **{n: v for n, v in made["options"].items() if n != "file_bytes"},
        "isolation": "read_uncommitted"}
    assert (changed["schedule"]["cron"], changed["schedule"]["retries"]) == ("30 3 * * 1", 5)
    assert told(admin, "set", "lake", "timezone=Asia/Tokyo")["schedule"]["timezone"] == "Asia/Tokyo"
    assert told(admin, "set", "lake", "schedule=")["schedule"] is None


def test_whoever_changes_a_schedule_sees_its_next_runs(admin: str) -> None:
    defined = invoked(admin, "define", "soon", "topics=clicks", "target=/srv/soon",
                      "schedule=daily 02:00 Europe/Berlin")
    assert json.loads(defined.stdout)["schedule"]["cron"] == "0 2 * * *"
    head, *runs = defined.stderr.splitlines()
    assert (head, len(runs)) == ("Next runs:", 3)
    assert all(" 02:00" in each for each in runs)
    changed = invoked(admin, "set", "soon", "schedule=hourly at :05")
    assert all(":05" in each for each in changed.stderr.splitlines()[1:]), changed.stderr
    assert invoked(admin, "set", "soon", "retries=2", "timezone=").exit_code == 0
    assert invoked(admin, "set", "soon", "schedule=").stderr == ""


def test_a_definition_is_shown_and_deleted(admin: str) -> None:
    told(admin, "define", "gone", "topics=clicks", "target=/srv/gone")
    assert told(admin, "show", "gone")["topics"] == ["clicks"]
    asked = CliRunner().invoke(main, ["export", "delete", "gone", "--admin", admin], input="n\n")
    assert asked.exit_code == 1
    assert told(admin, "delete", "gone", "--yes") == {"deleted": "gone"}
    for verb in (["show"], ["delete", "--yes"]):
        assert invoked(admin, *verb, "gone").exit_code == 3


@pytest.mark.parametrize(("words", "code", "reason"), [
    (("define", "again", "topics=clicks", "target=/srv/other"), 4, "there is one already"),
    (("define", "x", "colour=red"), 2, "wanted NAME=VALUE of topics"),
    (("define", "x", "topics=clicks", "target=/srv/x", "layout=week"), 1, "options.layout"),
    (("define", "x", "topics=clicks", "target=/srv/x", "zone=Mars"), 1, "options.zone"),
    (("set", "nothing", "layout=day"), 3, "no export"),
    (("set", "again"), 2, "wanted NAME=VALUE"),
    (("run", "--name", "again", "--layout", "hour"), 2, "--layout is of the definition"),
    (("run", "--name", "again", "--target", "/srv/x"), 2, "--target is of the definition"),
    (("run", "clicks", "--target", "/srv/x", "--schema-file", __file__), 2, "got raw"),
])  # fmt: skip
def test_what_cannot_be_is_refused(
    admin: str, words: tuple[str, ...], code: int, reason: str
) -> None:
    invoked(admin, "define", "again", "topics=clicks", "target=/srv/again")
    done = invoked(admin, *words)
    assert done.exit_code == code, done.output
    assert reason in done.output
    if code == 4:
        assert told(admin, *words, "--replace")["target"] == "/srv/other"


def test_changes_at_the_same_time_lose_none(admin: str) -> None:
    told(admin, "define", "shared", "topics=clicks", "target=/srv/shared")
    pairs = [("grace_seconds", "7"), ("hold_bytes", "1GiB"), ("layout", "day"), ("zone", "UTC"),
             ("file_bytes", "64MiB"), ("delta", "true"), ("split_bytes", "32MiB"),
             ("isolation", "read_uncommitted")]
    with ThreadPoolExecutor(len(pairs)) as threads:
        list(threads.map(
            lambda pair: export_define.set_in(AdminPort(admin), "shared", [pair]), pairs))
    assert AdminPort(admin).definition("shared")["options"] == {
        "grace_seconds": 7, "hold_bytes": 1 << 30, "layout": "day", "zone": "UTC",
        "file_bytes": 64 << 20, "delta": True, "split_bytes": 32 << 20,
        "isolation": "read_uncommitted"}


def test_a_change_of_another_version_is_refused(admin: str) -> None:
    port = AdminPort(admin)
    told(admin, "define", "held", "topics=clicks", "target=/srv/held")
    known = port.definition("held")
    told(admin, "set", "held", "layout=day")
    mine = export_define.changed(known, [("zone", "Europe/Berlin")])
    with pytest.raises(BrokerRefused, match="read it again, and change that") as refused:
        port.define("held", mine, known["status"]["version"])
    assert refused.value.status == 409
    assert port.definition("held")["options"] == {"layout": "day"}
    port.define("held", mine, None)  # as before there were versions
    assert port.definition("held")["options"] == {"zone": "Europe/Berlin"}


def test_dead_letters_of_a_topic_that_the_target_has_not_are_an_error(tmp_path: Path) -> None:
    target = Target(tmp_path)
    export_manifest.save(target, {**export_manifest.empty(), "topics": {"clicks": {}}})
    words = ["export", "dead-letters", "--target", str(tmp_path)]
    assert CliRunner().invoke(main, [*words, "clicks"]).exit_code == 0
    done = CliRunner().invoke(main, [*words, "click"])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"Error: {tmp_path} has no topic click, it has clicks\n"

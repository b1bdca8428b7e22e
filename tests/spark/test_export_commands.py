"""The output of export commands for programs. Fakes with known results do the work here; other
tests of this folder cover the work itself."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from appliance.cli.main import EXPORT_COMMANDS, main
from appliance.testing import RunningBroker
from appliance_spark import (
    export,
    export_compact,
    export_manifest,
    export_run,
    export_session,
    export_verify,
)
from appliance_spark.export_layout import Target
from appliance_spark.export_verify import Verdict
from tests.support.rest import Rest

SUMMARY = {"rows": 7, "dead_letters": 1, "files": 2, "bytes": 900, "started_ms": 1, "ended_ms": 5}


def told(*words: str, code: int = 0) -> Any:
    """Standard output is exactly one JSON object."""
    done = CliRunner().invoke(main, ["export", *words, "--json"])
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def test_each_command_is_listed() -> None:
    assert set(EXPORT_COMMANDS) == set(export.export.commands)


@pytest.mark.parametrize("verb", ["run", "backfill"])
def test_a_run_is_reported(verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_run, "run", lambda *_: SUMMARY)
    assert told(verb, "clicks", "--target", str(tmp_path)) == {"target": str(tmp_path), **SUMMARY}


def test_repaired_files_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_run, "reading_of", lambda *_: None)
    monkeypatch.setattr(export_compact, "repair", lambda *_: ["a.parquet"])
    found = told("backfill", "--lost-files", "--target", str(tmp_path))
    assert found == {"made_again": ["a.parquet"]}


@pytest.mark.parametrize(("problems", "code"), [([], 0), (["a.parquet: 3 rows, wanted 4"], 10)])
def test_a_result_of_verify_is_reported(
    problems: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = Verdict()
    verdict.files, verdict.rows, verdict.problems = 2, 7, problems
    monkeypatch.setattr(export_verify, "verify", lambda *_: verdict)
    found = told("verify", "--offline", "--target", str(tmp_path), code=code)
    assert (found["files"], found["rows"], found["problems"]) == (2, 7, problems)


def test_merged_files_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = {"merged": 5, "into": 1, "deleted": 0}
    monkeypatch.setattr(export_compact, "compact", lambda *_: done)
    assert told("compact", "--target", str(tmp_path)) == done


def when(*words: str) -> str:
    done = CliRunner().invoke(main, ["export", "when", *words, *NOBODY])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_schedule_is_previewed_without_a_broker() -> None:
    """At a time that each day has."""
    cron, *times = when("daily", "04:00", "Europe/Berlin", "--count", "2").splitlines()
    assert cron == "cron: 0 4 * * * in Europe/Berlin"
    assert len(times) == 2
    assert all(re.fullmatch(r"\w{3} \d{4}-\d\d-\d\d 04:00 CES?T {3,4}"
                            r"\w{3} \d{4}-\d\d-\d\d 0[23]:00 UTC", each) for each in times)
    found = json.loads(when("weekly Monday 03:30", "--timezone", "UTC", "--json"))
    assert (found["cron"], len(found["next"])) == ("30 3 * * 1", 5)
    done = CliRunner().invoke(main, ["export", "when", "soonish"])
    assert (done.exit_code, "schedule.when: got 'soonish', wanted" in done.stderr) == (1, True)


def test_the_next_runs_of_all_exports_are_listed(tmp_path: Path) -> None:
    file = tmp_path / "exports.toml"
    tables = {"a": 'when = "daily 02:00 Europe/Berlin"', "b": 'cron = "5 * * * *"',
              "c": 'when = "soon"', "d": None}
    file.write_text("".join(
        f'[[export]]\nname = "{name}"\ntopics = ["x"]\ntarget = "t"\n'
        + (f"schedule = {{{text}}}\n" if text else "") for name, text in tables.items()))
    head, *rows = when("--file", str(file)).splitlines()
    assert head.split() == ["EXPORT", "SCHEDULE", "NEXT", "RUN"]
    assert [row.split("  ")[0] for row in rows] == ["a", "b", "c", "d"]
    assert "daily 02:00 Europe/Berlin  " in rows[0]
    assert re.search(r"5 \* \* \* \* UTC .* \d\d:05 UTC$", rows[1])
    assert re.match(r"c +wrong +schedule\.when: got 'soon', wanted", rows[2])
    assert rows[3].split() == ["d", "manual"]


NOBODY = ("--admin", "127.0.0.1:1")
NO_BROKER = ("http://127.0.0.1:1 cannot be reached: [Errno 111] Connection refused. Is the "
             "broker running (appliance serve)? Give another address with --admin or "
             "APPLIANCE_ADMIN_ADDRESS, or log in there once (appliance login URL)")


@pytest.mark.parametrize("verb", ["run clicks", "backfill clicks", "verify", "run --name n"])
def test_without_a_broker_it_is_said_who_was_asked_and_spark_is_not_started(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Target(tmp_path)
    target.own.mkdir()
    if verb == "verify":
        export_manifest.save(target, export_manifest.empty())
    monkeypatch.setattr(export_session, "_session", lambda *_: pytest.fail("Spark was started"))
    target = [] if "--name" in verb else ["--target", str(tmp_path)]
    words = ["export", *verb.split(), *target, *NOBODY]
    done = CliRunner().invoke(main, words)
    assert (done.exit_code, done.stderr) == (5, f"Error: {NO_BROKER}\n")


def test_what_a_broker_refuses_has_the_exit_code_of_other_commands(
    appliance_broker: RunningBroker, tmp_path: Path
) -> None:
    words = ["export", "run", "none", "--target", str(tmp_path), "--admin", appliance_broker.admin]
    done = CliRunner().invoke(main, words)
    assert (done.exit_code, "none" in done.stderr) == (3, True), done.stderr


def test_the_exports_of_a_broker_are_listed_with_what_is_wrong(
    appliance_broker: RunningBroker,
) -> None:
    rest = Rest(appliance_broker.admin)
    for name, more in (("hand", {}), ("nightly", {"schedule": {"when": "daily 02:00 UTC"}}),
                       ("cron", {"schedule": {"cron": "5 * * * *", "timezone": "UTC"}})):
        body = {"topics": ["clicks"], "target": f"/lakes/{name}", **more}
        assert rest.ask("PUT", f"/exports/{name}", body).status == 200
    run = {"id": "one", "state": "failed", "started_ms": 10_800_000, "error": "no room\nat all",
           "plan": {"due_ms": 0, "missed": 2}}
    in_time = {"id": "two", "state": "succeeded", "started_ms": 60_000, "plan": {"due_ms": 0}}
    rest.post("/exports/cron/runs", in_time)
    rest.post("/exports/nightly/runs", run)
    rest.ask("PUT", "/exports/cron/next", {"next_run_ms": 300_000})
    done = CliRunner().invoke(main, ["export", "list", "--admin", appliance_broker.admin])
    assert [re.split(r"  +", line) for line in done.stdout.splitlines()] == [
        ["EXPORT", "LAST RUN", "LAG", "NEXT RUN", "SCHEDULE", "TARGET"],
        ["cron", "succeeded 1970-01-01 00:01:00Z", "none", "1970-01-01 00:05:00Z",
         "5 * * * * UTC", "/lakes/cron"],
        ["hand", "none yet", "none", "-", "manual", "/lakes/hand"],
        ["nightly", "failed 1970-01-01 03:00:00Z", "none", "-", "daily 02:00 UTC",
         "/lakes/nightly"],
        ["the last run of nightly began 3.0 h late and makes up for 2 missed runs"],
        ["the last run of nightly failed: no room"]]
    for name in ("hand", "nightly", "cron"):
        rest.ask("DELETE", f"/exports/{name}")


@pytest.mark.parametrize("verb", ["verify --offline", "list"])
def test_a_target_that_was_misspelt_is_not_a_good_one(verb: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["export", *verb.split(), "--target", str(tmp_path / "lkae")])
    assert done.exit_code == 1
    assert f"{tmp_path}/lkae has no export: there is no {tmp_path}/lkae/_export" in done.stderr


def test_a_scheduler_says_a_line_for_each_thing(capsys: pytest.CaptureFixture[str]) -> None:
    export._say_as_json("clicks: starts")
    line = json.loads(capsys.readouterr().out)
    assert line["text"] == "clicks: starts"
    assert line["at_ms"] > 0

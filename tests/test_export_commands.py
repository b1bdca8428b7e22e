"""What the commands of exports say to programs. What they do is told by tests/spark; here the work
itself is done by others, whose outcome is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from appliance.cli import EXPORT_COMMANDS, main
from appliance_spark import export, export_compact, export_run, export_verify
from appliance_spark.export_verify import Verdict

SUMMARY = {"rows": 7, "dead_letters": 1, "files": 2, "bytes": 900, "started_ms": 1, "ended_ms": 5}


def told(*words: str, code: int = 0) -> Any:
    """Standard output is one object, and nothing beside it."""
    done = CliRunner().invoke(main, ["export", *words, "--json"])
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def test_each_command_is_listed() -> None:
    assert set(EXPORT_COMMANDS) == set(export.export.commands)


@pytest.mark.parametrize("verb", ["run", "backfill"])
def test_a_run_is_told(verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_run, "run", lambda *_: SUMMARY)
    assert told(verb, "clicks", "--target", str(tmp_path)) == {"target": str(tmp_path), **SUMMARY}


def test_files_that_were_made_again_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_run, "reading_of", lambda *_: None)
    monkeypatch.setattr(export_compact, "repair", lambda *_: ["a.parquet"])
    found = told("backfill", "--lost-files", "--target", str(tmp_path))
    assert found == {"made_again": ["a.parquet"]}


@pytest.mark.parametrize(("problems", "code"), [([], 0), (["a.parquet: 3 rows, wanted 4"], 10)])
def test_a_verdict_is_told(
    problems: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = Verdict()
    verdict.files, verdict.rows, verdict.problems = 2, 7, problems
    monkeypatch.setattr(export_verify, "verify", lambda *_: verdict)
    found = told("verify", "--offline", "--target", str(tmp_path), code=code)
    assert (found["files"], found["rows"], found["problems"]) == (2, 7, problems)


def test_what_was_merged_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = {"merged": 5, "into": 1, "deleted": 0}
    monkeypatch.setattr(export_compact, "compact", lambda *_: done)
    assert told("compact", "--target", str(tmp_path)) == done


def test_a_scheduler_says_a_line_for_each_thing(capsys: pytest.CaptureFixture[str]) -> None:
    export._say_as_json("clicks: starts")
    line = json.loads(capsys.readouterr().out)
    assert line["text"] == "clicks: starts"
    assert line["at_ms"] > 0

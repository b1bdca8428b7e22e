from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from appliance.cli import main


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, arguments, env=environment)


def test_settings_prints_what_serve_would_use(tmp_path: Path) -> None:
    file = tmp_path / "appliance.toml"
    file.write_text("log.roll.ms = 5\n")
    result = run("settings", "--config", str(file), "--set", "commit.threads=2")
    assert result.exit_code == 0
    assert "log.roll.ms = 5   (not the default)\n" in result.stdout
    assert "commit.threads = 2   (not the default)\n" in result.stdout
    assert "log.segment.bytes = 1073741824\n" in result.stdout


def test_settings_as_json(tmp_path: Path) -> None:
    result = run(
        "settings", "--json", "--data-dir", str(tmp_path), APPLIANCE_ADMIN_ADDRESS="[::1]:0"
    )
    values = json.loads(result.stdout)
    assert values["data.dir"] == str(tmp_path)
    assert values["admin.address"] == "[::1]:0"
    assert values["log.cleaner.min.cleanable.ratio"] == 0.5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "log.rol.ms=1"], "no such setting (--set); did you mean log.roll.ms?"),
        (["--set", "log.roll.ms=soon"], "got 'soon' (--set), wanted a whole number"),
        (["--config", "absent.toml"], "file absent.toml: No such file or directory"),
        (["--admin", "here"], "admin.address: got 'here' (flag), wanted HOST:PORT"),
    ],
)
def test_a_wrong_setting_ends_with_code_2(arguments: list[str], words: str) -> None:
    result = run("serve", *arguments)
    assert result.exit_code == 2
    assert words in result.stderr

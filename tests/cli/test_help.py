"""`--help` of every command where nothing of the extras is installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest

from appliance.cli.main import main
from tests.cli.test_cli import commands

ROOT = Path(__file__).parents[2]
WITH_THEM = {"py4j"}  # comes with PySpark
CLIENTS = {"confluent_kafka", "kafka", "aiokafka", "grpc"}  # of others

# The process has no module of the names that it is given, and then runs command lines.
ASKED = """
import json, sys

class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in without:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

without, lines = json.loads(sys.stdin.read())
sys.meta_path.insert(0, Nothing())
from click.testing import CliRunner
from appliance.cli.main import main
found = {}
for each in lines:
    done = CliRunner().invoke(main, each.split(), prog_name="appliance")
    found[each] = [done.exit_code, done.output, repr(done.exception)]
print(json.dumps(found))
"""
Answers = dict[str, tuple[int, str, str]]  # by line: exit code, output, exception


def extras() -> set[str]:
    """Modules that are there only with an extra for users."""
    toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    project = toml.loads((ROOT / "pyproject.toml").read_text())["project"]

    def names(rows: list[str]) -> set[str]:
        return {match.group().lower() for row in rows if (match := re.match(r"[\w-]+", row))}

    optional = [each for name, rows in project["optional-dependencies"].items()
                if name not in ("dev", "release", "package") for each in rows]
    found = names(optional) - names(project["dependencies"]) - {"appliance-log"}
    return {each.replace("-", "_") for each in found} | WITH_THEM | CLIENTS


def groups(group: click.Group, *names: str) -> set[str]:
    context = click.Context(group)
    found = {" ".join(names)}
    for name in group.list_commands(context):
        each = group.get_command(context, name)
        if isinstance(each, click.Group):
            found |= groups(each, *names, name)
    return found


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    without = sorted(extras())
    assert {"pyspark", "pyarrow", "rich", "fsspec", "pyiceberg", "locust"} <= {*without}
    helps = [f"{name} --help" for name in sorted(commands(main).keys() | groups(main))]
    lines = [*helps, "export compact --target .", "export verify --target ."]
    done = subprocess.run(
        [sys.executable, "-c", ASKED], input=json.dumps([without, lines]), capture_output=True,
        text=True, cwd=tmp_path_factory.mktemp("here"), check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: Answers = json.loads(done.stdout)
    return found


def test_every_command_tells_what_it_is_without_the_extras(answers: Answers) -> None:
    helps = {line: told for line, told in answers.items() if line.endswith("--help")}
    assert {line: told for line, told in helps.items() if told[0]} == {}
    assert [line for line, told in helps.items() if "Usage: appliance" not in told[1]] == []


@pytest.mark.parametrize("command", ["compact", "verify"])
def test_an_export_says_what_it_needs(answers: Answers, command: str) -> None:
    code, output, _ = answers[f"export {command} --target ."]
    assert code == 1
    assert "which is not installed: pip install 'appliance-log[export]'" in output

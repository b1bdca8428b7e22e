"""What docs/first-steps.md shows of the command line, typed into a shell; and that no page names a
command or an option that is not there. Numbers, and units with them, may differ; every other word
may not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest

from appliance.cli.main import main
from appliance.testing import RunningBroker, running_broker

ROOT = Path(__file__).parents[1]
SERVICES = sorted((ROOT / "packaging" / "systemd").glob("*.service"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WAIT_S = 30.0
HOME = "/srv/appliance"  # as the page has it
CHANGES = " create ", " produce ", " --group "
UNITS = r"(?:(?:B|KiB|MiB|GiB|TiB)(?:/s)?|ms|s|min|h|d)\b"


@dataclass(frozen=True)
class Typed:
    line: str
    shown: list[str]


def typed(text: str) -> list[Typed]:
    """`$ line`, and what is shown below it."""
    found: list[Typed] = []
    for block in re.findall(r"^```\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Typed(line.removeprefix("$ "), []))
            elif found and block.startswith("$ "):
                found[-1].shown.append(line)
    return found


SESSION = [each for name in ("README.md", "docs/first-steps.md")
           for each in typed((ROOT / name).read_text())]


def masked(line: str) -> str:
    line = re.sub(rf"\d+(?:\.\d+)*(?: {UNITS})?", "#", line)
    return " ".join(line.split())


def is_as_shown(shown: list[str], output: str) -> bool:
    """`...` stands for any lines."""
    lines = [masked(each) for each in output.splitlines()]
    position, is_anywhere = 0, False
    for each in shown:
        if each.strip() == "...":
            is_anywhere = True
            continue
        rest = lines[position:] if is_anywhere else lines[position : position + 1]
        if masked(each) not in rest:
            return False
        position += rest.index(masked(each)) + 1
        is_anywhere = False
    return is_anywhere or position == len(lines)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    """A new one: the page makes all that it shows."""
    with running_broker(tmp_path / "data", {"group.lag.interval.seconds": "1"}) as running:
        yield running


@pytest.fixture
def shell(tmp_path: Path, broker: RunningBroker) -> Any:
    """As that of somebody who has installed it, in the directory of the broker."""
    program = tmp_path / "bin" / "appliance"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m appliance "$@"\n')
    program.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "APPLIANCE_ADMIN_ADDRESS": broker.admin,
    }

    def run(line: str) -> str:
        done = subprocess.run(["bash", "-c", line], cwd=tmp_path, env=environment,
                              capture_output=True, text=True, check=False)
        return (done.stdout + done.stderr).replace(str(tmp_path), HOME)

    return run


def test_what_the_first_steps_show_is_what_one_gets(shell: Any, broker: RunningBroker) -> None:
    lines = [each.line for each in SESSION]
    for wanted in ("health --json", "status", "consume", "log verify"):
        assert any(f"appliance {wanted}" in line for line in lines), wanted
    for each in SESSION:
        if " log " in each.line:
            broker.stop()
        output, deadline = shell(each.line), time.monotonic() + WAIT_S
        # lag and health follow within seconds; what changes something is not done twice
        while not is_as_shown(each.shown, output) and time.monotonic() < deadline:
            assert not any(word in each.line for word in CHANGES), output
            output = shell(each.line)
        assert is_as_shown(each.shown, output), f"$ {each.line}\n{output}"


@pytest.mark.parametrize(
    ("shown", "output", "is_so"),
    [
        (["a 1.5 s"], "a  12 min\n", True),
        (["a 1", "b"], "a 1\n", False),
        (["a"], "a\nb\n", False),
        (["a", "..."], "a\nb\n", True),
        (["...", "b 2", "..."], "a\nb 3\nc\n", True),
        (["...", "d"], "a\nb\n", False),
        (["1 messages"], "1 records\n", False),
    ],
)
def test_the_comparison_can_fail(shown: list[str], output: str, is_so: bool) -> None:
    assert is_as_shown(shown, output) == is_so


# Every page


def named(text: str) -> Iterator[list[str]]:
    """The words after `appliance` in code, up to what a shell would do with them."""
    blocks = re.findall(r"^ *```\w*\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    typed_lines = [line.strip().removeprefix("$ ") for each in blocks for line in each.splitlines()]
    bare = re.sub(r"^ *```\w*\n.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    for code in [*typed_lines, *re.findall(r"`([^`\n]+)`", bare)]:
        if code.startswith("appliance ") and "=" not in code.split()[1]:
            yield re.split(r" [|<>&;]", code)[0].split()[1:]


def wrong_in(words: list[str]) -> str:
    """"": each is a command, an option of it, or for the command to judge."""
    command: click.Command = main
    for word in words:
        context = click.Context(command)
        flags = {flag for each in command.get_params(context)
                 for flag in (*each.opts, *each.secondary_opts)}
        if word.startswith("--") and word.partition("=")[0] not in flags:
            return f"{' '.join(words)}: {command.name} has no {word}"
        if not isinstance(command, click.Group) or word.startswith("-"):
            continue
        found = command.get_command(context, word)
        if found is not None:
            command = found
        elif not command.invoke_without_command:
            return f"{' '.join(words)}: there is no {word}"
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_commands_that_are_there(page: Path) -> None:
    assert [each for words in named(page.read_text()) if (each := wrong_in(words))] == []


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.name)
def test_a_unit_of_systemd_starts_a_command_that_is_there(unit: Path) -> None:
    text = unit.read_text()
    (line,) = re.findall(r"^ExecStart=/usr/bin/env appliance (.*)$", text, re.MULTILINE)
    assert wrong_in(line.split()) == ""


def test_a_wrong_command_is_found() -> None:
    text = "`appliance topic lst` and\n```\n$ appliance log verify data --quick\n```\n"
    assert len([words for words in named(text) if wrong_in(words)]) == 2

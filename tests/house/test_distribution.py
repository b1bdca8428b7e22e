"""Whoever follows our advice installs our code: no page and no message names a distribution that is
not ours, not in the clone, and not one that we depend on."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import InvalidRequirement, Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
NAME = "appliance-log"
INSTALLS = re.compile(
    r"\b(?:pip3?|pipx|conda|uv pip|uv tool) (?:install|download)\b|\b(?:uv|poetry) add\b|"
    r"\buvx\b|\$\(PIP\)")
WORDS = re.compile(r"[^\n`\"#;()&|]*")  # of one command


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def requirements() -> list[Requirement]:
    extras = project()["optional-dependencies"].values()
    lists = [project()["dependencies"], *extras]
    return [Requirement(each) for wanted in lists for each in wanted]


@cache
def depended_on() -> set[str]:
    return {each.name for each in requirements()} | {NAME}


def advised(text: str) -> list[str]:
    """All that is installed by name where a text says `pip install` or its like, in one literal or
    in several; and extras of a bare `appliance`."""
    found = re.findall(r"\bappliance\[[\w,]*\]", text)
    text = re.sub(r"\"\s*\n\s*[fr]?\"", "", text)
    text = re.sub(r"\\\s*\n\s*", " ", text)
    text = text.replace("\\", "")  # of patterns that look for advice
    for said in INSTALLS.finditer(text):
        command = WORDS.match(text, said.end())
        assert command is not None
        words = (each.strip("'") for each in command[0].split())
        found += [each for each in words if not each.startswith("-")]
    return found


def foreign(text: str) -> list[str]:
    return [each for each in advised(text) if not _is_known(each)]


def _is_known(word: str) -> bool:
    if word.startswith((".", "/", "{", "-")):  # the clone, a file, a name that is filled in
        return True
    try:
        return Requirement(word).name in depended_on()
    except InvalidRequirement:
        return False


def texts() -> dict[str, str]:
    """All that is in the clone and is text, but this file."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True,
                            text=True).stdout.splitlines()
    found = {}
    for name in set(listed) - {str(Path(__file__).relative_to(ROOT))}:
        if (ROOT / name).is_file():  # a link to a folder has its files under another name
            with suppress(UnicodeDecodeError):
                found[name] = (ROOT / name).read_text()
    return found


def test_no_advice_installs_what_is_not_ours() -> None:
    found = texts()
    places = ("spark/export_avro.py", "loadtest/README.md", "appliance/cli/main.py", "Makefile")
    for place in places:
        assert advised(found[place]), place
    wrong = {name: words for name, text in found.items() if (words := foreign(text))}
    assert wrong == {}


@pytest.mark.parametrize("place", ["spark/", "loadtest/", "packaging/", "appliance/static/",
                                   "Makefile", ".ci/", "docs/", "bench/", "examples/"])
def test_all_that_may_give_advice_is_looked_at(place: str) -> None:
    assert any(name.startswith(place) for name in texts())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("pip install 'appliance[spark]'", ["appliance[spark]", "appliance[spark]"]),
        ("(`appliance[spark]`)", ["appliance[spark]"]),
        ("pip install appliance", ["appliance"]),
        ("pip install --quiet appliance-lib", ["appliance-lib"]),
        ("pip install '.[export,iceberg]'", []),
        ("pip install 'appliance-log[avro]'", []),
        (".venv/bin/pip install 'pyspark==4.0.*'", []),
        ("pip install pyarrow 'appliance'", ["appliance"]),
        ('"wants it: pip install "\n    "appliance-spark"', ["appliance-spark"]),
        ("pip install -U \\\n  appliance", ["appliance"]),
        ("pipx install appliance-cli", ["appliance-cli"]),
        ("uv pip install appliance", ["appliance"]),
        ("uvx appliance serve", ["appliance", "serve"]),
        ("$(PIP) appliance-dev", ["appliance-dev"]),
        ("RUN pip3 install appliance && appliance serve", ["appliance"]),
        ("`pip install .`, then `appliance serve`", []),
    ],
)
def test_the_search_finds_what_is_planted(text: str, found: list[str]) -> None:
    assert foreign(text) == found


def test_the_command_and_the_extras_are_those_of_our_distribution() -> None:
    assert project()["name"] == NAME
    assert project()["scripts"] == {"appliance": "appliance.__main__:main"}
    ours = [each for each in requirements() if each.name.startswith("appliance")]
    assert {each.name for each in ours} == {NAME}

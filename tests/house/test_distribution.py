"""Whoever follows our advice installs our code: no page and no message names a distribution that is
not ours, not in the clone, and not one that we depend on."""

from __future__ import annotations

import re
import subprocess
import sys
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
TEXTS = (".md", ".py", ".pyx", ".toml", ".service", ".sh", ".js", ".mjs")


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
    """What is installed by name where a text says `pip install`; extras of a bare `appliance`."""
    found = re.findall(r"\bappliance\[[\w,]*\]", text)
    text = text.replace("\\", "")  # of patterns that look for advice
    found += re.findall(r"pip install (?:-\S+ )*[\"']?([^\s\"'`,;)]+)", text)
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


def test_no_advice_installs_what_is_not_ours() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True,
                            text=True).stdout.split("\n")
    pages = [ROOT / name for name in listed
             if name.endswith(TEXTS) and name != str(Path(__file__).relative_to(ROOT))]
    texts = {page: page.read_text() for page in pages if page.exists()}
    assert sum("pip install" in text for text in texts.values()) > 5
    assert {str(page): found for page, text in texts.items() if (found := foreign(text))} == {}


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
    ],
)
def test_the_search_finds_what_is_planted(text: str, found: list[str]) -> None:
    assert foreign(text) == found


def test_the_command_and_the_extras_are_those_of_our_distribution() -> None:
    assert project()["name"] == NAME
    assert project()["scripts"] == {"appliance": "appliance.__main__:main"}
    ours = [each for each in requirements() if each.name.startswith("appliance")]
    assert {each.name for each in ours} == {NAME}
    assert f'requires("{NAME}")' in (ROOT / "Makefile").read_text()

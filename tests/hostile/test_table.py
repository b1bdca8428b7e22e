"""docs/hostile-inputs.md names every test of this folder, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from appliance.config import settings
from tests.hostile import admin_port
from tests.hostile.conftest import SETTINGS
from tests.support.walking import below

FOLDER = Path(__file__).parent
PAGE = FOLDER.parents[1] / "docs/hostile-inputs.md"


def rows() -> list[list[str]]:
    inputs, _, _ = PAGE.read_text().partition("## What attacks cost")
    lines = [line for line in inputs.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[0] != "input"]


def names_here() -> set[str]:
    found = set()
    for path in FOLDER.glob("test_*.py"):
        if path != Path(__file__):
            found |= set(re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE))
    return found


def test_every_row_has_its_test_and_every_test_its_row() -> None:
    assert all(len(row) == 4 for row in rows())
    assert {row[3].strip("`") for row in rows()} == names_here()


def test_what_other_folders_test_is_there() -> None:
    """In the chapters behind those of this folder."""
    _, _, others = PAGE.read_text().partition("## What attacks cost")
    named = set(re.findall(r"`(test_\w+)`", others))
    folder = FOLDER.parent
    files = [*below(folder, "test_*.py")]
    found = "\n".join(each.read_text() for each in files)
    assert named - set(re.findall(r"^(?:async )?def (test_\w+)", found, re.MULTILINE)) - {
        each.stem for each in files
    } == set()
    pages = set(re.findall(r"`tests/([\w/]+\.py)`", others))
    assert {each for each in pages if not (folder / each).exists()} == set()


def test_every_limit_is_a_setting() -> None:
    names = set(settings())
    assert {row[2].strip("`") for row in rows()} - {""} <= names
    assert set(SETTINGS) | set(admin_port.SETTINGS) <= names

"""docs/consoles.md: what it says of our console is shown by a test that there is."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parents[2]
CONSOLE = HERE / "tests" / "console"
SHOWN = re.compile(r"`(test_\w+\.py)::(test_\w+)`")
OURS, SHOWN_BY = 5, 6


def rows() -> list[list[str]]:
    lines = (HERE / "docs" / "consoles.md").read_text().splitlines()
    table = [line for line in lines if line.startswith("| ")][1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def test_each_row_that_is_ours_names_a_test_that_there_is() -> None:
    found = rows()
    assert len(found) > 30
    for row in found:
        is_ours, shown = row[OURS][0] in "●◐", SHOWN.findall(row[SHOWN_BY])
        assert is_ours == bool(row[SHOWN_BY]), row
        for file, name in shown:
            assert f"def {name}(" in (CONSOLE / file).read_text(), row


def test_what_is_not_ours_is_said() -> None:
    assert any(row[OURS] == "○" for row in rows())

"""bench/remarks.md: the reasons why figures are behind or miss their goals, by case and figure."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from bench.results import Comparison

FILE = Path(__file__).with_suffix(".md")
HEADING = "## "

Remarks = Mapping[str, str]  # by heading


def load(file: Path = FILE) -> Remarks:
    remarks: dict[str, list[str]] = {}
    heading = ""
    for line in file.read_text().splitlines():
        if line.startswith(HEADING):
            heading = line.removeprefix(HEADING)
            if heading in remarks:
                raise ValueError(f"{file} has two remarks on {heading!r}")
            remarks[heading] = []
        elif heading:
            remarks[heading].append(line)
    return {heading: "\n".join(lines).strip() for heading, lines in remarks.items()}


def is_about(heading: str, case: str, figure: str) -> bool:
    cases, _, figures = heading.rpartition(": ")
    return fnmatchcase(case, cases) and fnmatchcase(figure, figures)


def heading_of(remarks: Remarks, each: Comparison) -> str | None:
    """The heading of the first remark on the figure."""
    return next((heading for heading in remarks if is_about(heading, each.case, each.figure)), None)

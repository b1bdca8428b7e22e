"""A rule and the files it holds for. One test asks all files: of five thousand tests, one for each
file and rule, most of the time was pytest's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def offenders(paths: Iterable[Path], faults: Callable[[Path], Any]) -> dict[str, Any]:
    """What is wrong with each of the files that break the rule, by the file's name."""
    asked = list(paths)
    assert asked, "a rule that nothing is asked"
    return {str(path.relative_to(ROOT)): found for path in asked if (found := faults(path))}

"""`make test-long` runs what the mark `release` takes out of the gate, which keeps one of each."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.walking import below

ROOT = Path(__file__).parents[2]
WANTED = re.compile(r"mark\.release|support\.release")
ELSEWHERE = re.compile(r"\btests/[\w/]+\.py\b")


class Test(NamedTuple):
    name: str
    marks: list[str]
    why: str | None  # it is for the releases alone

    __test__ = False

    @property
    def file(self) -> str:
        return self.name.partition("::")[0]


def recipe(target: str) -> str:
    text = (ROOT / "Makefile").read_text()
    lines = r"(?:\t.*\n|ifdef.*\n|else\n|endif\n)+"
    found = re.search(rf"^{target}:.*\n({lines})", text, re.MULTILINE)
    assert found, f"wanted a recipe of {target}"
    return found[1]


def is_run_by(target: str, test: Test) -> bool:
    """As pytest reads `-m`: a mark's name is true where the test has it."""
    wanted = re.findall(r'-m "([\w ]+)"', recipe(target))
    assert wanted, f"wanted a -m of {target}"
    names = {"alone", "release"}
    return any(eval(each, {name: name in test.marks for name in names}) for each in wanted)


def collected(files: list[str]) -> list[Test]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", __name__]
    done = subprocess.run([*command, *files], cwd=ROOT, capture_output=True, text=True,
                          env={"PYTHONPATH": str(Path(__file__).parent)})  # fmt: skip
    (line,) = [each for each in done.stdout.splitlines() if each.startswith("[[")]
    return [Test(*each) for each in json.loads(line)]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the process that collects: this module is a plugin there."""
    found = []
    for item in items:
        mark = item.get_closest_marker("release")
        why = " ".join(map(str, mark.args)) if mark else None
        found.append((item.nodeid, [each.name for each in item.iter_markers()], why))
    print(f"\n{json.dumps(found)}")


def uncovered(tests: list[Test]) -> list[str]:
    """Files of which the gate runs nothing, and whose reasons name no other file that it runs."""
    by_file = defaultdict(list)
    for test in tests:
        by_file[test.file].append(test)
    found = []
    for file, ours in by_file.items():
        named = {name for test in ours for name in ELSEWHERE.findall(test.why or "")}
        is_elsewhere = any((ROOT / name).exists() and name != file for name in named)
        if all(test.why is not None for test in ours) and not is_elsewhere:
            found.append(file)
    return found


@pytest.fixture(scope="module")
def marked() -> list[Test]:
    """All tests of the files that have such a mark."""
    texts = {path: path.read_text() for path in below(ROOT / "tests", "test_*.py")}
    files = [path for path, text in texts.items() if WANTED.search(text)]
    names = [str(path.relative_to(ROOT)) for path in files if path != Path(__file__)]
    return collected(sorted(names))


def test_the_gate_leaves_out_what_is_for_releases_and_test_long_runs_all(
    marked: list[Test],
) -> None:
    ours = [test for test in marked if test.why is not None]
    assert ours
    assert [test.name for test in ours if is_run_by("test", test)] == []
    assert [test.name for test in marked if not is_run_by("test-long", test)] == []
    rest = [test for test in marked if test.why is None]
    assert [test.name for test in rest if not is_run_by("test", test)] == []


def test_every_mark_has_its_reason(marked: list[Test]) -> None:
    assert [test.name for test in marked if test.why is not None and len(test.why) < 10] == []


def test_every_file_keeps_a_test_in_the_gate_or_names_the_file_that_covers_it(
    marked: list[Test],
) -> None:
    assert uncovered(marked) == []


def test_a_file_without_a_test_in_the_gate_is_found() -> None:
    here = Test("tests/a.py::test_a", ["release"], "more kills")
    there = here._replace(why="more than tests/house/test_release_marks.py has")
    assert uncovered([here]) == ["tests/a.py"]
    assert uncovered([there]) == uncovered([here, Test("tests/a.py::test_b", [], None)]) == []

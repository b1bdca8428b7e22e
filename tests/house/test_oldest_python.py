"""What the oldest Python that we promise, 3.10, does not compile, and newer ones do."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("appliance", "spark", "loadtest")
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def nested_awaits(text: str) -> list[int]:
    """Lines of comprehensions that await, within another one."""
    outer = [each for each in ast.walk(ast.parse(text)) if isinstance(each, COMPREHENSIONS)]
    return [
        inner.lineno
        for each in outer
        for inner in ast.walk(each)
        if inner is not each
        and isinstance(inner, COMPREHENSIONS)
        and any(isinstance(step, ast.Await) for step in ast.walk(inner))
    ]


def test_no_comprehension_awaits_within_another() -> None:
    files = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    assert len(files) > 500
    assert {str(each): found for each in files if (found := nested_awaits(each.read_text()))} == {}


def test_one_that_does_is_found() -> None:
    assert nested_awaits("async def f():\n    return [[await g(x) for x in y] for y in z]") == [2]
    assert nested_awaits("async def f():\n    return [await g(x) for x in y]") == []

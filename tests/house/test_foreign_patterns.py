"""A regular expression that somebody else wrote is RE2's: `process/patterns.py`. Python's `re` sees
literals of our own alone, for it can be kept busy for ever. Nor may one of those read the same
characters twice in a row without a limit: of a million digits it would try each place between."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.offenders import offenders

ROOT = Path(__file__).parents[2]
COMPILING = {"compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall",
             "finditer"}  # fmt: skip
# The user's own, in a process of the user's own, with all that Python's have; our routes' paths.
THEIR_OWN = {
    "appliance/bulk_http/routes.py": (
        "re.compile(re.sub('{(\\\\w+)}', '(?P<\\\\1>[^/]+)', route.url))"
    ),
    "spark/options.py": "re.compile(text)",
    "spark/appliances.py": "re.compile(self.chosen.pattern)",
}


def files() -> list[Path]:
    return sorted(each for name in ("appliance", "spark") for each in (ROOT / name).rglob("*.py"))


def foreign(text: str) -> Iterator[str]:
    """What is compiled that is no literal."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module in ("re", "re2"):
            yield ast.unparse(node)  # hides whose it is
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in COMPILING
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id in ("re", "re2")
            and not (node.args and is_literal(node.args[0]))
        ):
            yield ast.unparse(node)


# The same class twice, each without a limit, with nothing between them that must be there.
ATOM = r"\\?[^()\[\]]|\[[^\]]+\]|\([^()]*\)"
TWICE = re.compile(rf"(\[[^\]]+\]|\\\w|(?<!\\)\.)[+*](?:(?:{ATOM})[?*])*\1[+*]")


def twice(text: str) -> Iterator[str]:
    """Literals of our own that take time in proportion to the square of the text."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and is_of_re(node.func) and node.args:
            for each in ast.walk(node.args[0]):
                value = each.value if isinstance(each, ast.Constant) else None
                if isinstance(value, str) and TWICE.search(value):
                    yield value


def is_of_re(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and (
        node.value.id == "re")


def is_literal(node: ast.expr) -> bool:
    """Text, or text in which names are put that `re.escape` has made harmless."""
    if isinstance(node, ast.JoinedStr):
        return all(
            isinstance(each, ast.Constant)
            or (isinstance(each, ast.FormattedValue)
                and ast.unparse(each.value).startswith("re.escape("))
            for each in node.values
        )  # fmt: skip
    return isinstance(node, ast.Constant)


def not_re2(path: Path) -> set[str | None]:
    return {*foreign(path.read_text())} - {THEIR_OWN.get(str(path.relative_to(ROOT)))}


def test_patterns_of_others_are_re2() -> None:
    read = [path for path in files() if path != ROOT / "appliance/process/patterns.py"]
    assert offenders(read, not_re2) == {}


def test_none_of_ours_reads_the_same_twice() -> None:
    assert offenders(files(), lambda path: list(twice(path.read_text()))) == {}


@pytest.mark.parametrize(
    ("pattern", "is_twice"),
    [
        (r"[0-9]+\.?[0-9]*", True),
        (r"([a-z]+\.)+[a-z]*(\{topic\})?[a-z]*", True),
        (r".*.*x", True),
        (r"\d+\d*", True),
        (r"[0-9]+(\.[0-9]*)?", False),
        (r"[0-9]+:[0-9]+", False),
        (r".*\.*", False),
        (r"[a-z]*[0-9]*", False),
    ],
)
def test_what_reads_the_same_twice_is_found(pattern: str, is_twice: bool) -> None:
    assert bool(list(twice(f"re.compile(r'{pattern}')"))) is is_twice


@pytest.mark.parametrize(
    "text",
    [
        "import re\nre.compile(pattern)",
        "re.fullmatch(self.pattern, text)",
        "from re import compile",
        "re2.compile(text)",
        "re.search(f'{name}$', text)",
        "re.compile('a' + b)",
    ],
)
def test_a_foreign_pattern_is_found(text: str) -> None:
    assert list(foreign(text))


def test_a_literal_is_none() -> None:
    assert not list(foreign("re.compile(r'a|' r'b')\nre.match(rf'{re.escape(name)}[0-9]', text)"))

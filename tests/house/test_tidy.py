"""Limits that a reader relies on: short functions and lines, no banned words, no stray files."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from test_layers import modules_of

from appliance.api.handlers import HANDLERS
from appliance.cli.main import PLACES
from appliance.protocol import MODULES
from tests.house.offenders import offenders
from tests.sanitizers import ENGINE_TESTS, SANITIZERS
from tests.support.walking import below

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "appliance"
FUNCTION_LINES_MAX = 70
LINE_MAX = 100

ENTRY_POINTS = {"__init__", "__main__"}
BANNED = {
    r"^\s*DEF\s": "constants are cdef enums beside their picture",
    r"^\s*include\s": "each module states its cimports",
    r"except \*": "takes the GIL back at every call",
    r"\bcpdef\b": "two doors into one function",
}
CYTHON_FUNCTION = re.compile(
    r"(\s*)(?:async def|cdef|cpdef|def)\b(?! (?:class|extern|struct|enum))[^#=]*?(\w+)\("
)
UNNUMBERED = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b(?!\s*\(?#\d)")  # not to find itself


def sources(*ends: str) -> list[Path]:
    folders = [ROOT / name for name in ("appliance", "bench", "loadtest", "spark", "tests")]
    return sorted(path for folder in folders for end in ends for path in below(folder, f"*.{end}"))


def core() -> list[Path]:
    return sorted([*PACKAGE.rglob("*.pyx"), *PACKAGE.rglob("*.pxd")])


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions_of_python(text: str) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - node.lineno + 1


def functions_of_cython(text: str) -> Iterator[tuple[str, int]]:
    """A function goes to its last line that is indented deeper, or that closes its signature."""
    lines = text.splitlines()
    for start, line in enumerate(lines):
        match = CYTHON_FUNCTION.match(line)
        if not match:
            continue
        end = last = start
        while end + 1 < len(lines):
            end += 1
            indent = len(lines[end]) - len(lines[end].lstrip())
            if lines[end].strip() and indent <= len(match[1]) and lines[end].lstrip()[0] != ")":
                break
            last = end if lines[end].strip() else last
        if last > start or line.rstrip().endswith(":"):
            yield match[2], last - start + 1


def banned_words(text: str) -> list[str]:
    code = re.sub(r'"""(?:.|\n)*?"""|#.*', "", text)
    return [why for word, why in BANNED.items() if re.search(word, code, re.MULTILINE)]


def orphans(files: set[str], imported: set[str], texts: str) -> set[str]:
    """Files of the package, by their paths in it, that nothing leads to."""
    modules = {name.rpartition(".")[0].replace("/", ".") for name in files if is_module(name)}
    lost = {name for name in modules - imported if name.split(".")[-1] not in ENTRY_POINTS}
    lost |= {n for n in files if n.endswith(".pyi") and n.replace(".pyi", ".pyx") not in files}
    headers = {name for name in files if name.endswith(".h")}
    return lost | {name for name in headers if f'"{Path(name).name}"' not in texts}


def is_module(name: str) -> bool:
    return name.endswith((".py", ".pyx", ".pxd"))


def long_functions(path: Path) -> list[tuple[str, int]]:
    reader = functions_of_python if path.suffix == ".py" else functions_of_cython
    return [each for each in reader(path.read_text()) if each[1] > FUNCTION_LINES_MAX]


def test_functions_are_short() -> None:
    assert offenders(sources("py", "pyx"), long_functions) == {}


def hand_written() -> list[Path]:
    files = sources("py", "pyi", "pyx", "pxd", "h", "sh", "js", "css")
    return [path for path in files if "vendor" not in path.parts]


def untidy_lines(text: str) -> list[str]:
    lines = list(enumerate(text.splitlines(), 1))
    if not lines:
        return ["an empty file says nothing"]
    found = [f"line {number} is long" for number, line in lines if len(line) > LINE_MAX]
    unnumbered = [number for number, line in lines if UNNUMBERED.search(line)]
    return found + [f"line {number} has work without a number" for number in unnumbered]


def test_lines_are_short_and_work_is_numbered() -> None:
    assert offenders(hand_written(), lambda path: untidy_lines(path.read_text())) == {}


def test_the_core_has_no_banned_words() -> None:
    assert offenders(core(), lambda path: banned_words(path.read_text())) == {}


def test_no_file_is_an_orphan() -> None:
    ends = {".py", ".pyx", ".pxd", ".pyi", ".h"}
    files = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*") if path.suffix in ends}
    imported = {f"protocol.messages.{name}" for name in MODULES.values()}  # when they are asked for
    # by their folder
    imported |= {each.__name__.removeprefix("appliance.") for each in HANDLERS.values()}
    imported |= {name.removeprefix("appliance.") for name in PLACES.values()}
    for path in sources("py", "pyx", "pxd"):
        own = ".".join(path.relative_to(ROOT).with_suffix("").parts).removeprefix("appliance.")
        imported |= modules_of(path) - {own}
    texts = "".join(path.read_text() for path in core())
    assert orphans(files, imported, texts) == set()


def test_a_long_function_is_found() -> None:
    body = "    x = 1\n" * FUNCTION_LINES_MAX
    assert dict(functions_of_python(f"def long():\n{body}")) == {"long": 71}
    head = "cdef int short(int a) noexcept nogil:\n    return a\n\n"
    wide = f"cdef int long(\n    int a,\n) noexcept nogil:\n{body}\n\ncdef int x = 3\n"
    assert dict(functions_of_cython(head + wide)) == {"short": 2, "long": 73}
    method = f"cdef class C:\n    def long(self):\n    {body.replace('    x', '        x')}"
    assert dict(functions_of_cython(method)) == {"long": 71}


def test_untidy_lines_are_found() -> None:
    work = "TO" + "DO"
    text = f"x = 1\n{'y' * (LINE_MAX + 1)}\n# {work}: later\n"
    assert untidy_lines(text) == ["line 2 is long", "line 3 has work without a number"]
    assert untidy_lines("") == ["an empty file says nothing"]


def test_banned_words_are_found() -> None:
    bad = ["DEF SIZE = 1", 'include "x.pyx"', "cdef int f() except * nogil:", "cpdef int g():"]
    assert [len(banned_words(text)) for text in bad] == [1, 1, 1, 1]
    assert banned_words('"""A DEF\nDEF in prose."""\nx = 1  # except * is banned\n') == []


def test_work_without_a_number_is_found() -> None:
    word = "TO" + "DO"
    assert UNNUMBERED.search(f"# {word}: later")
    assert not UNNUMBERED.search(f"# {word} (#12): later")


def test_orphans_are_found() -> None:
    files = {"a.py", "r/_b.pyx", "r/_b.pxd", "r/_gone.pyi", "r/_lone.pxd", "r/_x.h", "r/_b.h"}
    lost = orphans({*files, "r/__init__.py"}, {"r._b"}, 'cdef extern from "_b.h"')
    assert lost == {"a", "r/_gone.pyi", "r._lone", "r/_x.h"}


def same_names(paths: list[Path]) -> list[str]:
    """Of test files: one of two with the same name is not run at all."""
    names = [path.name for path in paths]
    return sorted({name for name in names if names.count(name) > 1})


def test_no_two_test_files_have_the_same_name() -> None:
    tests = [path for path in sources("py") if path.name.startswith("test_")]
    assert same_names(tests) == []
    assert same_names([*tests, Path("elsewhere") / tests[0].name]) == [tests[0].name]


def test_the_tests_that_the_sanitizers_run_are_there() -> None:
    named = {*ENGINE_TESTS, *(name for each in SANITIZERS.values() for name in each.tests)}
    assert sorted(name for name in named if not (ROOT / "tests" / name).exists()) == []


def test_every_folder_of_the_package_is_installed() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    folders = {path.parent.relative_to(ROOT) for path in PACKAGE.rglob("__init__.py")}
    names = {".".join(folder.parts) for folder in folders}
    listed = project.partition("packages = [")[2].partition("]")[0]
    assert set(re.findall(r'^    "(appliance[\w.]*)",$', listed, re.MULTILINE)) == names

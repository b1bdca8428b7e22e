"""The core says where the GIL is held, and the data plane never takes it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.offenders import offenders

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "appliance"
BUILD = ROOT / "build" / "cython-release"  # where setup.py has the C++ that it compiled
WITHOUT, WITH = "# ---- without the GIL ----", "# ---- with the GIL ----"

EARLY = "cdef int early() noexcept nogil:\n    return 0\n"
EDGE = "def edge():\n    return early()\n"

CIMPORT = re.compile(r"^\s*from (appliance[\w.]+) cimport", re.MULTILINE)
DATA_PLANE = re.compile(r"^(\s*)cdef\b.*\(")


def core(*ends: str) -> list[Path]:
    return sorted(path for end in ends for path in PACKAGE.rglob(f"_*.{end}"))


def banner_faults(text: str) -> str:
    banners = re.findall(r"^# ----.*", text, re.MULTILINE)
    if not banners or banners != [each for each in (WITHOUT, WITH) if each in banners]:
        return "wanted the banner of each part that there is, once, the nogil one first"
    _, *parts = re.split(r"^# ----.*", text, flags=re.MULTILINE)
    if not all(part.strip() for part in parts):
        return "a banner over nothing"
    below = dict(zip(banners, parts, strict=True))
    if WITH not in below and (edge := re.search(r"^(?:cp)?def .*", text, re.MULTILINE)):
        return f"no banner says that this has the GIL: {edge[0]}"
    late = re.search(r"^\s*cdef.* nogil:", below.get(WITH, ""), re.MULTILINE)
    return f"nogil function below the banner of the GIL: {late[0]}" if late else ""


def takes_the_gil(text: str) -> bool:
    return re.search(r"\bwith gil\b", re.sub(r'"""(?:.|\n)*?"""|#.*', "", text)) is not None


def data_plane_asserts(text: str) -> list[int]:
    """Lines of asserts inside `noexcept nogil` functions, where they would be swallowed."""
    found, indent, signature, is_inside = [], 0, "", False
    for number, line in enumerate(text.splitlines(), 1):
        depth = len(line) - len(line.lstrip())
        if signature:
            signature += line
        elif match := DATA_PLANE.match(line):
            signature, indent = line, len(match[1])
        elif line.strip() and depth <= indent:
            is_inside = False
        if signature and signature.count("(") == signature.count(")"):
            is_inside = re.search(r"noexcept nogil\s*:", signature) is not None
            signature = ""
        elif is_inside and re.match(r"\s*assert\b", line):
            found.append(number)
    return found


def asks_for_errors(code: str) -> list[str]:
    """Lines of the generated C++ that take the GIL after each call, only to ask for an exception;
    after a value that says so, as after `except -1`, they ask when it came."""
    asking = "unlikely(__Pyx_ErrOcc"
    if asking not in code:  # of half a megabyte each, lines take the time
        return []
    return [line.strip() for line in code.splitlines() if asking in line]


def cimported(path: Path, found: dict[Path, str]) -> dict[Path, str]:
    """Adds what the file cimports, and what that does; with their texts."""
    found[path] = path.read_text()
    modules = {path.with_suffix(".pxd"), *(ROOT / f"{each.replace('.', '/')}.pxd" for each in
                                           CIMPORT.findall(found[path]))}  # fmt: skip
    for each in modules - found.keys():
        if each.exists():
            cimported(each, found)
    return found


def is_current(code: Path, path: Path) -> bool:
    """As the build asks before it makes the C++ anew."""
    newest = max(each.stat().st_mtime for each in cimported(path, {}))
    return code.exists() and code.stat().st_mtime >= newest


def generated(path: Path) -> Path:
    return BUILD / path.relative_to(ROOT).with_suffix(".cpp")


def test_banners_divide_the_file() -> None:
    assert offenders(core("pyx"), lambda path: banner_faults(path.read_text())) == {}


def test_the_gil_is_let_go_and_never_taken() -> None:
    """The edges turn codes into exceptions after their `with nogil:` block; nothing needs more."""
    assert offenders(core("pyx", "pxd"), lambda path: takes_the_gil(path.read_text())) == {}


def test_the_data_plane_does_not_assert() -> None:
    found = offenders(core("pyx", "pxd"), lambda path: data_plane_asserts(path.read_text()))
    assert found == {}


def test_no_call_takes_the_gil_to_ask_for_an_exception() -> None:
    """What the compiler gives a performance hint for, which never fails a build."""

    def faults(path: Path) -> list[str]:
        code = generated(path)
        if not is_current(code, path):
            return ["an old build; make build compiles it"]
        return asks_for_errors(code.read_text())

    assert offenders(core("pyx"), faults) == {}


@pytest.mark.parametrize(
    "text",
    [
        EARLY,
        f"{WITHOUT}\n{EARLY}{WITH}\n",
        f"{WITHOUT}\n{WITH}\n{EDGE}",
        f"{WITH}\n{EDGE}{WITHOUT}\n{EARLY}",
        f"{WITHOUT}\n{EARLY}{WITHOUT}\n{EARLY}",
        f"{WITHOUT}\n{EARLY}{WITH}\n{EDGE}# ---- more ----\n{EDGE}",
        f"{WITHOUT}\n{EARLY}{WITH}\n{EARLY}",
        f"{WITHOUT}\n{EARLY}{EDGE}",
    ],
)
def test_missing_or_swapped_banners_are_found(text: str) -> None:
    assert banner_faults(text)


@pytest.mark.parametrize(
    "text",
    [f"{WITHOUT}\n{EARLY}", f"{WITH}\n{EDGE}", f"{WITHOUT}\n{EARLY}{WITH}\n{EDGE}"],
)
def test_a_part_that_is_not_there_needs_no_banner(text: str) -> None:
    assert not banner_faults(text)


def test_taking_the_gil_is_found() -> None:
    assert takes_the_gil("cdef void f() noexcept nogil:\n    with gil:\n        pass\n")
    assert takes_the_gil("cdef void f() noexcept with gil:\n    pass\n")
    assert not takes_the_gil("# no with gil here\n")


def test_a_swallowed_assert_is_found() -> None:
    text = (
        "cdef int f(\n    int a,\n) noexcept nogil:\n    assert a\n"
        "cdef int g(int a) except -1 nogil:\n    assert a\n"
        "cdef class C:\n    cdef int h(self) noexcept nogil:\n"
        "        if self.x:\n            assert 0\n"
    )
    assert data_plane_asserts(text) == [4, 10]


def test_a_call_that_takes_the_gil_is_found(tmp_path: Path) -> None:
    (tmp_path / "planted.pyx").write_text(
        "cdef void silent() except * nogil:\n    pass\n"
        "cdef int coded() except? -1 nogil:\n    return 0\n"
        "with nogil:\n    silent()\n    coded()\n"
    )
    command = [sys.executable, "-m", "cython", "-3", "--cplus", "planted.pyx"]
    subprocess.run(command, cwd=tmp_path, check=True)
    found = asks_for_errors((tmp_path / "planted.cpp").read_text())
    assert [line.count("silent") for line in found] == [1]

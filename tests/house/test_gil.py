"""The core says where the GIL is held, and the data plane never takes it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "appliance"
WITHOUT, WITH = "# ---- without the GIL ----", "# ---- with the GIL ----"

SHARED = ["--shared", "appliance._cython"]

# As setup.py builds it: with bounds checks every index would earn a hint of its own.
RELEASE = ["-X", "boundscheck=False,wraparound=False,initializedcheck=False,cdivision=True"]

DATA_PLANE = re.compile(r"^(\s*)cdef\b.*\(")


def core(*ends: str) -> list[Path]:
    return sorted(path for end in ends for path in PACKAGE.rglob(f"_*.{end}"))


def name_of(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def banner_faults(text: str) -> str:
    lines = text.splitlines()
    if [line for line in lines if line.startswith("# ----")] != [WITHOUT, WITH]:
        return "wanted the two banners, once each, in order"
    late = [line for line in lines[lines.index(WITH) :] if re.search(r"^\s*cdef.* nogil:", line)]
    return f"nogil function below the second banner: {late[0]}" if late else ""


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


def cython_says(sources: list[Path], root: Path, folder: Path) -> str:
    """What the compiler prints. A hint never fails a build, so only its words give it away. In one
    process, which reads itself once; it writes beside its sources, and so has copies of them."""
    for source in sources:
        to = folder / source.relative_to(root)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, to)
    names = [str(each.relative_to(root)) for each in sources if each.suffix == ".pyx"]
    command = [sys.executable, "-m", "cython", "-3", "--cplus", *SHARED, *RELEASE, *names]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def hints(said: str, name: str) -> list[str]:
    found = re.compile(rf"performance hint: .*\b{re.escape(name)}:", re.IGNORECASE)
    return [line for line in said.splitlines() if found.search(line)]


@pytest.fixture(scope="module")
def said_of_the_core(tmp_path_factory: pytest.TempPathFactory) -> str:
    sources = [*PACKAGE.rglob("__init__.py"), *core("pyx", "pxd", "h")]
    return cython_says(sources, PACKAGE.parent, tmp_path_factory.mktemp("cython"))


@pytest.mark.parametrize("path", core("pyx"), ids=name_of)
def test_banners_divide_the_file(path: Path) -> None:
    assert not banner_faults(path.read_text())


@pytest.mark.parametrize("path", core("pyx", "pxd"), ids=name_of)
def test_the_gil_is_let_go_and_never_taken(path: Path) -> None:
    """The edges turn codes into exceptions after their `with nogil:` block; nothing needs more."""
    assert not takes_the_gil(path.read_text())


@pytest.mark.parametrize("path", core("pyx", "pxd"), ids=name_of)
def test_the_data_plane_does_not_assert(path: Path) -> None:
    assert data_plane_asserts(path.read_text()) == []


@pytest.mark.parametrize("path", core("pyx", "pxd"), ids=name_of)
def test_the_compiler_has_no_performance_hint(path: Path, said_of_the_core: str) -> None:
    assert hints(said_of_the_core, name_of(path)) == []


@pytest.mark.parametrize(
    "text",
    [
        f"{WITHOUT}\n",
        f"{WITH}\n{WITHOUT}\n",
        f"{WITHOUT}\n{WITH}\n# ---- more ----\n",
        f"{WITHOUT}\n{WITH}\ncdef int late() noexcept nogil:\n    return 0\n",
    ],
)
def test_missing_or_swapped_banners_are_found(text: str) -> None:
    assert banner_faults(text)


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


def test_a_performance_hint_is_found(tmp_path: Path) -> None:
    sources = [tmp_path / "planted.pyx", tmp_path / "clean.pyx"]
    sources[0].write_text("cdef void f() except * nogil:\n    pass\n\nwith nogil:\n    f()\n")
    sources[1].write_text("cdef int f() noexcept nogil:\n    return 0\n")
    (tmp_path / "copies").mkdir()
    said = cython_says(sources, tmp_path, tmp_path / "copies")
    assert hints(said, "planted.pyx")
    assert not hints(said, "clean.pyx")

"""The stubs say what the compiled modules are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_layers import module_of, modules_of

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "appliance"

# Names that Cython adds to every module or class.
GENERATED = [r".*\.__pyx_\w+__", r".*\.__test__", r".*\.__(reduce|setstate)_cython__"]


def stubbed() -> list[str]:
    return sorted(module_of(path) for path in PACKAGE.rglob("_*.pyi"))


def stubtest(modules: list[str], folder: Path, scratch: Path) -> subprocess.CompletedProcess[str]:
    allowed = scratch / "allowed"
    allowed.write_text("\n".join(GENERATED))
    options = ["--concise", "--ignore-unused-allowlist", "--allowlist", str(allowed)]
    return subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", *options, *modules],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(folder), "PYTHONPATH": str(folder)},
    )


def test_compiled_modules_are_as_their_stubs_say(tmp_path: Path) -> None:
    done = stubtest([f"appliance.{name}" for name in stubbed()], ROOT, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_python_imports_has_a_stub() -> None:
    compiled = {module_of(path) for path in PACKAGE.rglob("_*.pyx")}
    imported = {name for path in PACKAGE.rglob("*.py") for name in modules_of(path)}
    assert imported & compiled <= set(stubbed())


@pytest.mark.parametrize("stub", ["def f(b: int) -> int: ...", "def f(a: int) -> int: ...\nx: int"])
def test_a_stub_that_lies_is_found(stub: str, tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text("def f(a):\n    return a\n")
    (tmp_path / "planted.pyi").write_text(stub)
    assert stubtest(["planted"], tmp_path, tmp_path).returncode == 1

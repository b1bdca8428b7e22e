"""Each module can be imported first, alone, and says nothing while it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "appliance"


def modules() -> list[str]:
    """All that can be compiled or stands alone; of the others, rooms as wholes: seconds less."""
    paths = {*PACKAGE.glob("*.py"), *PACKAGE.rglob("_*.pyx")}
    found = {".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in paths}
    rooms = (path.parent.relative_to(PACKAGE) for path in PACKAGE.rglob("*/__init__.py"))
    found |= {".".join(room.parts) for room in rooms}
    beside = {f"appliance_spark.{path.stem}" for path in (PACKAGE.parent / "spark").glob("*.py")}
    within = {f"appliance.{name}" for name in found - {"__init__", "__main__"}}
    return sorted(within | beside - {"appliance_spark.__init__", "appliance_spark.__main__"})


def import_alone(module: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", f"import {module}"]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder)


@pytest.mark.parametrize("module", modules())
def test_a_module_imports_alone_without_a_warning(module: str) -> None:
    done = import_alone(module, PACKAGE.parent)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_warning_is_found(tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text("import warnings\nwarnings.warn('old')\n")
    assert import_alone("planted", tmp_path).returncode == 1

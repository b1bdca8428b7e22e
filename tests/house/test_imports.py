"""Each module can be imported first, alone, and says nothing while it is.

One process has imported what the package imports of others, and forks for each module of ours: of
the 0.15 processor seconds that a new Python took, nearly all were for those.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "appliance"
OURS = ("appliance", "appliance_spark", "planted")

# Its argument is the modules; it prints what was wrong with each.
FORKS = f"""
import contextlib, importlib, io, json, os, sys, tempfile, traceback, warnings
modules, others = json.loads(sys.argv[1]), json.loads(sys.argv[2])
for name in others:
    with contextlib.suppress(ImportError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module(name)
assert not [name for name in sys.modules if name.partition(".")[0] in {OURS}]
wrong = {{}}
for module in modules:
    with tempfile.TemporaryFile() as said:
        pid = os.fork()
        if not pid:
            os.dup2(said.fileno(), 1), os.dup2(said.fileno(), 2)
            code = 0
            try:
                importlib.import_module(module)
            except BaseException:
                traceback.print_exc()
                code = 1
            sys.stdout.flush(), sys.stderr.flush()
            os._exit(code)
        _, status = os.waitpid(pid, 0)
        said.seek(0)
        text = said.read().decode()
        if status or text:
            wrong[module] = text or f"ended with {{status}}"
print(json.dumps(wrong))
"""
# The others that are imported when all of ours are.
FOUND = f"""
import contextlib, importlib, json, sys
for name in json.loads(sys.argv[1]):
    with contextlib.suppress(Exception):  # the fork tells it
        importlib.import_module(name)
found = [name for name in sys.modules if name.partition(".")[0] not in {OURS} + ("__main__",)]
print(json.dumps(found))
"""


def modules() -> list[str]:
    """All that can be compiled or stands alone; of the others, rooms as wholes: seconds less."""
    paths = {*PACKAGE.glob("*.py"), *PACKAGE.rglob("_*.pyx")}
    found = {".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in paths}
    rooms = (path.parent.relative_to(PACKAGE) for path in PACKAGE.rglob("*/__init__.py"))
    found |= {".".join(room.parts) for room in rooms}
    beside = {f"appliance_spark.{path.stem}" for path in (PACKAGE.parent / "spark").glob("*.py")}
    within = {f"appliance.{name}" for name in found - {"__init__", "__main__"}}
    return sorted(within | beside - {"appliance_spark.__init__", "appliance_spark.__main__"})


def python(*words: str, folder: Path) -> str:
    command = [sys.executable, "-W", "error", "-c", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=True).stdout


def wrong_with(names: list[str], folder: Path) -> dict[str, str]:
    """What each said that cannot be imported first, or that says something."""
    others = python(FOUND, json.dumps(names), folder=folder).splitlines()[-1]
    told = python(FORKS, json.dumps(names), others, folder=folder)
    found: dict[str, str] = json.loads(told.splitlines()[-1])
    return found


def test_each_module_imports_alone_without_a_warning() -> None:
    assert wrong_with(modules(), ROOT) == {}


def test_a_warning_is_found(tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text("import warnings\nwarnings.warn('old')\n")
    assert "old" in wrong_with(["planted"], tmp_path)["planted"]


def test_what_imports_only_after_another_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "planted"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "first.py").write_text("import planted.second\nname = 1\n")
    (folder / "second.py").write_text("import planted.first\nplanted.first.name\n")
    names = ["planted.first", "planted.second"]
    assert list(wrong_with(names, tmp_path)) == ["planted.first"]

"""Sends this package and its imports to Spark workers that have only PySpark and pyarrow.

    from appliance_spark import ship
    ship(spark)            # before the first query

Each package is an archive of its own, which Spark unpacks under the package's name beside the
session's files; that folder is on the path of every Python worker. The archives hold exactly what a
fresh Python imports for the data source, with compiled modules. So the workers must match the
driver's system, processor and Python version.

With `local[*]` this is not needed: its workers see the driver's files.
"""

from __future__ import annotations

import atexit
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import appliance

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASKS = ("appliance_spark.source", "appliance_spark.fetching", "appliance_spark.writers")
HERE = Path(__file__).parent

# The packages of workers, with their imports.
THERE = ("pyspark", "pyarrow")

# Of `appliance`: a task imports it where it is used, and a worker must have its libraries then.
LATE = "schemas"

# Prints name and file of all modules that `tasks` need beyond these packages.
LISTING = """
import importlib, json, sys
there, tasks = json.loads(sys.argv[1])
for name in there:
    importlib.import_module(name)
known = {*sys.modules, *sys.stdlib_module_names}
for name in tasks:
    importlib.import_module(name)
found = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()
         if name not in known and name.partition(".")[0] not in known}
print(json.dumps({name: file for name, file in found.items() if file}))
"""
PYSPARK = ("pyspark.sql", "pyspark.sql.datasource", "pyspark.sql.pandas.types")

_shipped: set[tuple[str, tuple[str, ...]]] = set()  # application and tasks


def ship(spark: SparkSession, tasks: Iterable[str] = ()) -> list[str]:
    """Returns the names of the sent packages. `tasks` are further modules for workers. Once per
    session; repeated calls do nothing."""
    wanted = (*TASKS, *tasks)
    context = spark.sparkContext
    key = (str(context.applicationId), wanted)
    if str(context.master).startswith("local") or key in _shipped:
        return []
    folder = Path(tempfile.mkdtemp(prefix="appliance-ship-"))
    atexit.register(shutil.rmtree, folder, True)  # until then workers fetch from it
    names = []
    for package, archive in archives(modules(wanted), folder):
        context.addArchive(f"{archive}#{package}")
        names.append(package)
    _shipped.add(key)
    return names


def modules(tasks: Iterable[str]) -> dict[str, Path]:
    """By name. A fresh process answers: this one may have imported anything."""
    asked = json.dumps([[*THERE, *PYSPARK], [*tasks]])
    path = [str(HERE.parent), *(each for each in sys.path if each)]
    code = f"import sys; sys.path[:0] = {path!r}\n{LISTING}"
    done = subprocess.run([sys.executable, "-c", code, asked], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"what workers need cannot be imported here:\n{done.stderr}")
    found = {name: Path(file) for name, file in json.loads(done.stdout).items()}
    ours = {f"appliance_spark.{path.stem}": path for path in HERE.glob("*.py")}
    folder = Path(appliance.__file__).parent / LATE
    late = {f"appliance.{LATE}.{path.stem}": path for path in folder.glob("*.py")}
    return {**found, **ours, **late, "appliance_spark": HERE / "__init__.py"}


def archives(files: dict[str, Path], folder: Path) -> Iterator[tuple[str, Path]]:
    """One for each top-level package."""
    packages = {name.partition(".")[0] for name in files}
    for package in sorted(packages):
        of = {name: path for name, path in files.items() if name.partition(".")[0] == package}
        root = of[package].parent
        archive = folder / f"{package}.zip"
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as into:
            for path in sorted({*of.values(), *bundled(root)}):
                into.write(path, path.relative_to(root))
        yield package, archive


def bundled(root: Path) -> Iterator[Path]:
    """Shared libraries in a wheel's package."""
    return (path for path in root.rglob("*.so.*") if path.is_file())

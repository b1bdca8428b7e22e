"""Instructions that the core takes for one step, counted by valgrind: the same on a busy machine,
so that a change of a few percent is seen in one run. Valgrind shows programs a processor without
AVX-512; what is counted is the path of such a one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from bench.core_path import PATHS

COUNT = 400  # and twice as often: in the difference there is no start of Python
COLLECTED = re.compile(r"Collected : (\d+)")


class Uncounted(RuntimeError):
    """Why not."""


def counted(path: str, count: int, folder: Path | None) -> int:
    words = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
             sys.executable, "-m", "bench.core_path", path, str(count),
             *([str(folder)] if folder else [])]
    env = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(words, capture_output=True, text=True, env=env)
    found = COLLECTED.search(done.stderr)
    if done.returncode or not found:
        raise Uncounted(f"{' '.join(words)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return int(found[1])


def of_one(path: str, folder: Path | None = None) -> int:
    """In a log that is there already, or a new one."""
    if shutil.which("valgrind") is None:
        raise Uncounted("instructions are counted by valgrind, which is not installed")
    return (counted(path, 2 * COUNT, folder) - counted(path, COUNT, folder)) // COUNT


def measured() -> dict[str, int]:
    return {path: of_one(path) for path in PATHS}

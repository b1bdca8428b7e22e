"""Counts the core's instructions for one step with valgrind: the same number on a busy machine, so
one run shows a change of a few percent. Valgrind emulates a processor without AVX-512; the count is
for that path."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from bench.instruction_paths import PATHS

COUNT = 400  # and twice as many: the difference excludes Python's start
COLLECTED = re.compile(r"Collected : (\d+)")


class Uncounted(RuntimeError):
    """The reason why it cannot be counted."""


def counted(path: str, count: int, folder: Path | None) -> int:
    words = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
             sys.executable, "-m", "bench.instruction_paths", path, str(count),
             *([str(folder)] if folder else [])]
    env = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(words, capture_output=True, text=True, env=env)
    collected = COLLECTED.search(done.stderr)
    if done.returncode or not collected:
        raise Uncounted(f"{' '.join(words)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return int(collected[1])


def of_one(path: str, folder: Path | None = None) -> int:
    """The instructions of one step, in the log of the folder or in a new one."""
    if shutil.which("valgrind") is None:
        raise Uncounted("instructions are counted by valgrind, which is not installed")
    return (counted(path, 2 * COUNT, folder) - counted(path, COUNT, folder)) // COUNT


def measured() -> dict[str, int]:
    return {path: of_one(path) for path in PATHS}

"""A small C file, made into a library that is preloaded into a process which a test starts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.crash.build import CACHE, digest_of


def library(source: Path) -> Path:
    found = CACHE / f"{source.stem}-{digest_of([source])}.so"
    if not found.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        part = found.with_suffix(f".{os.getpid()}")
        flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
        subprocess.run(["gcc", *flags, "-o", str(part), str(source), "-ldl"], check=True)
        part.rename(found)
    return found

"""The classes of a JVM as it can map them into memory: to load them from jars is most of its start.

A JVM with other jars passes over the archive and loads as ever; one of another version has its own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.made_once import made_once


def start_flags(named: Path, java: str, module: str) -> list[str]:
    """Of a JVM that maps the archive; the first call on a machine makes it: `python -m module FILE`
    runs one that does what the tests do, and writes its classes there."""
    of_java = Path(java).resolve().stat().st_mtime_ns  # an update of Java wants another archive
    wanted = named.with_name(f"{named.name}-{of_java}")
    with made_once(wanted) as folder:
        if folder is not None:
            part = folder / "part.jsa"
            made = subprocess.run(
                [sys.executable, "-m", module, part], check=False, capture_output=True, text=True)
            if made.returncode == 0:
                part.rename(folder / "classes.jsa")
            else:  # it is slower without, and tests the same
                part.unlink(missing_ok=True)
                print(f"JVMs start without {wanted}: {made.stdout}{made.stderr}", file=sys.stderr)
    archive = wanted / "classes.jsa"
    # A JVM that passes over it would say so on standard output
    return ["-Xlog:disable", f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []

"""Debian packages of this commit, and of the first one that could make them."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tests.installation.debian_machine import CACHE, release
from tests.support.made_once import made_once

ROOT = Path(__file__).parents[2]
MAKES_PACKAGES = "packaging/deb.sh"
EARLIER = "0.0.9"  # its number, which is what a package manager goes by
VERSION = "appliance/__init__.py"


def made(folder: Path, **settings: str) -> Path:
    """What `make deb` makes of the clone in this folder."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(["make", "deb"], cwd=folder, env={**environment, **settings}, check=False,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return max((folder / "dist").glob("appliance_*.deb"), key=lambda each: each.stat().st_mtime)


def package() -> Path:
    return made(ROOT)


def earlier_package() -> Path:
    """Of other code, with a lower number. It is compiled once."""
    first = _git("log", "--diff-filter=A", "--format=%H", "--", MAKES_PACKAGES).split()[-1]
    wanted = CACHE / f"package-{first[:12]}-{release()}"
    with made_once(wanted) as folder:
        if folder is not None:
            clone = folder / "clone"
            copied(first, clone)
            file = clone / VERSION
            text = re.sub(r'__version__ = ".*"', f'__version__ = "{EARLIER}"', file.read_text())
            file.write_text(text)
            moment = _git("log", "-1", "--format=%ct", first)
            # its script asked the clone's own modules, which are not compiled
            made_there = made(clone, SOURCE_DATE_EPOCH=moment, PYTHONSAFEPATH="1")
            made_there.rename(folder / "appliance.deb")
            subprocess.run(["rm", "-r", str(clone)], check=True)
    return wanted / "appliance.deb"


def copied(commit: str, folder: Path) -> None:
    folder.mkdir()
    with subprocess.Popen(["git", "archive", commit], cwd=ROOT, stdout=subprocess.PIPE) as read:
        subprocess.run(["tar", "-x", "-C", str(folder)], stdin=read.stdout, check=True)


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True,
                          text=True).stdout.strip()  # fmt: skip

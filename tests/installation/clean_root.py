"""A root with the files of a bare Debian and one Python: no compiler, no network but loopback, and
nothing of this machine. What is written there is gone at the end."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.installation.debian_machine import bare

TOOLS = ("debootstrap", "unshare", "chroot", "ip", "mount")
LIMIT_S = 300.0
# In a namespace of its own for mounts, network and processes, so all of it ends with its first one
BEGIN = """
set -eu
mount --make-rprivate /
mount -t tmpfs none "$SCRATCH"
mkdir "$SCRATCH/upper" "$SCRATCH/work" "$SCRATCH/root"
layers="lowerdir=$BARE,upperdir=$SCRATCH/upper,workdir=$SCRATCH/work"
mount -t overlay none -o "$layers" "$SCRATCH/root"
cd "$SCRATCH/root"
mount -t proc proc proc
mount --rbind /dev dev
for each in $FOLDERS; do
    mkdir -p ".${each#*:}"
    mount --bind "${each%%:*}" ".${each#*:}"
    mount -o remount,bind,ro ".${each#*:}"
done
ip link set lo up
exec env -i PATH=/usr/sbin:/usr/bin HOME=/root LANG=C.UTF-8 chroot . sh -euc "$STEPS"
"""


def is_possible() -> bool:
    return os.geteuid() == 0 and all(map(shutil.which, TOOLS))


def run(steps: str, folders: Mapping[Path, str], scratch: Path) -> str:
    """What the steps print. `folders`: of this machine, and where they are seen there."""
    scratch.mkdir(exist_ok=True)
    given = {"BARE": str(bare().resolve()), "SCRATCH": str(scratch), "STEPS": steps,
             "FOLDERS": " ".join(f"{here}:{there}" for here, there in folders.items())}  # fmt: skip
    done = subprocess.run(
        ["unshare", "--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "--kill-child",
         "sh", "-c", BEGIN],
        env={**os.environ, **given}, capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done.stdout

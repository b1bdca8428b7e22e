"""`appliance doctor --fix`: writes what checks advise, now and for the next start.

Each change is one value of the kernel, undone by writing the former one, which is told. Arrays,
file systems, mounts and records are never touched.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from appliance.doctor.check import Change, Check
from appliance.machine.kernel_files import KernelFiles, chosen_in, text_in

SYSCTLS = "etc/sysctl.d/90-appliance.conf"
RULES = "etc/udev/rules.d/90-appliance.rules"
HEAD = "# Written by `appliance doctor --fix`; delete this file to undo it with the next start.\n"
SYSCTL_FOLDER = "proc/sys/"


class Mended(NamedTuple):
    name: str  # of the check
    change: Change
    before: str
    error: str = ""


def mend(checks: Iterable[Check], kernel: KernelFiles) -> list[Mended]:
    done = []
    for check in checks:
        for change in check.changes:
            done.append(_written(check.name, change, kernel))
    kept = [each.change for each in done if not each.error]
    _keep(kernel.root / SYSCTLS, [_as_sysctl(each) for each in kept if not each.rule])
    _keep(kernel.root / RULES, [each.rule for each in kept if each.rule])
    return done


def _written(name: str, change: Change, kernel: KernelFiles) -> Mended:
    file = kernel.root / change.path
    before = chosen_in(file) or text_in(file).strip()
    try:
        # never makes one that the kernel does not have
        with open(os.open(file, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC), "w") as out:
            out.write(f"{change.value}\n")
    except OSError as error:
        return Mended(name, change, before, str(error.strerror))
    return Mended(name, change, before)


def _as_sysctl(change: Change) -> str:
    name = change.path.removeprefix(SYSCTL_FOLDER).replace("/", ".")
    return f"{name} = {change.value}"


def _keep(file: Path, lines: list[str]) -> None:
    """Adds them, in place of earlier ones for the same thing."""
    if not lines:
        return
    lines = list(dict.fromkeys(lines))  # disks of one kind share a rule
    fresh = {_subject(each) for each in lines}
    old = [each for each in text_in(file).splitlines() if each and not each.startswith("#")]
    kept = [each for each in old if _subject(each) not in fresh]
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    new.write_text(HEAD + "\n".join([*kept, *lines]) + "\n")
    os.replace(new, file)


def _subject(line: str) -> str:
    """Of `vm.swappiness = 1` and `..., ATTR{queue/scheduler}="none"` all but the value."""
    return line.rpartition("=")[0].strip()

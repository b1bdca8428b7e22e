"""Writes the file of the disk watch: what all disks tell of themselves, and the arrays.

A timer runs it as root. Its reader is the broker, which is not: the file can be read by all, and
has no content of anybody. It is replaced as a whole.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from appliance.doctor import smartctl
from appliance.errors import ApplianceError
from appliance.machine import raid
from appliance.machine.disk_report import POINTS_MAX, VERSION, DiskReport, DiskState, Point
from appliance.machine.kernel_counters import Grown
from appliance.machine.kernel_files import THIS_MACHINE, KernelFiles

READABLE = 0o644
HOUR_MS = 3_600_000


def look(before: DiskReport, kernel: KernelFiles = THIS_MACHINE) -> dict[str, Any]:
    """`before` is the report of the last round, of which the history goes on."""
    fault, states = "", []
    try:
        states = smartctl.look()
        if not states:
            fault = (
                "smartctl found no disk: it must run as root. A virtual machine has none that it "
                "could ask: take disk.watch.file out of its settings"
            )
    except ApplianceError as error:
        fault = str(error)
    now_ms = round(time.time() * 1000)
    return {
        "version": VERSION,
        "at_ms": now_ms,
        "fault": fault,
        "disks": list(smartctl.rows(states)),
        "arrays": raid.snapshot(kernel.sys / "block", None, Grown(None)),
        "error_counters": error_counters(kernel),
        "history": {each.name: continued(each, before, now_ms) for each in states},
    }


def continued(disk: DiskState, before: DiskReport, now_ms: int) -> list[Point]:
    """With a point of this hour, the last of its rounds."""
    now = Point(
        now_ms, disk.temperature_c, disk.pending_sectors, disk.reallocated_sectors,
        disk.wear_percent,
    )  # fmt: skip
    known = before.history.get(disk.name, [])
    if known and known[-1].at_ms // HOUR_MS == now_ms // HOUR_MS:
        known = known[:-1]
    return [*known, now][-POINTS_MAX:]


def error_counters(kernel: KernelFiles) -> dict[str, dict[str, int]]:
    """Of each disk, as the kernel counts since the boot."""
    found: dict[str, dict[str, int]] = {}
    for folder in sorted((kernel.sys / "block").glob("*")):
        device = folder / "device"
        for name in ("ioerr_cnt", "iotmo_cnt"):
            text = kernel.text(str((device / name).relative_to(kernel.root)))
            if text.startswith("0x"):
                found.setdefault(folder.name, {})[name] = int(text, 16)
    return found


def write(report: dict[str, Any], path: Path) -> None:
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    with open(os.open(fresh, flags, READABLE), "wb") as file:
        file.write(json.dumps(report).encode() + b"\n")
        os.fchmod(file.fileno(), READABLE)
    os.replace(fresh, path)

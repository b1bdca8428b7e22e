"""The state of Linux software RAID, as the kernel shows it under /sys/block. No program is run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TypedDict

BLOCK = Path("/sys/block")
_PROGRESS = re.compile(r"(\d+) / (\d+)")
_UNUSED = ("clear", "inactive")


class Member(TypedDict):
    name: str
    state: str


class Array(TypedDict):
    name: str
    level: str | None
    state: str
    missing: int
    action: str  # idle, recover, check, ...
    done: float | None  # of the action
    members: list[Member]


def snapshot(block: Path = BLOCK) -> list[Array]:
    """Every array; none is the usual answer on a machine without one."""
    return [array for folder in sorted(block.glob("md*")) if (array := _array(folder)) is not None]


def _array(folder: Path) -> Array | None:
    md = folder / "md"
    try:
        state = _text(md / "array_state")
    except FileNotFoundError:
        return None  # it is not an array, or it was stopped while we looked
    if state in _UNUSED:
        return None
    action = _optional(md / "sync_action") or "idle"  # levels without redundancy have no such file
    missing = int(_optional(md / "degraded") or 0)
    done = _PROGRESS.match(_optional(md / "sync_completed") or "")
    return {
        "name": folder.name,
        "level": _optional(md / "level"),
        "state": state,
        "missing": missing,
        "action": action,
        "done": int(done[1]) / int(done[2]) if done else None,
        "members": [_member(each) for each in sorted(md.glob("dev-*"))],
    }


def _member(folder: Path) -> Member:
    return {
        "name": folder.name.removeprefix("dev-"),
        "state": _optional(folder / "state") or "gone",
    }


def _text(file: Path) -> str:
    return file.read_text().strip()


def _optional(file: Path) -> str | None:
    try:
        return _text(file)
    except FileNotFoundError:
        return None


def reason(array: Array) -> str | None:
    """In words, what is wrong with it; None: nothing."""
    if not array["missing"]:
        return None
    bad = [each["name"] for each in array["members"] if "faulty" in each["state"]]
    text = f"{array['name']} lacks {array['missing']} of its disks"
    if bad:
        text += f" ({', '.join(bad)} failed)"
    if array["action"] == "recover" and array["done"] is not None:
        return f"{text}; it is being rebuilt, {array['done']:.0%} done"
    return f"{text}; writes go on with less redundancy"

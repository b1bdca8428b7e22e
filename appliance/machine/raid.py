"""The state of Linux software RAID, as the kernel shows it under /sys/block. No program is run.

    failed      data is gone, or the array is stopped: what it held is not there
    read-only   what is there can be read, and nothing can be written
    degraded    it lacks members, or members or copies are not well; `survives` says how many more
                members may fail
    well        all there

What each level bears, by the kernel's names; `near copies` of raid10 are in the low byte of its
layout, `far` ones in the next:

    level       data is there as long as
    raid0       every member is
    linear      every member is
    raid1       one member is
    raid4, 5    all but one are
    raid6       all but two are
    raid10      one copy of each block is: neighbours in the order of slots hold the same, for near
                copies; which of them failed decides
    container   never held data itself: its arrays are listed by themselves
    faulty      a device to try things out with

A member counts when it is in sync and not faulty. `degraded` of the kernel counts the same, but not
for levels without redundancy, where nothing is ever missing, only gone.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, TypedDict

from appliance.machine.grown import Grown
from appliance.process.spoken import size, some

BLOCK = Path("/sys/block")
_PROGRESS = re.compile(r"(\d+) / (\d+)")
_LEADING = re.compile(r"\d+")  # during a reshape raid_disks is "5 (4)": what it becomes, and was

# States of an array in which it gives nothing: broken (raid0 and linear that lost a member), not
# assembled whole, or there is no array at all.
STOPPED = ("broken", "inactive", "suspended")
UNUSED = ("clear",)
# Until the first write; a write turns it into active by itself.
READ_ONLY = ("readonly",)

WITHOUT_REDUNDANCY = ("raid0", "linear")
PARITY = {"raid4": 1, "raid5": 1, "raid6": 2}
NO_ARRAYS = ("container", "faulty")

# Copies and parity are made whole; a resync follows a power cut, and until it is over a stripe may
# be wrong that a failing disk would be computed from. A check changes nothing.
REBUILDS = {
    "recover": "it is being rebuilt",
    "resync": "it is being made equal again",
    "reshape": "it is being reshaped",
}

FAR_SETS = 17  # the bit of a raid10's layout from which on it says how far copies are grouped
SECTOR = 512

# Words of a member's state that want somebody's attention; what the kernel has for others is no
# trouble: in_sync, spare, journal, writemostly, replacement, failfast.
MEMBER_TROUBLE = {
    "faulty": "failed",
    "blocked": "failed and is waited for",
    "write_error": "had write errors",
    "want_replacement": "is to be replaced",
}

# Errors that were mended are told for so long after there were more of them: their counter never
# falls, unless somebody writes a zero into it, and a disk that had one years ago may be a good one.
ERRORS_TOLD_MS = 7 * 86_400_000

Condition = Literal["well", "degraded", "read-only", "failed"]


class Member(TypedDict):
    name: str
    state: str
    slot: int | None  # None: it takes no part: a spare, or thrown out
    errors: int  # of reading, corrected from other members
    has_new_errors: bool  # there were fewer a week ago, as far as is known
    bad_ranges: int  # of blocks that are known to be bad and are gone on this member


class Array(TypedDict):
    name: str
    level: str | None
    state: str
    condition: Condition
    disks: int  # that it wants
    missing: int
    survives: int | None  # more failures, whichever members they hit; None: not known
    action: str  # idle, recover, check, ...
    done: float | None  # of the action
    mismatches: int  # bytes of copies that differ, by the last check
    policy: str | None  # what keeps copies equal after a power cut: resync, bitmap, journal, ppl
    holds_data: bool | None  # whether our data directory is on it; None: not known
    members: list[Member]


def snapshot(
    block: Path = BLOCK, beneath: frozenset[str] | None = None, grown: Grown | None = None
) -> list[Array]:
    """Every array; none is the usual answer on a machine without one. `beneath` are the devices
    below our data directory, by name; `grown` knows what was counted before."""
    grown = grown or Grown()
    arrays = (_array(folder, beneath, grown) for folder in sorted(block.glob("md*")))
    return [each for each in arrays if each is not None]


def _array(folder: Path, beneath: frozenset[str] | None, grown: Grown) -> Array | None:
    md = folder / "md"
    try:
        state = _text(md / "array_state")
    except OSError:
        return None  # it is not an array, or it was stopped while we looked
    level = _optional(md / "level") or None
    if state in UNUSED or level in NO_ARRAYS:
        return None
    # A container of disks, whose metadata a program keeps, is always inactive; "external:/md127/0"
    # is an array in one.
    if re.match(r"external:[^/]", _optional(md / "metadata_version") or ""):
        return None
    members = [_member(each, grown) for each in sorted(md.glob("dev-*"))]
    disks = _number(md / "raid_disks")
    alive = {each["slot"] for each in members if _is_alive(each)}
    missing = disks - len(alive) if members else _number(md / "degraded")
    done = _PROGRESS.match(_optional(md / "sync_completed") or "")
    array: Array = {
        "name": folder.name,
        "level": level,
        "state": state,
        "condition": "well",
        "disks": disks,
        "missing": max(0, missing, _number(md / "degraded")),
        "survives": None,
        "action": _optional(md / "sync_action") or "idle",  # no such file without redundancy
        "done": int(done[1]) / int(done[2]) if done and int(done[2]) else None,
        "mismatches": _mismatches(md) * SECTOR,
        "policy": _optional(md / "consistency_policy") or None,
        "holds_data": None if beneath is None else folder.name in beneath,
        "members": members,
    }
    array["survives"] = survives(array, _number(md / "layout"))
    array["condition"] = condition(array)
    return array


def _mismatches(md: Path) -> int:
    """A repair counts what it mended."""
    checked = _optional(md / "last_sync_action") or "check"  # kernels before 4.19 do not say
    return _number(md / "mismatch_cnt") if checked == "check" else 0


def _member(folder: Path, grown: Grown) -> Member:
    counter = f"{folder.parent.parent.name}/{folder.name}"
    errors = _number(folder / "errors")
    slot = _optional(folder / "slot") or ""
    bad = (_optional(folder / "bad_blocks") or "").splitlines()
    return {
        "name": folder.name.removeprefix("dev-"),
        "state": _optional(folder / "state") or "gone",
        "slot": int(slot) if slot.isdigit() else None,
        "errors": errors,
        "has_new_errors": grown.is_new(counter, errors, ERRORS_TOLD_MS),
        "bad_ranges": len(bad),
    }


def _is_alive(member: Member) -> bool:
    words = member["state"].split(",")
    return member["slot"] is not None and "in_sync" in words and "faulty" not in words


def _text(file: Path) -> str:
    return file.read_text().strip()


def _optional(file: Path) -> str | None:
    """None: this level has no such file, or the array went while we looked."""
    try:
        return _text(file)
    except OSError:
        return None


def _number(file: Path) -> int:
    """Files that are not there, and words such as "none", are zero."""
    match = _LEADING.match(_optional(file) or "")
    return int(match[0]) if match else 0


# What it bears


def survives(array: Array, layout: int = 0) -> int | None:
    """How many more members may fail, whichever they are. Below 0: data is gone."""
    level, missing = array["level"], array["missing"]
    if level in WITHOUT_REDUNDANCY:
        return -missing
    if level == "raid1":
        return array["disks"] - missing - 1
    if level in PARITY:
        return PARITY[level] - missing
    if level == "raid10":
        return _survives_copies(array, layout)
    return None


def _survives_copies(array: Array, layout: int) -> int:
    """Of near copies, block after block: the copies of a block are in neighbouring slots, and the
    next block's begin behind them. Far copies and offset ones are shifted by as many slots."""
    near, far = layout & 0xFF or 2, layout >> 8 & 0xFF or 1
    disks = array["disks"]
    alive = {each["slot"] for each in array["members"] if _is_alive(each)}
    if layout >> FAR_SETS or not array["members"]:
        # Far copies in sets of their own, or nothing to go by: at least so many.
        return max(0, near * far - 1 - array["missing"])
    least = near * far
    for block in range(disks):
        first = block * near
        slots = {
            (first + copy + shift * near) % disks for copy in range(near) for shift in range(far)
        }
        least = min(least, len(slots & alive))
    return least - 1


def condition(array: Array) -> Condition:
    left = array["survives"]
    if array["state"] in STOPPED or (left is not None and left < 0):
        return "failed"
    if array["state"] in READ_ONLY:
        return "read-only"
    if array["missing"] or array["action"] in REBUILDS or _troubles(array):
        return "degraded"
    return "well"


def _troubles(array: Array) -> list[str]:
    troubles = []
    for each in array["members"]:
        words = each["state"].split(",")
        says = [text for word, text in MEMBER_TROUBLE.items() if word in words]
        if each["has_new_errors"]:
            says.append(f"had {some(each['errors'], 'read error')} that others could mend")
        if each["bad_ranges"]:
            says.append(f"has {some(each['bad_ranges'], 'range')} of bad blocks")
        if says:
            troubles.append(f"{each['name']} {' and '.join(says)}")
    if array["mismatches"]:
        where = "parity" if array["level"] in PARITY else "other copies"
        troubles.append(
            f"the last check found {size(array['mismatches'])} that differ from {where}"
        )
    return troubles


# In words


def reason(array: Array) -> str | None:
    """What is wrong with it; None: nothing."""
    if array["condition"] == "well":
        return None
    parts = [_state_told(array), *_troubles(array)]
    if array["action"] in REBUILDS:
        share = "" if array["done"] is None else f", {array['done']:.0%} done"
        parts.append(f"{REBUILDS[array['action']]}{share}")
    name = array["name"] if array["level"] is None else f"{array['name']} ({array['level']})"
    return f"{name} {'; '.join(each for each in parts if each)}{_whose(array)}"


def _state_told(array: Array) -> str:
    lacks = f"lacks {array['missing']} of its {array['disks']} disks" if array["missing"] else ""
    if array["condition"] == "failed":
        why = f" and {lacks}" if lacks else ""
        return f"has failed: it is {array['state']}{why}, and what it holds cannot be had"
    if array["condition"] == "read-only":
        return "is read-only: nothing can be written to it" + (f"; it {lacks}" if lacks else "")
    if not lacks:
        return "is not well" if _troubles(array) else "is not whole yet"
    left = array["survives"]
    if not left:
        return f"{lacks}: the next failure of a disk takes its data"
    return f"{lacks}, and survives {left} more" if left is not None else lacks


def _whose(array: Array) -> str:
    return "; the logs are not on it" if array["holds_data"] is False else ""


def is_failing(array: Array) -> bool:
    """Whether the broker cannot serve for it."""
    return array["condition"] in ("failed", "read-only") and array["holds_data"] is not False

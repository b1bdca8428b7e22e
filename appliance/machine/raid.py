"""The state of Linux software RAID, as the kernel shows it under /sys/block. No program is run.

    failed      data is lost, or the array is stopped
    read-only   the data can be read, and nothing can be written
    degraded    members are missing, or members or copies have trouble; `survives` says how many
                more members may fail
    well        complete

What each level survives, by the kernel's names; raid10 has its number of `near copies` in the low
byte of its layout, `far copies` in the next:

    level       the data is complete as long as
    raid0       every member is
    linear      every member is
    raid1       one member is
    raid4, 5    all but one are
    raid6       all but two are
    raid10      one copy of each block is; near copies of a block are in adjacent slots, so it
                depends on which members failed
    container   holds no data itself: its arrays are listed by themselves
    faulty      a device for tests

A member counts if it is in sync and not faulty. The kernel's `degraded` counts the same, but stays
zero at levels without redundancy.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, TypedDict

from appliance.machine.kernel_counters import Grown
from appliance.process.spoken import size, some

BLOCK = Path("/sys/block")
_PROGRESS = re.compile(r"(\d+) / (\d+)")
_LEADING = re.compile(r"\d+")  # during a reshape raid_disks is "5 (4)": new and old number

# States of an array that serves no data: broken (raid0 and linear that lost a member), incompletely
# assembled, or no array.
STOPPED = ("broken", "inactive", "suspended")
UNUSED = ("clear",)
# Until the first write, which makes it active by itself.
READ_ONLY = ("readonly",)

WITHOUT_REDUNDANCY = ("raid0", "linear")
PARITY = {"raid4": 1, "raid5": 1, "raid6": 2}
NO_ARRAYS = ("container", "faulty")

# These make copies and parity consistent. A resync follows a power cut; until it ends a stripe may
# be inconsistent, and data computed from it wrong. A check changes nothing.
REBUILDS = {
    "recover": "it is being rebuilt",
    "resync": "it is being resynchronised",
    "reshape": "it is being reshaped",
}

FAR_SETS = 17  # bit of a raid10's layout; from here on it tells the groups of far copies
SECTOR = 512

# Words of a member's state that need attention. Others are no trouble: in_sync, spare, journal,
# writemostly, replacement, failfast.
MEMBER_TROUBLE = {
    "faulty": "failed",
    "blocked": "failed and is waited for",
    "write_error": "had write errors",
    "want_replacement": "is to be replaced",
}

# How long new corrected errors are a warning: the counter never falls unless somebody writes a zero
# into it, and a disk with one error years ago may be good.
ERRORS_TOLD_MS = 7 * 86_400_000

Condition = Literal["well", "degraded", "read-only", "failed"]


class Member(TypedDict):
    name: str
    state: str
    slot: int | None  # None: inactive: a spare, or removed
    errors: int  # read errors, corrected from other members
    has_new_errors: bool  # there were fewer a week ago, if known
    bad_ranges: int  # of blocks that are known to be bad on this member


class Array(TypedDict):
    name: str
    level: str | None
    state: str
    condition: Condition
    disks: int  # in a complete array
    missing: int
    survives: int | None  # further failures of any members; None: unknown
    action: str  # idle, recover, check, ...
    done: float | None  # of the action
    mismatches: int  # bytes of copies that differ, from the last check
    policy: str | None  # how copies are made equal after a power cut: resync, bitmap, journal, ppl
    holds_data: bool | None  # whether our data directory is on it; None: unknown
    members: list[Member]


def snapshot(
    block: Path = BLOCK, beneath: frozenset[str] | None = None, grown: Grown | None = None
) -> list[Array]:
    """Every array; usually none. `beneath` names the devices below our data directory; `grown` has
    earlier counts."""
    grown = grown or Grown()
    arrays = (_array(folder, beneath, grown) for folder in sorted(block.glob("md*")))
    return [each for each in arrays if each is not None]


def _array(folder: Path, beneath: frozenset[str] | None, grown: Grown) -> Array | None:
    md = folder / "md"
    try:
        state = _text(md / "array_state")
    except OSError:
        return None  # no array, or stopped meanwhile
    level = _optional(md / "level") or None
    if state in UNUSED or level in NO_ARRAYS:
        return None
    # A container of disks with metadata of a program is always inactive; "external:/md127/0" is an
    # array in one.
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
        "action": _optional(md / "sync_action") or "idle",  # missing without redundancy
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
    """A repair counts what it corrected."""
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
    """None: this level has no such file, or the array is gone by now."""
    try:
        return _text(file)
    except OSError:
        return None


def _number(file: Path) -> int:
    """Missing files and words such as "none" are zero."""
    match = _LEADING.match(_optional(file) or "")
    return int(match[0]) if match else 0


# Redundancy


def survives(array: Array, layout: int = 0) -> int | None:
    """How many more members may fail, whichever they are. Below 0: data is lost."""
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
    """Near copies of a block are in adjacent slots, and those of the next block follow. Far and
    offset copies are shifted by as many slots."""
    near, far = layout & 0xFF or 2, layout >> 8 & 0xFF or 1
    disks = array["disks"]
    alive = {each["slot"] for each in array["members"] if _is_alive(each)}
    if layout >> FAR_SETS or not array["members"]:
        # Far copies in own groups, or an unknown layout: a lower bound.
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


# Messages


def reason(array: Array) -> str | None:
    """The trouble of an array; None: none."""
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
    """Whether the array keeps the broker from serving."""
    return array["condition"] in ("failed", "read-only") and array["holds_data"] is not False

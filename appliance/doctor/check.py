"""One thing that was looked at.

    ok         as it should be
    advice     it works, and could be faster or safer
    unknown    it cannot be seen from here
    degraded   less safety than usual
    failing    data is gone, or cannot be written

The last two are wrong: health tells them in the same words.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, TypedDict

Verdict = Literal["ok", "advice", "unknown", "degraded", "failing"]
WRONG: tuple[Verdict, ...] = ("failing", "degraded")
WORST_FIRST: tuple[Verdict, ...] = (*WRONG, "unknown", "advice", "ok")


# As udev names them, by how the name begins. An array and a volume keep their names.
KINDS = {
    "sd": 'KERNEL=="sd*", ENV{DEVTYPE}=="disk", ATTR{queue/rotational}=="1"',
    "nvme": 'KERNEL=="nvme*", ENV{DEVTYPE}=="disk", ATTR{queue/rotational}=="0"',
}


class Change(NamedTuple):
    """What `--fix` does: undone by writing the former value, and no data is touched."""

    path: str  # below the root: proc/sys/vm/swappiness, sys/block/sda/queue/scheduler
    value: str
    rule: str = ""  # of udev, for the next start; "": it is a sysctl


class Check(NamedTuple):
    name: str
    verdict: Verdict
    found: str  # what is there, with numbers
    why: str  # it matters
    fix: str = ""  # a command, or what to do by hand; "": nothing
    changes: tuple[Change, ...] = ()
    area: str = ""  # for health; "": the name

    @property
    def is_wrong(self) -> bool:
        return self.verdict in WRONG


class CheckRow(TypedDict):
    name: str
    verdict: Verdict
    found: str
    why: str
    fix: str


def row(check: Check) -> CheckRow:
    return {
        "name": check.name,
        "verdict": check.verdict,
        "found": check.found,
        "why": check.why,
        "fix": check.fix,
    }


def sysctl(name: str, value: int | str) -> tuple[str, Change]:
    """The command and the change that set one."""
    path = "proc/sys/" + name.replace(".", "/")
    return f"sysctl -w {name}='{value}'", Change(path, str(value))


def block_setting(device: str, attribute: str, value: int | str) -> tuple[str, Change]:
    """The same for an attribute of a block device. A disk may have another name after the next
    start, so the rule is for all of its kind."""
    path = f"sys/block/{device}/{attribute}"
    kind = next((rule for begin, rule in KINDS.items() if device.startswith(begin)), None)
    which = kind or f'KERNEL=="{device}"'
    rule = f'ACTION=="add|change", {which}, ATTR{{{attribute}}}="{value}"'
    return f"echo {value} > /{path}", Change(path, str(value), rule)


def worst_first(checks: Iterable[Check]) -> list[Check]:
    return sorted(checks, key=lambda each: WORST_FIRST.index(each.verdict))


def sentence(checks: Iterable[Check]) -> str:
    given = list(checks)
    counts = {each: sum(1 for one in given if one.verdict == each) for each in WORST_FIRST}
    said = [f"{counts[each]} {each}" for each in WORST_FIRST if counts[each]]
    if counts["failing"] or counts["degraded"]:
        return f"Not healthy: {', '.join(said)}."
    return f"Healthy: {', '.join(said)}."

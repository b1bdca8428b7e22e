"""Which faults come when, out of a seed: the same each time. Who leads or is the controller then is
found when the time has come."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

BROKERS = ("b1", "b2", "b3")
ZOOKEEPERS = ("z1", "z2", "z3")
CONTROLLER, LEADER = "controller", "leader"
FIRST_S, LAST_S = 1.0, 3.0  # without a fault, at the beginning and at the end
TOGETHER = 0.35  # so often the next one comes while the last one lasts

# How often each comes, and between how many sessions' timeouts it lasts.
KINDS: dict[str, tuple[int, float, float]] = {
    "kill": (6, 0.0, 2.0),
    "stop": (4, 0.0, 1.5),
    "pause": (5, 0.1, 2.5),
    "power cut": (4, 0.1, 2.0),
    "power cut of all": (1, 0.1, 1.0),
    "two killed": (1, 0.0, 1.5),
    "all killed": (1, 0.0, 1.0),
    "returns alone": (2, 0.2, 1.5),
    "new disk": (1, 0.3, 1.5),
    "old copy": (1, 0.5, 2.0),
    "full disk": (2, 0.5, 2.0),
    "dead disk": (2, 0.3, 1.5),
    "clock": (2, 0.5, 2.0),
    "cut off": (4, 0.3, 2.5),
    "cut one way": (3, 0.3, 2.5),
    "bridge": (2, 0.5, 2.5),
    "cut from ZooKeeper": (4, 0.3, 2.5),
    "cut from one ZooKeeper": (2, 0.3, 2.0),
    "split": (3, 0.5, 2.5),
    "slow": (2, 0.5, 3.0),
    "lossy": (2, 0.5, 3.0),
    "big packets lost": (1, 0.5, 2.5),
    "ZooKeeper killed": (3, 0.2, 2.0),
    "ZooKeeper paused": (2, 0.2, 2.0),
    "ZooKeeper lost": (1, 0.2, 2.5),
    "late fetch": (1, 1.5, 1.9),
    "late ISR write": (1, 4.5, 5.0),
    "joins unheard": (1, 4.2, 4.8),
    "joiner alone": (1, 4.5, 5.0),
    "cut off in steps": (1, 3.2, 4.0),
    "new disk first": (1, 2.5, 3.0),
    "old copy first": (1, 4.5, 5.0),
    "power cut back": (1, 1.2, 1.8),
    "stops ahead": (1, 2.0, 3.0),
}
# Of several steps (`directed.py`), whose time is that of all of them.
DIRECTED = ("late fetch", "late ISR write", "joins unheard", "joiner alone",
            "cut off in steps", "new disk first", "old copy first", "power cut back",
            "stops ahead")  # fmt: skip
LOSSES = ("new disk", "old copy", "new disk first", "old copy first")
# Whoever has one of these has lost what only it and the one before may have. Two of three disks at
# once are more than is promised, so it comes when all is in sync, or not at all.
DISKS = (*LOSSES, "dead disk")


@dataclass(frozen=True)
class Fault:
    at_s: float
    lasts_s: float
    kind: str
    places: tuple[str, ...]
    amount: float  # of what there is a measure for: between 0 and 1

    def __str__(self) -> str:
        places = " ".join(self.places)
        return f"{self.at_s:.1f}+{self.lasts_s:.1f} {self.kind} {places} {self.amount:.2f}"


def schedule(
    seed: int, seconds: float, session_s: float, kinds: Iterable[str] = KINDS
) -> list[Fault]:
    chance = random.Random(seed)
    wanted = [*kinds]
    found: list[Fault] = []
    at_s = FIRST_S
    while True:
        kind = chance.choices(wanted, [KINDS[each][0] for each in wanted])[0]
        _, least, most = KINDS[kind]
        lasts_s = chance.uniform(least, most) * session_s
        places = _places(kind, chance)
        fault = Fault(at_s, lasts_s, kind, places, chance.random())
        if at_s + lasts_s > seconds - LAST_S:
            return found
        if kind in LOSSES:  # a second one, before all is copied again, would be too many
            wanted = [each for each in wanted if each not in LOSSES]
            if not wanted:
                return [*found, fault]
        found.append(fault)
        is_together = chance.random() < TOGETHER
        at_s += chance.uniform(0, lasts_s) if is_together else lasts_s
        at_s += chance.uniform(0.1, 0.7 * session_s)


def _places(kind: str, chance: random.Random) -> tuple[str, ...]:
    """What it concerns, in an order: a broker first, if it is about one."""
    broker = chance.choice([*BROKERS, CONTROLLER, LEADER])
    others = chance.sample(BROKERS, 3)
    zookeepers = chance.sample(ZOOKEEPERS, 3)
    if kind == "returns alone":
        return (*others,)
    if kind in ("two killed", "bridge"):
        return (*others[:2],)
    if kind in ("all killed", "power cut of all"):
        return BROKERS
    if kind.startswith("ZooKeeper"):
        return (*zookeepers[: 3 if kind.endswith("lost") else 1],)
    if kind in ("split", "cut from one ZooKeeper"):
        return broker, zookeepers[0]
    return (broker,)

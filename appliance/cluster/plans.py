"""Plans of moves between brokers, without I/O: off a broker, to another in its place, more
replicas, and until all have as much. They keep racks apart where they were, and move as few bytes
as they can.

A plan is a list of moves; each names the replicas that a partition is to have, its preferred leader
first. One that only changes the order moves no bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from appliance.cluster.forms import Key, Replicas


@dataclass(frozen=True)
class Placed:
    """A partition as it is."""

    topic: str
    partition: int
    replicas: Replicas
    size: int = 0  # bytes of one replica
    leader: int = -1
    isr: Replicas = ()

    @property
    def key(self) -> Key:
        return self.topic, self.partition

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True)
class Move:
    of: Placed
    replicas: Replicas

    @property
    def adding(self) -> Replicas:
        return tuple(each for each in self.replicas if each not in self.of.replicas)

    @property
    def size(self) -> int:
        """Bytes that are copied."""
        return self.of.size * len(self.adding)


@dataclass
class Plan:
    moves: list[Move] = field(default_factory=list)
    stuck: list[Placed] = field(default_factory=list)  # for which there are too few brokers

    @property
    def size(self) -> int:
        return sum(each.size for each in self.moves)


class Loads:
    """What each broker has, with what the plan gives it."""

    def __init__(self, racks: Mapping[int, str], placed: Iterable[Placed]) -> None:
        self.racks = dict(racks)
        self.replicas: Counter[int] = Counter(dict.fromkeys(racks, 0))
        self.sizes: Counter[int] = Counter(dict.fromkeys(racks, 0))
        self.led: Counter[int] = Counter(dict.fromkeys(racks, 0))  # as the preferred leader
        for each in placed:
            self.put(each, each.replicas, 1)

    def put(self, placed: Placed, replicas: Sequence[int], sign: int) -> None:
        for node in replicas:
            self.replicas[node] += sign
            self.sizes[node] += sign * placed.size
        self.led[replicas[0]] += sign

    def change(self, placed: Placed, before: Replicas, after: Replicas) -> None:
        self.put(placed, before, -1)
        self.put(placed, after, 1)

    def spread(self, replicas: Iterable[int]) -> int:
        """How many racks have one."""
        return len({self.racks.get(each) or f"broker {each}" for each in replicas})

    def best(self, others: Replicas, among: Collection[int]) -> int | None:
        """Who is to have a replica beside those: in a rack that has none, and with the least."""
        free = [each for each in among if each not in others]
        if not free:
            return None
        return min(free, key=lambda each: (
            -self.spread([*others, each]), self.replicas[each], self.sizes[each], each
        ))  # fmt: skip


def with_another(replicas: Replicas, node: int, other: int) -> Replicas:
    return tuple(other if each == node else each for each in replicas)


def off(
    node: int, placed: Sequence[Placed], racks: Mapping[int, str], may_be_fewer: bool = False
) -> Plan:
    """All replicas off a broker. `racks`: of who lives. `may_be_fewer`: where nobody is left to
    have one, the partition has one less."""
    loads, plan = Loads(racks, placed), Plan()
    others = [each for each in racks if each != node]
    mine = [each for each in placed if node in each.replicas]
    for each in sorted(mine, key=lambda one: (-one.size, one.key)):
        stay = tuple(one for one in each.replicas if one != node)
        target = loads.best(stay, others)
        if target is None and not (may_be_fewer and stay):
            plan.stuck.append(each)
            continue
        after = stay if target is None else with_another(each.replicas, node, target)
        loads.change(each, each.replicas, after)
        plan.moves.append(Move(each, after))
    return plan


def in_place_of(
    node: int, other: int, placed: Sequence[Placed], racks: Mapping[int, str]
) -> Plan:
    """All replicas of a broker to another one; where that has one already, to whoever has least."""
    loads, plan = Loads(racks, placed), Plan()
    for each in placed:
        if node not in each.replicas:
            continue
        stay = tuple(one for one in each.replicas if one != node)
        others = [one for one in racks if one != node]
        target = loads.best(stay, [other] if other not in stay else others)
        if target is None:
            plan.stuck.append(each)
            continue
        after = with_another(each.replicas, node, target)
        loads.change(each, each.replicas, after)
        plan.moves.append(Move(each, after))
    return plan


def up_to(
    factor: int,
    placed: Sequence[Placed],
    racks: Mapping[int, str],
    others: Sequence[Placed] = (),
) -> Plan:
    """More replicas for those that have fewer. Who leads them leads them still. `others` stay as
    they are, and count as load."""
    loads, plan = Loads(racks, [*placed, *others]), Plan()
    few = [each for each in placed if len(each.replicas) < factor]
    for each in sorted(few, key=lambda one: (-one.size, one.key)):
        after = each.replicas
        while len(after) < factor and (target := loads.best(after, [*racks])) is not None:
            after = (*after, target)
        if len(after) < factor:
            plan.stuck.append(each)
            continue
        loads.change(each, each.replicas, after)
        plan.moves.append(Move(each, after))
    return plan


def even(placed: Sequence[Placed], racks: Mapping[int, str]) -> Plan:
    """Until no broker has two replicas, or two preferred leaders, more than another, as far as
    racks allow. Partitions with a dead replica stay as they are."""
    movable = [each for each in placed if {*each.replicas} <= {*racks}]
    loads = Loads(racks, placed)
    now = {each.key: each.replicas for each in movable}
    smallest_first = sorted(movable, key=lambda each: (each.size, each.key))
    while _even_replicas(smallest_first, now, loads):
        pass
    while _even_leaders(movable, now, loads):
        pass
    return Plan([Move(each, now[each.key]) for each in movable if now[each.key] != each.replicas])


def _even_replicas(
    placed: Sequence[Placed], now: dict[Key, Replicas], loads: Loads
) -> bool:
    """Moves one replica, the smallest that may go from who has most to who has least."""
    by_load = sorted(loads.racks, key=lambda each: (loads.replicas[each], loads.sizes[each], each))
    for source in reversed(by_load):
        for target in by_load:
            if loads.replicas[source] - loads.replicas[target] < 2:
                break
            if _moved_one(placed, now, loads, source, target):
                return True
    return False


def _moved_one(
    placed: Sequence[Placed], now: dict[Key, Replicas], loads: Loads, source: int, target: int
) -> bool:
    for each in placed:
        before = now[each.key]
        if source not in before or target in before:
            continue
        after = with_another(before, source, target)
        if loads.spread(after) < loads.spread(before):
            continue
        loads.change(each, before, after)
        now[each.key] = after
        return True
    return False


def _even_leaders(placed: Sequence[Placed], now: dict[Key, Replicas], loads: Loads) -> bool:
    """Another preferred leader for some, along a way from who has most to who has least: each on it
    gives one to the next."""
    most = max(loads.racks, key=lambda each: (loads.led[each], each), default=None)
    if most is None:
        return False
    came_by: dict[int, tuple[int, Placed] | None] = {most: None}
    queue = [most]
    for node in queue:
        if loads.led[most] - loads.led[node] >= 2:
            _hand_on(node, came_by, now, loads)
            return True
        for each in placed:
            if now[each.key][0] != node:
                continue
            for other in now[each.key][1:]:
                if other not in came_by:
                    came_by[other] = node, each
                    queue.append(other)
    return False


def _hand_on(
    node: int,
    came_by: Mapping[int, tuple[int, Placed] | None],
    now: dict[Key, Replicas],
    loads: Loads,
) -> None:
    step = came_by[node]
    while step is not None:
        before, placed = step
        replicas = now[placed.key]
        after = (node, *(each for each in replicas if each != node))
        loads.change(placed, replicas, after)
        now[placed.key] = after
        node, step = before, came_by[before]

"""The faults of a schedule, each with its undoing."""

from __future__ import annotations

import heapq
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterable
from functools import partial

from tests.replication.histories.directed import DirectedFaults, Undo
from tests.replication.histories.network import CLIENTS, both_ways, one_way
from tests.replication.histories.schedule import BROKERS, DIRECTED, DISKS, ZOOKEEPERS, Fault
from tests.replication.histories.site import Site

CLOCK_MS = 30 * 60 * 1000
SLOW_KBIT = 4000
LOSS = 0.4
MISSED = 1.3  # sessions' timeouts, after which whoever died in the last step was missed


class Faults(DirectedFaults):
    """Runs to the end of its schedule, or until it is told to end; then undoes what is left."""

    def __init__(self, site: Site, planned: Iterable[Fault]) -> None:
        super().__init__(site)
        self.planned = [*planned]
        self.done: Counter[str] = Counter()
        self.told: list[str] = []
        self.began = time.monotonic()
        self._is_over = threading.Event()
        self._undoing: list[tuple[float, int, Undo]] = []

    def run(self, seconds: float) -> None:
        self.began = time.monotonic()
        for fault in self.planned:
            self._wait_until(fault.at_s)
            if fault.kind in DISKS and (wrong := self.site.until_in_sync(time.monotonic())):
                self.told.append(f"{self._now_s():.1f}: no {fault.kind}: {wrong}")
                continue
            names = tuple(self.site.named(each, fault.amount) for each in fault.places)
            began_s = self._now_s()
            undo = self._begin(fault, names)
            self.done[fault.kind] += 1
            self.told.append(f"{began_s:.1f}: {fault.kind} {' '.join(names)}, "
                             f"for {fault.lasts_s:.1f} s")  # fmt: skip
            until_s = (began_s if fault.kind in DIRECTED else self._now_s()) + fault.lasts_s
            if fault.kind in DIRECTED:
                until_s = max(until_s, self._now_s() + MISSED * self.site.session_s)
            heapq.heappush(self._undoing, (until_s, len(self.told), undo))
        self._wait_until(seconds)
        while self._undoing:
            heapq.heappop(self._undoing)[2]()

    def _now_s(self) -> float:
        return time.monotonic() - self.began

    def _wait_until(self, at_s: float) -> None:
        while self._undoing and self._undoing[0][0] <= at_s:
            due_s, _, undo = heapq.heappop(self._undoing)
            time.sleep(max(0.0, due_s - self._now_s()))
            undo()
        time.sleep(max(0.0, at_s - self._now_s()))

    def _begin(self, fault: Fault, names: tuple[str, ...]) -> Undo:
        method = getattr(self, "_" + fault.kind.lower().replace(" ", "_"))
        undo: Undo = method(names, fault.amount)
        return undo

    # Processes

    def _ended(self, names: Iterable[str], number: signal.Signals) -> Undo:
        machines = [self.site.machines[each] for each in names]
        for each in machines:
            each.do(partial(each.end, number))
        return partial(self.started, machines)

    def _kill(self, names: tuple[str, ...], amount: float) -> Undo:
        return self._ended(names, signal.SIGKILL)

    _two_killed = _all_killed = _kill

    def _stop(self, names: tuple[str, ...], amount: float) -> Undo:
        return self._ended(names, signal.SIGTERM)

    def _pause(self, names: tuple[str, ...], amount: float) -> Undo:
        machine = self.site.machines[names[0]]
        machine.send(signal.SIGSTOP)
        return lambda: machine.send(signal.SIGCONT)

    def _returns_alone(self, names: tuple[str, ...], amount: float) -> Undo:
        """The first one dies, then the others; it comes back first, and does not have all."""
        first, *others = (self.site.machines[each] for each in names)
        wait = partial(time.sleep, (0.5 + amount) * self.site.session_s)
        first.do(first.end)
        for each in others:
            each.do(wait)
            each.do(each.end)

        def undo() -> None:
            for each in others:
                each.do(wait)
            self.started((first, *others))

        return undo

    # Disks and clocks

    def _power_cut(self, names: tuple[str, ...], amount: float) -> Undo:
        machines = [self.site.machines[each] for each in names]
        for each in machines:
            each.do(each.lose_power)
        return partial(self.started, machines)

    _power_cut_of_all = _power_cut

    def _new_disk(self, names: tuple[str, ...], amount: float) -> Undo:
        machine = self.site.machines[names[0]]
        machine.do(machine.lose_all)
        return lambda: machine.do(machine.start)

    def _old_copy(self, names: tuple[str, ...], amount: float) -> Undo:
        """Its disk is copied. In its next life the copy is put back in the place of the disk."""
        machine = self.site.machines[names[0]]
        for job in (machine.copy_disk, machine.end, machine.start):
            machine.do(job)

        def undo() -> None:
            machine.do(machine.put_copy_back)
            machine.do(machine.start)

        return undo

    def _full_disk(self, names: tuple[str, ...], amount: float) -> Undo:
        machine = self.site.machines[names[0]]
        machine.do(machine.fill_disk)
        return lambda: machine.do(machine.empty_disk)

    def _dead_disk(self, names: tuple[str, ...], amount: float) -> Undo:
        machine = self.site.machines[names[0]]
        machine.do(machine.lose_disk)
        return lambda: machine.do(machine.mend_disk)

    def _clock(self, names: tuple[str, ...], amount: float) -> Undo:
        clock = self.site.machines[names[0]].clock
        clock.set(int((amount - 0.5) * 2 * CLOCK_MS))
        return lambda: clock.set(0)

    # Networks

    def _cut_off(self, names: tuple[str, ...], amount: float) -> Undo:
        """From all, but in half of the cases not from clients."""
        others = [*BROKERS, *ZOOKEEPERS, *([CLIENTS] if amount < 0.5 else [])]
        return self.cut(both_ways(names, others))

    def _cut_one_way(self, names: tuple[str, ...], amount: float) -> Undo:
        """It is not heard, or does not hear."""
        others = {*BROKERS, *ZOOKEEPERS} - {*names}
        hears = amount < 0.5
        return self.cut(one_way(names, others) if hears else one_way(others, names))

    def _bridge(self, names: tuple[str, ...], amount: float) -> Undo:
        return self.cut(both_ways(names[:1], names[1:]))

    def _cut_from_zookeeper(self, names: tuple[str, ...], amount: float) -> Undo:
        if amount < 0.5:
            return self.cut(both_ways(names, ZOOKEEPERS))
        hears = amount < 0.75
        return self.cut(one_way(names, ZOOKEEPERS) if hears else one_way(ZOOKEEPERS, names))

    def _cut_from_one_zookeeper(self, names: tuple[str, ...], amount: float) -> Undo:
        return self.cut(both_ways(names[:1], names[1:]))

    def _split(self, names: tuple[str, ...], amount: float) -> Undo:
        """A broker and a ZooKeeper on one side."""
        return self.cut(both_ways(names, {*BROKERS, *ZOOKEEPERS} - {*names}))

    def _slow(self, names: tuple[str, ...], amount: float) -> Undo:
        self.site.network.slow(names[0], int(100 + amount * SLOW_KBIT))
        return lambda: self.site.network.slow(names[0], 0)

    def _lossy(self, names: tuple[str, ...], amount: float) -> Undo:
        self.site.network.lose(names[0], 0.01 + amount * LOSS)
        return lambda: self.site.network.lose(names[0], 0.0)

    def _big_packets_lost(self, names: tuple[str, ...], amount: float) -> Undo:
        """From the other brokers: a path that takes smaller ones than was told."""
        pairs = one_way([each for each in BROKERS if each not in names], names)
        self.site.network.narrow(pairs)
        return lambda: self.site.network.widen(pairs)

    # ZooKeepers

    def _zookeeper_killed(self, names: tuple[str, ...], amount: float) -> Undo:
        self.site.zookeepers.kill(*names)
        return lambda: self.site.zookeepers.start(*names)

    _zookeeper_lost = _zookeeper_killed

    def _zookeeper_paused(self, names: tuple[str, ...], amount: float) -> Undo:
        node = self.site.zookeepers.nodes[names[0]]
        node.send(signal.SIGSTOP)
        return lambda: node.send(signal.SIGCONT)

"""Faults of several steps, each of which brings about one order of events that chance seldom meets:
that of the shortest way in which a rule of `docs/replication.md` is missed, as the model in
`tests/replication/` finds it. Each takes its steps, and returns what undoes the last of them.

    late fetch         a fetch comes two elections late. Its follower has cut its log since, and
                       then is all that lives
    late ISR write     a leader that cannot hear ZooKeeper writes an ISR after it was deposed. Then
                       all die, and it comes back first
    joins unheard      a leader that cannot hear ZooKeeper writes that a follower is in sync, which
                       then gets no more records. All others die
    joiner alone       a broker that comes back gets no records. All others die
    cut off in steps   a leader is cut off from the others, and from ZooKeeper when it would write
                       that they are out of sync
    new disk first     all die, and the first to come back has an empty disk
    old copy first     all die, and the first to come back has an older copy of its disk
    power cut back     a leader loses what it had not synced, comes back in its session, and writes
                       on before its followers reach it
    stops ahead        a leader that is stopped has what its followers do not have yet
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable
from functools import partial

from tests.replication.histories.leaders import TOPIC, InZooKeeper, Leaders
from tests.replication.histories.machine import Machine
from tests.replication.histories.network import (
    CLIENTS,
    NEWS,
    WORDS,
    Pair,
    both_ways,
    one_way,
)
from tests.replication.histories.schedule import BROKERS, ZOOKEEPERS
from tests.replication.histories.site import LAG_S, Site, until

Undo = Callable[[], None]
AHEAD_S = 0.5  # a follower gets ahead of the other one
HELD_S = 0.1  # its next fetch is on its way
CUT_S = 0.6  # it hears of the next leader, and cuts its log
RESENT_S = 1.2  # TCP sends again what was dropped
RESENT_MAX_S = 3.5  # after more its follower is out of sync
ELECT_S = 2.0
CAUGHT_UP_S = 2.5  # it has all, and the leader has written that
DEAF_S = 0.8  # so long before the ISR is to be written the leader hears no more
WRITTEN_S = 0.8  # and so long after that it has written
UP_S = 60.0  # a broker starts, on a machine with much to do
OUT_S = 10.0  # it is out of sync
BEHIND_S = 1.0  # and lacks what came since
JOINS_S = 2.0  # it is in sync, if anybody thinks so
FIRST_S = 2.0  # who comes back first is alone for so long
ALONE_BYTES = 10_000  # it has written more alone than it lost
STOPS_S = 1.0  # it has ended its session, if it does not wait for its followers
SOON_S = 0.02
GONE = 1.2  # sessions' timeouts after which a broker that died is missed


def others_than(name: str, amount: float) -> list[str]:
    found = [each for each in BROKERS if each != name]
    return found if amount < 0.5 else found[::-1]


class DirectedFaults:
    """Part of `Faults`, whose kinds these are."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def cut(self, pairs: list[Pair]) -> Undo:
        self.site.network.cut(pairs)
        return lambda: self.site.network.mend(pairs)

    def _deaf(self, name: str, least: int = WORDS) -> Undo:
        """What it says comes to the ensemble: with no answer at all TCP would soon say no more."""
        pairs = one_way(ZOOKEEPERS, [name])
        self.site.network.narrow(pairs, least)
        return lambda: self.site.network.widen(pairs, least)

    def started(self, machines: Iterable[Machine]) -> None:
        for each in machines:
            each.do(each.start)

    def ended(self, names: Iterable[str]) -> list[Machine]:
        machines = [self.site.machines[each] for each in names]
        for each in machines:
            each.do(each.end)
        return machines

    def _late_fetch(self, names: tuple[str, ...], amount: float) -> Undo:
        leader = Leaders(self.site, names[0]).controller() or names[0]
        behind, follower = others_than(leader, amount)
        word = Leaders(self.site, leader)
        numbers = word.given(leader)
        word.prefer(numbers, (behind, leader, follower))
        apart = self.cut([*both_ways([leader], [behind]), *both_ways([behind], [CLIENTS])])
        time.sleep(AHEAD_S)
        held, held_s = self.cut(one_way([follower], [leader])), time.monotonic()
        time.sleep(HELD_S)
        word.elect(numbers, behind, ELECT_S)
        time.sleep(CUT_S)
        machine = self.site.machines[follower]
        machine.send(signal.SIGSTOP)
        word.prefer(numbers, (leader, behind, follower))
        word.elect(numbers, leader, ELECT_S)
        apart()
        held()
        # TCP waits twice as long each time.
        time.sleep(min(max(RESENT_S, time.monotonic() - held_s), RESENT_MAX_S))
        dead = self.ended([leader, behind])
        machine.send(signal.SIGCONT)
        return partial(self.started, dead)

    def _late_isr_write(self, names: tuple[str, ...], amount: float) -> Undo:
        deposed = self._no_controller(names[0], amount)
        elected, lagging = others_than(deposed, amount)
        word = Leaders(self.site, elected)
        numbers = word.given(deposed)
        word.prefer(numbers, (elected, deposed, lagging))
        bridge = self.cut(both_ways([deposed], [lagging]))
        time.sleep(LAG_S - DEAF_S)
        hears = self._deaf(deposed)
        word.elect(numbers, elected, DEAF_S)
        time.sleep(DEAF_S + WRITTEN_S)
        hears()
        bridge()
        time.sleep(WRITTEN_S)
        return self._returns_first(deposed, self.site.machines[deposed].end)

    def _no_controller(self, asked: str, amount: float) -> str:
        """One that leads something, or may."""
        word = Leaders(self.site, asked)
        others = others_than(word.controller(), amount)
        return next((each for each in others if word.led_by(each)), others[0])

    def _returns_first(self, name: str, dies: Callable[[], None]) -> Undo:
        """All die, and are missed."""
        first = self.site.machines[name]
        first.do(dies)
        others = self.ended(others_than(name, 0))
        first.do(partial(time.sleep, GONE * self.site.session_s))
        first.do(first.start)

        def undo() -> None:
            first.until_idle(UP_S)
            time.sleep(FIRST_S)
            self.started(others)

        return undo

    def _new_disk_first(self, names: tuple[str, ...], amount: float) -> Undo:
        return self._returns_first(names[0], self.site.machines[names[0]].lose_all)

    def _old_copy_first(self, names: tuple[str, ...], amount: float) -> Undo:
        machine = self.site.machines[names[0]]
        for job in (machine.copy_disk, machine.end, machine.start):
            machine.do(job)
        machine.until_idle(UP_S)
        until(partial(Leaders(self.site, names[0]).are_in_sync, names[0]), UP_S)
        time.sleep(BEHIND_S)
        return self._returns_first(names[0], machine.put_copy_back)

    def _power_cut_back(self, names: tuple[str, ...], amount: float) -> Undo:
        leader = self._no_controller(names[0], amount)
        others, machine = others_than(leader, amount), self.site.machines[leader]
        word, own = Leaders(self.site, others[0]), Leaders(self.site, leader)
        numbers = word.given(leader)
        until(partial(word.are_in_sync, *BROKERS), UP_S)
        machine.do(machine.lose_power_while_busy)
        machine.until_idle(UP_S)
        apart = self.cut(both_ways([leader], others))
        self.started([machine])
        until(partial(own.lives, leader), UP_S)
        size = self._size(leader, numbers)
        until(lambda: self._size(leader, numbers) > size + ALONE_BYTES, OUT_S)
        counted = own.counted(numbers)
        apart()
        for each in others:
            self.site.network.reset(each, leader)
        until(lambda: own.counted(numbers) > counted, OUT_S)
        return partial(self.started, self.ended([leader]))

    def _size(self, name: str, numbers: Iterable[int]) -> int:
        """Of what it has, also of what does not count."""
        return sum(len(self.site.files(name, (TOPIC, each))) for each in numbers)

    def _stops_ahead(self, names: tuple[str, ...], amount: float) -> Undo:
        leader, others = names[0], others_than(names[0], amount)
        machine = self.site.machines[leader]
        Leaders(self.site, others[0]).given(leader)
        apart = self.cut(both_ways([leader], others))
        time.sleep(AHEAD_S)
        machine.do(partial(machine.end, signal.SIGTERM))
        time.sleep(STOPS_S)
        apart()
        for each in others:
            self.site.network.reset(each, leader)
        return partial(self.started, [machine])

    def _joins_unheard(self, names: tuple[str, ...], amount: float) -> Undo:
        leader = self._no_controller(names[0], amount)
        joiner, other = others_than(leader, amount)
        word, written = Leaders(self.site, other), InZooKeeper(self.site)
        numbers = word.given(leader)
        bridge = self.cut(both_ways([joiner], [leader]))
        time.sleep(LAG_S)
        until(lambda: not word.is_in_sync(joiner, numbers), OUT_S)
        hears = self._deaf(leader, NEWS)
        bridge()
        self.site.network.reset(joiner, leader)  # after so long TCP would be slow to try again
        until(lambda: written.is_in_sync(joiner, numbers), CAUGHT_UP_S, SOON_S)
        bridge = self.cut(both_ways([joiner], [leader]))
        time.sleep(AHEAD_S)
        dead = self.ended([leader, other])
        written.close()
        hears()
        bridge()
        return partial(self.started, dead)

    def _joiner_alone(self, names: tuple[str, ...], amount: float) -> Undo:
        joiner, others = names[0], others_than(names[0], amount)
        (machine,) = self.ended([joiner])
        word = Leaders(self.site, others[0])
        until(lambda: not word.is_in_sync(joiner), OUT_S)
        time.sleep(BEHIND_S)
        path = one_way(others, [joiner])
        self.site.network.narrow(path)
        self.started([machine])
        until(lambda: word.lives(joiner), UP_S)
        time.sleep(JOINS_S)
        dead = self.ended(others)

        def undo() -> None:
            self.site.network.widen(path)
            self.started(dead)

        return undo

    def _cut_off_in_steps(self, names: tuple[str, ...], amount: float) -> Undo:
        from_others = self.cut(both_ways(names, [each for each in BROKERS if each not in names]))
        time.sleep(LAG_S - DEAF_S)
        from_zookeeper = self.cut(both_ways(names, ZOOKEEPERS))
        time.sleep(DEAF_S)

        def undo() -> None:
            from_zookeeper()
            from_others()

        return undo

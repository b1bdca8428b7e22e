"""How far partitions go that are on other brokers alone, for the lag of groups: their leaders tell.

A broker gets two requests, for ends and for starts, about all of its partitions that are asked for,
and no others before it has answered. What it told holds for `FRESH_S`, so who asks often costs it
nothing, and whoever asks waits `WAIT_S` at most: an answer that comes later is there for the next
one. What was not told for a while is not known, and nobody guesses.

    time of a look      10:00:00   10:00:10   10:00:20
    end that was told        100        140        140     the record at 120 is there since 10:00:10

So the age of a record is known to within the time between two looks, and never above what it is;
of what was there at the first look it is the time since then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable
from typing import NamedTuple, Protocol

from appliance.broker.members import NOBODY, Members
from appliance.broker.partition_leaders import EARLIEST, LATEST, PartitionLeaders
from appliance.errors import ApplianceError
from appliance.groups.lag_elsewhere import Ends
from appliance.groups.records import Partition
from appliance.process import event_log
from appliance.process.detached_tasks import Tasks
from appliance.topics.topic import Topic
from appliance.topics.topics import Topics

events = event_log.named("groups.lag")

FRESH_S = 2.0
WAIT_S = 1.0
LOOKS_MAX = 64  # of a partition: when there are more, every other one of the older half goes


class Us(Protocol):
    """The broker."""

    node_id: int
    members: Members
    topics: Topics
    leaders: PartitionLeaders


class Look(NamedTuple):
    """The first at which there was this end."""

    at_s: float
    end: int


class Told:
    """What was told of one partition."""

    def __init__(self) -> None:
        self.at_s = -1.0
        self.ends = Ends(0, 0)
        self.looks: list[Look] = []

    def take(self, ends: Ends, now_s: float) -> None:
        if self.looks and ends.end < self.looks[-1].end:  # cut, after an unclean election
            self.looks.clear()
        if not self.looks or ends.end > self.looks[-1].end:
            self.looks.append(Look(now_s, ends.end))
        if len(self.looks) > LOOKS_MAX:
            del self.looks[1 : LOOKS_MAX // 2 : 2]
        self.at_s, self.ends = now_s, ends


class LeadersEnds:
    """On the event loop."""

    def __init__(self, us: Us, interval_s: int) -> None:
        """Of lag."""
        self.stale_s = max(30.0, 3.0 * interval_s)
        self._us = us
        self._told: dict[Partition, Told] = {}
        self._asking: dict[int, asyncio.Task[None]] = {}
        self._silent: set[int] = set()
        self._tasks = Tasks()

    async def close(self) -> None:
        """After the connections to other brokers."""
        await self._tasks.settled()

    def is_there(self, partition: Partition) -> bool:
        topic = self._topic(partition)
        return topic is not None and topic.logs[partition.partition] is None

    def _topic(self, partition: Partition) -> Topic | None:
        found = self._us.topics.get(partition.topic)
        if found is None or not found.is_replicated:
            return None
        return found if 0 <= partition.partition < len(found.logs) else None

    def ends(self, partition: Partition) -> Ends | None:
        found = self._told.get(partition)
        if found is None or time.monotonic() - found.at_s > self.stale_s:
            return None
        return found.ends

    def seconds(self, partition: Partition, offset: int) -> float | None:
        if self.ends(partition) is None:
            return None
        now_s, looks = time.monotonic(), self._told[partition].looks
        return next((now_s - each.at_s for each in looks if each.end > offset), None)

    async def ask(self, partitions: Collection[Partition]) -> None:
        until_s = time.monotonic() + WAIT_S
        for _ in range(2):  # a broker may have been asked about others just now
            by_node = self._by_leader(partitions)
            idle = {node: own for node, own in by_node.items() if node not in self._asking}
            for node, own in idle.items():
                self._begin(node, own)
            left_s = until_s - time.monotonic()
            if not by_node or left_s <= 0:
                return
            await asyncio.wait([self._asking[node] for node in by_node], timeout=left_s)
            if len(idle) == len(by_node):
                return

    def _by_leader(self, partitions: Iterable[Partition]) -> dict[int, list[Partition]]:
        """Of those that were not told lately."""
        fresh_s = time.monotonic() - FRESH_S
        by_node: dict[int, list[Partition]] = {}
        for each in partitions:
            topic, told = self._topic(each), self._told.get(each)
            if topic is None or (told is not None and told.at_s > fresh_s):
                continue
            leader = self._us.members.placement(topic, each.partition).leader
            if leader not in (NOBODY, self._us.node_id):
                by_node.setdefault(leader, []).append(each)
        return by_node

    def _begin(self, node: int, own: list[Partition]) -> None:
        task = self._asking[node] = self._tasks.begin(self._ask(node, own))
        task.add_done_callback(lambda _: self._asking.pop(node))

    async def _ask(self, node: int, own: list[Partition]) -> None:
        try:
            starts, ends = await asyncio.gather(
                self._us.leaders.told_by(node, own, EARLIEST),
                self._us.leaders.told_by(node, own, LATEST),
            )
        except ApplianceError as error:
            if node not in self._silent:
                events.warning("lag is not known of what a broker leads", broker=node, error=error)
            self._silent.add(node)
            return
        self._silent.discard(node)
        self._forget_old()
        now_s = time.monotonic()
        for each in starts.keys() & ends.keys():
            place = Partition(*each)
            self._told.setdefault(place, Told()).take(Ends(starts[each], ends[each]), now_s)

    def _forget_old(self) -> None:
        """Whoever wants them again begins without their past."""
        old_s = time.monotonic() - 2 * self.stale_s
        self._told = {place: each for place, each in self._told.items() if each.at_s > old_s}

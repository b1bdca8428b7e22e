"""Coordinators in a cluster: who leads a partition of an internal topic owns what stands there.

    led here        a term begins. Once all that the election left is on the replicas, the partition
                    is read, on a thread beside the loop; before that its owners are not served
    another's       the term ends at once, also in the middle of a read, whose result is dropped.
                    Of its writes nothing is written any more, and whoever waits for one is told

What is on disk of a term that is over is for whoever reads the partition next. Each partition has
a queue of its own: one whose followers are slow keeps no other waiting.

`groups/offsets_topic_loading.py` does the same for groups, which have more to say about it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from appliance._log import Log
from appliance.errors import ApplianceError, NotLeader
from appliance.process.detached_tasks import Tasks
from appliance.process.event_log import Named
from appliance.topics.internal_topic import HELD_UP_S, InternalTopic, Record, Write, partition_of
from appliance.topics.known_end import knows_end
from appliance.topics.topic import Topic, TopicUnavailable

# Between two looks at how far the replicas are, of a partition that is to be read.
WATERMARK_S = 0.005
WATERMARK_MAX_S = 0.1
AGAIN_MAX_S = 60.0  # one that cannot be read is tried again so seldom at last

Read = TypeVar("Read")


@dataclass(eq=False)
class Term:
    """A partition is led here, from an election on until that is over."""

    partition: int
    epoch: int
    owners: set[str] = field(default_factory=set)  # that stand there
    writes: dict[int, Write] = field(default_factory=dict)  # that are not on disk yet
    is_read: bool = False
    fault: str = ""  # why it cannot be
    over: asyncio.Event = field(default_factory=asyncio.Event)


class LedTopic(Protocol):
    def topic(self) -> Topic | None:
        """None before the first use."""
        ...

    async def make(self) -> Sequence[Log | None]: ...


@dataclass
class LedPartitions(Generic[Read]):
    """On the event loop."""

    _name: str  # of the topic
    _topic: LedTopic
    _timeout_ms: int  # of a write
    _read: Callable[[Log], Read]  # blocks
    _take: Callable[[Term, Read], None]  # what was read is served from now on
    _drop: Callable[[Term], None]  # what stands there is another's
    _logger: Named
    terms: dict[int, Term] = field(default_factory=dict)
    _queues: dict[int, InternalTopic] = field(default_factory=dict)
    _reads: Tasks = field(default_factory=Tasks)
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)
    _is_stopped: bool = False

    # Told; both may be told again

    def on_led(self, partition: int, epoch: int) -> None:
        """This broker was elected."""
        known = self.terms.get(partition)
        if self._is_stopped or (known is not None and known.epoch == epoch):
            return
        self.on_resigned(partition)
        term = self.terms[partition] = Term(partition, epoch)
        self._reads.begin(self._read_when_it_may_be(term))

    def on_resigned(self, partition: int) -> None:
        """Another broker is elected, or nobody."""
        term = self.terms.pop(partition, None)
        if term is None:
            return
        term.over.set()
        self._drop(term)
        error = NotLeader("another broker is the coordinator now")
        for each in list(term.writes.values()):
            each.records = ()  # what is not on its way by now is not to be
            each.done(error, -1)
        if term.owners:
            facts = {"partition": partition, "epoch": term.epoch, "owners": len(term.owners)}
            self._logger.info("unloaded", **facts)

    def stop(self) -> None:
        self._is_stopped = True
        for each in self.terms.values():
            each.over.set()

    async def close(self) -> None:
        """After the last write that has begun."""
        self.stop()
        await self.read_all()
        for each in self._queues.values():
            await each.close()

    async def read_all(self) -> None:
        """After the reads that have begun."""
        await self._reads.settled()

    @property
    def is_reading(self) -> bool:
        return any(not each.is_read and not each.fault for each in self.terms.values())

    @property
    def fault(self) -> str:
        """For people; "": none."""
        faults = [f"{self._name}-{n} ({each.fault})" for n, each in sorted(self.terms.items())
                  if each.fault]  # fmt: skip
        return f"what stands in {', '.join(faults)} is not served" if faults else ""

    # Asked

    def number_of(self, owner: str) -> int | None:
        """Where it stands. None: there is no such topic yet."""
        topic = self._topic.topic()
        return None if topic is None else partition_of(owner, len(topic.logs))

    def term_of(self, owner: str) -> Term | None:
        """None: another broker is its coordinator."""
        number = self.number_of(owner)
        return None if number is None else self.terms.get(number)

    # Written

    def write(self, term: Term, owner: str, records: Sequence[Record], now_ms: int,
              done: Callable[[ApplianceError | None, int], None]) -> None:  # fmt: skip
        """`done` is called with an error as soon as the term is over."""
        if term.over.is_set():
            error = NotLeader("another broker is the coordinator now")
            asyncio.get_running_loop().call_soon(done, error, -1)
            return

        def told(error: ApplianceError | None, first_offset: int) -> None:
            if term.writes.pop(key, None) is not None:
                done(error, first_offset)

        write = Write(owner, records, now_ms, told, election=term.epoch)
        key = id(write)
        term.writes[key] = write
        if term.partition not in self._queues:
            self._queues[term.partition] = InternalTopic(self._topic.make, self._timeout_ms)
        self._queues[term.partition].write(write)

    # Read

    async def _read_when_it_may_be(self, term: Term) -> None:
        wait_s = HELD_UP_S
        while not term.over.is_set():
            try:
                await self._read_led(term)
                return
            except Exception as error:
                fault = str(error) if isinstance(error, ApplianceError) else repr(error)
                if fault != term.fault and not term.over.is_set():
                    self._logger.exception("cannot be read", partition=term.partition)
                    term.fault = fault
                # whether a log is open now is a look; else it may be a long read again
                wait_s = HELD_UP_S if isinstance(error, TopicUnavailable) else 2 * wait_s
            await until_over(term, min(wait_s, AGAIN_MAX_S))

    async def _read_led(self, term: Term) -> None:
        await self._replicated(term)
        async with self._reading:
            if term.over.is_set():
                return
            found = await asyncio.to_thread(self._read, self._log(term))
        if term.over.is_set():
            return
        term.is_read, term.fault = True, ""
        self._take(term, found)
        facts = {"partition": term.partition, "epoch": term.epoch, "owners": len(term.owners)}
        self._logger.info("loaded", **facts)

    async def _replicated(self, term: Term) -> None:
        """What was there when this broker was elected counts: no other can be elected without."""
        wait_s = WATERMARK_S
        while not term.over.is_set():
            log = self._log(term)
            is_ours = log.role == "leader" and log.election == term.epoch
            if is_ours and knows_end(log):
                return
            await until_over(term, wait_s)
            wait_s = min(2 * wait_s, WATERMARK_MAX_S)

    def _log(self, term: Term) -> Log:
        topic = self._topic.topic()
        if topic is None:
            raise TopicUnavailable(f"{self._name} is not known here yet")
        return topic.log(term.partition)


async def until_over(term: Term, wait_s: float) -> None:
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(term.over.wait(), wait_s)

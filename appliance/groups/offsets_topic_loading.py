"""Reads `__consumer_offsets` on a thread beside the loop: at a start, and in a cluster each
partition when this broker is elected for it.

Until it is read, groups are answered COORDINATOR_LOAD_IN_PROGRESS, which clients take as "ask
again". Where a partition cannot be opened, its groups are answered COORDINATOR_NOT_AVAILABLE until
it can be and was read; the groups of the others are served meanwhile.

    led here        a term begins. What was written under another one is on disk or refused by now;
                    once all that the election left is on the replicas, the partition is read
    another's       the term ends at once, also in the middle of a load, whose result is dropped
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress

from appliance._log import Log
from appliance.errors import ApplianceError
from appliance.groups.availability import Availability, OffsetsTopicView, Term
from appliance.groups.offsets_topic_replay import ReplayedGroups, replay
from appliance.process import event_log
from appliance.process.detached_tasks import Tasks
from appliance.protocol import ErrorCode
from appliance.topics.internal_topic import HELD_UP_S
from appliance.topics.known_end import knows_end
from appliance.topics.topic import OFFSETS, Topic, TopicUnavailable

logger = event_log.named("groups")

# Between two looks at how far the replicas are, of a partition that is to be read: a round of
# fetches takes a few milliseconds.
WATERMARK_S = 0.005
WATERMARK_MAX_S = 0.1

AGAIN_MAX_S = 60.0  # a partition that cannot be read is tried again so seldom at last


class Loading:
    def __init__(
        self,
        topics: OffsetsTopicView,
        availability: Availability,
        restore: Callable[[ReplayedGroups], int],
        restored: Callable[[ReplayedGroups, Collection[int]], None],
        unload: Callable[[Term], None],
        settled: Callable[[int], Awaitable[None]],
    ) -> None:
        """`restore` takes what was read, and says how many groups there are then. `restored` is
        called once they are served. `unload` forgets the groups of a partition whose term is over.
        `settled` waits for the writes to it that have begun."""
        self._topics = topics
        self._availability = availability
        self._restore = restore
        self._restored = restored
        self._unload = unload
        self._settled = settled
        self._loads = Tasks()  # of partitions that are led
        self._reading = asyncio.Lock()  # one at a time: each takes turns of the event loop
        self._loading: asyncio.Task[None] | None = None
        self._held_up: asyncio.TimerHandle | None = None
        self._is_stopped = False

    def start(self) -> None:
        """On the event loop."""
        if self._topics.is_in_cluster:
            self._availability.terms = {}
            self._availability.serve()
            return
        topic = self._topics.offsets_topic()
        if topic is None:
            self._availability.serve()
            return
        self._availability.unread = frozenset(range(len(topic.logs)))
        self._availability.refuse(
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "offsets and groups are being read"
        )
        self._begin(topic)

    def stop(self) -> None:
        self._is_stopped = True
        for each in (self._availability.terms or {}).values():
            each.over.set()
        if self._held_up is not None:
            self._held_up.cancel()

    @property
    def is_loading(self) -> bool:
        served = self._availability
        if served.terms is not None:
            return any(not each.fault for n, each in served.terms.items() if n in served.unread)
        return self._loading is not None and not self._loading.done()

    async def loaded(self) -> None:
        """After a load that has begun."""
        if self._loading is not None:
            await self._loading
        await self._loads.settled()

    async def known(self) -> None:
        """When it returns, offsets are; it raises where they cannot be known yet."""
        await self.loaded()
        self._availability.check_loaded()

    def _begin(self, topic: Topic) -> None:
        self._loading = asyncio.get_running_loop().create_task(self._load(topic))

    async def _load(self, topic: Topic) -> None:
        begin = time.monotonic()
        served = self._availability
        logs = {each: log for each in served.unread if (log := topic.logs[each]) is not None}
        try:
            replayed = await asyncio.to_thread(replay, list(logs.values()))
        except Exception as error:
            names = ", ".join(log.name for log in logs.values())
            told = str(error) if isinstance(error, ApplianceError) else repr(error)
            served.fault = f"groups whose offsets are in {names} are not served: {told}"
            if not served.is_loaded:  # not those that were read before
                served.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE, served.fault)
            logger.exception("offsets and groups cannot be read, no group is served")
            if served.is_loaded:
                self._look_later()
            return
        groups = self._restore(replayed)
        served.unread -= logs.keys()
        if not self._is_stopped:
            served.serve()
        self._restored(replayed, logs.keys())
        self._tell(replayed, groups, begin)
        if served.unread:
            self._hold_up()
            logger.error("some groups are not served", why=served.fault)
        else:
            served.fault = ""

    def _tell(self, replayed: ReplayedGroups, groups: int, begin: float, **facts: int) -> None:
        # It stays for good. Walking through a hundred thousand offsets again and again, the garbage
        # collector took twice as long as the commits themselves. Only a process of our own froze
        # at its start: in one that starts many brokers the stopped ones would never be freed.
        if gc.get_freeze_count() > 0:
            gc.freeze()
        took_ms = round((time.monotonic() - begin) * 1000)
        logger.info("groups loaded", groups=groups, ms=took_ms, **facts)
        for each in replayed.faults:
            logger.warning("left out while groups were loaded", what=each)

    def _hold_up(self) -> None:
        """What is there is not known: nobody is answered as if nothing was."""
        if self._is_stopped:
            return
        names = self._availability.unread_names()
        self._availability.fault = (
            f"groups whose offsets are in {names} are not served: it cannot be opened"
        )
        self._look_later()

    def _look_later(self) -> None:
        if not self._is_stopped:
            self._held_up = asyncio.get_running_loop().call_later(HELD_UP_S, self._look_again)

    def _look_again(self) -> None:
        """Whether what could not be opened is open now."""
        unread, topic = self._availability.unread, self._topics.offsets_topic()
        if topic is not None and any(topic.logs[each] is not None for each in unread):
            self._begin(topic)
        elif unread:
            self._hold_up()

    # In a cluster

    def lead(self, partition: int, epoch: int) -> None:
        """On the event loop: this broker was elected. It may be told again."""
        terms = self._availability.terms
        if terms is None:
            terms = self._availability.terms = {}
        if self._is_stopped or (partition in terms and terms[partition].epoch == epoch):
            return
        self.resign(partition)
        term = terms[partition] = Term(partition, epoch)
        self._availability.unread |= {partition}
        self._loads.begin(self._load_led(term))

    def resign(self, partition: int) -> None:
        """On the event loop: another broker is elected, or nobody. It may be told again."""
        served = self._availability
        term = None if served.terms is None else served.terms.pop(partition, None)
        if term is None:
            return
        term.over.set()
        served.unread -= {partition}
        self._unload(term)
        served.tell_faults()
        if term.groups:
            facts = {"partition": partition, "epoch": term.epoch, "groups": len(term.groups)}
            logger.info("groups unloaded", **facts)

    async def _load_led(self, term: Term) -> None:
        wait_s = HELD_UP_S
        while not term.over.is_set():
            try:
                await self._read(term)
                return
            except Exception as error:
                fault = str(error) if isinstance(error, ApplianceError) else repr(error)
                if fault != term.fault and not term.over.is_set():
                    logger.exception("offsets and groups cannot be read", partition=term.partition)
                    term.fault = fault
                    self._availability.tell_faults()
                # whether a log is open now is a look; else it may be a long read again
                wait_s = HELD_UP_S if isinstance(error, TopicUnavailable) else 2 * wait_s
            await _until_over(term, min(wait_s, AGAIN_MAX_S))

    async def _read(self, term: Term) -> None:
        begin, partition = time.monotonic(), term.partition
        await self._settled(partition)
        await self._replicated(term)
        async with self._reading:
            if term.over.is_set():
                return
            replayed = await asyncio.to_thread(replay, [self._log(partition)])
        if term.over.is_set():
            return
        self._restore(replayed)
        self._availability.unread -= {partition}
        term.fault = ""
        self._availability.tell_faults()
        self._restored(replayed, [partition])
        self._tell(replayed, len(term.groups), begin, partition=partition, epoch=term.epoch)

    async def _replicated(self, term: Term) -> None:
        """What was there when this broker was elected counts: no other can be elected without."""
        wait_s = WATERMARK_S
        while not term.over.is_set():
            log = self._log(term.partition)
            is_ours = log.role == "leader" and log.election == term.epoch
            if is_ours and knows_end(log):
                return
            await _until_over(term, wait_s)
            wait_s = min(2 * wait_s, WATERMARK_MAX_S)

    def _log(self, partition: int) -> Log:
        topic = self._topics.offsets_topic()
        if topic is None:
            raise TopicUnavailable(f"{OFFSETS} is not known here yet")
        return topic.log(partition)


async def _until_over(term: Term, wait_s: float) -> None:
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(term.over.wait(), wait_s)

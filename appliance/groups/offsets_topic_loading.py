"""Reads `__consumer_offsets` at a start, on a thread beside the loop.

Until it is read, groups are answered COORDINATOR_LOAD_IN_PROGRESS, which clients take as "ask
again". Where a partition cannot be opened, its groups are answered COORDINATOR_NOT_AVAILABLE until
it can be and was read; the groups of the others are served meanwhile.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable

from appliance.errors import ApplianceError
from appliance.groups.availability import Availability, OffsetsTopicView
from appliance.groups.offsets_topic_replay import ReplayedGroups, replay
from appliance.process import event_log
from appliance.protocol import ErrorCode
from appliance.topics.internal_topic import HELD_UP_S
from appliance.topics.topic import OFFSETS, Topic

logger = event_log.named("groups")


class Loading:
    def __init__(
        self,
        topics: OffsetsTopicView,
        availability: Availability,
        restore: Callable[[ReplayedGroups], int],
        restored: Callable[[ReplayedGroups], None],
    ) -> None:
        """`restore` takes what was read, and says how many groups there are then. `restored` is
        called once they are served."""
        self._topics = topics
        self._availability = availability
        self._restore = restore
        self._restored = restored
        self._loading: asyncio.Task[None] | None = None
        self._held_up: asyncio.TimerHandle | None = None
        self._is_stopped = False

    def start(self) -> None:
        """On the event loop."""
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
        if self._held_up is not None:
            self._held_up.cancel()

    @property
    def is_loading(self) -> bool:
        return self._loading is not None and not self._loading.done()

    async def loaded(self) -> None:
        """After a load that has begun."""
        if self._loading is not None:
            await self._loading

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
            return
        groups = self._restore(replayed)
        served.unread -= logs.keys()
        if not self._is_stopped:
            served.serve()
        self._restored(replayed)
        # It stays for good. Walking through a hundred thousand offsets again and again, the garbage
        # collector took twice as long as the commits themselves. Only a process of our own froze
        # at its start: in one that starts many brokers the stopped ones would never be freed.
        if gc.get_freeze_count() > 0:
            gc.freeze()
        took_ms = round((time.monotonic() - begin) * 1000)
        logger.info("groups loaded", groups=groups, ms=took_ms)
        for each in replayed.faults:
            logger.warning("left out while groups were loaded", what=each)
        if served.unread:
            self._hold_up()
            logger.error("some groups are not served", why=served.fault)
        else:
            served.fault = ""

    def _hold_up(self) -> None:
        """What is there is not known: nobody is answered as if nothing was."""
        if self._is_stopped:
            return
        names = ", ".join(f"{OFFSETS}-{each}" for each in sorted(self._availability.unread))
        self._availability.fault = (
            f"groups whose offsets are in {names} are not served: it cannot be opened"
        )
        self._held_up = asyncio.get_running_loop().call_later(HELD_UP_S, self._look_again)

    def _look_again(self) -> None:
        """Whether what could not be opened is open now."""
        unread, topic = self._availability.unread, self._topics.offsets_topic()
        if topic is not None and any(topic.logs[each] is not None for each in unread):
            self._begin(topic)
        elif unread:
            self._hold_up()

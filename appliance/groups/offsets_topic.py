"""The way into `__consumer_offsets`: records of groups and of their commits.

What follows a write is called in the order in which the log has the writes, so that memory changes
in that order, too. A coroutine that awaits a write is woken after that.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from appliance._log import Log
from appliance.errors import ApplianceError, BatchLargerThanSegment
from appliance.groups.availability import OffsetsTopicView
from appliance.groups.member import Stored
from appliance.groups.states import GroupRefused
from appliance.process.detached_tasks import settle
from appliance.protocol import ErrorCode
from appliance.topics.internal_topic import InternalTopic, Record, Transaction, Write, partition_of


class OffsetsTopicSource(OffsetsTopicView, Protocol):
    async def make_offsets_topic(self) -> Sequence[Log | None]: ...


class OffsetsTopic:
    def __init__(
        self, topics: OffsetsTopicSource, timeout_ms: int, wall_ms: Callable[[], int]
    ) -> None:
        self._topics = topics
        self._wall_ms = wall_ms
        self._topic = InternalTopic(topics.make_offsets_topic, timeout_ms)
        self._under_way: Counter[str] = Counter()  # writes that are not on disk yet, by group

    def write(
        self,
        group_id: str,
        records: list[Record],
        done: Stored,
        transaction: Transaction | None = None,
    ) -> None:
        def told(error: ApplianceError | None, first_offset: int) -> None:
            self._under_way[group_id] -= 1
            if not self._under_way[group_id]:
                del self._under_way[group_id]
            done(error, first_offset)

        self._under_way[group_id] += 1
        self._topic.write(Write(group_id, records, self._wall_ms(), told, transaction))

    def stored(
        self,
        group_id: str,
        records: list[Record],
        done: Stored,
        transaction: Transaction | None = None,
    ) -> asyncio.Future[None]:
        """As `write`, to be awaited."""
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def told(error: ApplianceError | None, first_offset: int) -> None:
            done(error, first_offset)
            settle(stored, error and refusal(error))

        self.write(group_id, records, told, transaction)
        return stored

    async def settled(self, group_id: str = "") -> None:
        """After the writes of the group that have begun, whatever became of them."""
        settled = asyncio.Event()
        self.write(group_id, [], lambda error, first_offset: settled.set())
        await settled.wait()

    def is_writing(self, group_id: str) -> bool:
        return group_id in self._under_way

    @property
    def is_busy(self) -> bool:
        return self._topic.is_busy

    @property
    def is_used(self) -> bool:
        """There is such a topic, or it is being made."""
        return self._topics.offsets_topic() is not None or self.is_busy

    async def partition_of(self, group_id: str) -> int:
        """Where the group's records stand."""
        try:
            return partition_of(group_id, len(await self._topics.make_offsets_topic()))
        except ApplianceError as error:  # it cannot be made now, or is not served
            raise GroupRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error

    async def close(self) -> None:
        await self._topic.close()


def refusal(error: ApplianceError) -> ApplianceError:
    """In words that clients of groups know: what may pass is to be asked for again."""
    if isinstance(error, GroupRefused):
        return error
    if isinstance(error, BatchLargerThanSegment):
        return GroupRefused(ErrorCode.INVALID_COMMIT_OFFSET_SIZE, str(error))
    return GroupRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error))

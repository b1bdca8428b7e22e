"""The way into `__consumer_offsets`: records of groups and of their commits.

What follows a write is called in the order in which the log has the writes, so that memory changes
in that order, too. A coroutine that awaits a write is woken after that.

In a cluster a write is of a term: of one that is over nothing is written any more, and whoever
waits is told at once. What is on disk of it by then is for whoever reads the partition next. Each
partition has a queue of its own there: one whose followers are slow keeps no other waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from appliance._log import Log
from appliance.errors import ApplianceError, BatchLargerThanSegment, LeaderEpochOld, NotLeader
from appliance.groups.availability import Availability, OffsetsTopicView, Term
from appliance.groups.member import Stored
from appliance.groups.states import GroupRefused
from appliance.process.detached_tasks import settle
from appliance.protocol import ErrorCode
from appliance.topics.internal_topic import (
    InternalTopic,
    Record,
    Together,
    Transaction,
    Write,
    call,
    partition_of,
)


class OffsetsTopicSource(OffsetsTopicView, Protocol):
    async def make_offsets_topic(self) -> Sequence[Log | None]: ...


class OffsetsTopic:
    def __init__(
        self,
        topics: OffsetsTopicSource,
        availability: Availability,
        timeout_ms: int,
        wall_ms: Callable[[], int],
    ) -> None:
        self._topics = topics
        self._availability = availability
        self._wall_ms = wall_ms
        self._timeout_ms = timeout_ms
        self.together: Together = call  # the answers of a round
        self._topic = self._queue()
        self._queues: dict[int, InternalTopic] = {}  # in a cluster, by partition

    def _queue(self) -> InternalTopic:
        return InternalTopic(
            self._topics.make_offsets_topic, self._timeout_ms, self._there,
            lambda job: self.together(job),
        )  # fmt: skip

    def _there(self) -> Sequence[Log | None] | None:
        topic = self._topics.offsets_topic()
        return None if topic is None else topic.logs

    def write(
        self,
        group_id: str,
        records: list[Record],
        done: Stored,
        transaction: Transaction | None = None,
        wall_ms: int | None = None,
    ) -> None:
        """`wall_ms`: whoever has looked at the clock already need not again."""
        if wall_ms is None:
            wall_ms = self._wall_ms()
        write = Write(group_id, records, wall_ms, done, transaction)
        if self._availability.terms is None:
            self._topic.write(write)
        else:
            self._write_in(self._availability.term(group_id), write)

    def _write_in(self, term: Term | None, write: Write) -> None:
        told = write.done
        if term is None:
            error = NotLeader(f"group {write.owner} is another broker's")
            asyncio.get_running_loop().call_soon(told, error, -1)
            return

        key = id(write)  # a reference would be a cycle

        def done(error: ApplianceError | None, first_offset: int) -> None:
            if term.writes.pop(key, None) is not None:
                told(error, first_offset)

        term.writes[key] = write
        write.done, write.election = done, term.epoch
        if term.partition not in self._queues:
            self._queues[term.partition] = self._queue()
        self._queues[term.partition].write(write)

    def give_up(self, term: Term) -> None:
        """It is over: whoever waits for the disk is told."""
        error = NotLeader("another broker is the coordinator now")
        for each in list(term.writes.values()):
            each.records = ()  # what is not on its way by now is not to be
            each.done(error, -1)

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

    async def settled(self, group_id: str) -> None:
        """After the writes of the group that have begun, whatever became of them."""
        if self._availability.terms is None:
            await self._settled(self._topic, group_id)
        elif (term := self._availability.term(group_id)) is not None:
            await self.settled_in(term.partition)

    async def settled_in(self, partition: int) -> None:
        """The same of all groups of a partition, in a cluster."""
        if (queue := self._queues.get(partition)) is not None:
            await self._settled(queue)

    async def all_settled(self) -> None:
        for each in self._all():
            await self._settled(each)

    async def _settled(self, queue: InternalTopic, group_id: str = "") -> None:
        settled = asyncio.Event()
        queue.write(Write(group_id, [], self._wall_ms(), lambda *_: settled.set()))
        await settled.wait()

    def _all(self) -> list[InternalTopic]:
        return [self._topic, *self._queues.values()]

    def writing(self) -> set[str]:
        """Groups with something that is on its way to the disk."""
        return set[str]().union(*(each.owners() for each in self._all()))

    @property
    def is_busy(self) -> bool:
        return any(each.is_busy for each in self._all())

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
        for each in self._all():
            await each.close()


def refusal(error: ApplianceError) -> ApplianceError:
    """In words that clients of groups know: what may pass is to be asked for again. So is, as from
    Kafka, what others did not have in time, and what may count yet: it is the same then."""
    if isinstance(error, GroupRefused):
        return error
    if isinstance(error, BatchLargerThanSegment):
        return GroupRefused(ErrorCode.INVALID_COMMIT_OFFSET_SIZE, str(error))
    if isinstance(error, (NotLeader, LeaderEpochOld)):
        return GroupRefused(ErrorCode.NOT_COORDINATOR, str(error))
    return GroupRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error))

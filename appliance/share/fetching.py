"""One share fetch, from the partitions that it may read to the records that it acquires.

    look     become the reader of every partition that has nobody else and something to give;
             read them on a thread; acquire of what was read
    wait     if that gave nothing, or less than was asked for: until a partition has more, or the
             time is up
    answer   with what is acquired by then
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

from appliance.config import ShareGroupsConfig
from appliance.errors import ApplianceError, OffsetOutOfRange
from appliance.share.acquisition import Acquired, Asked
from appliance.share.reading import Job, ReadBatches, read_all
from appliance.share.served_partition import READ_COMMITTED, Entry, limits_of
from appliance.share.session import TopicPartition, Waiter


@dataclass(frozen=True)
class Wanted:
    """What a ShareFetch asks for, beside the partitions."""

    member_id: str
    wait_ms: int
    bytes_min: int
    bytes_max: int
    records_max: int
    batch_size: int
    is_strict: bool

    @property
    def wants_records(self) -> bool:
        return self.records_max > 0 and self.bytes_max > 0


@dataclass
class Given:
    """What a partition has for it."""

    records: bytes = b""
    acquired: Sequence[Acquired] = ()
    error: ApplianceError | None = None


Answer = dict[TopicPartition, Given]


# Why who asks may not read it; None: it may. Asked anew whenever a fetch looks.
Refuses = Callable[[TopicPartition], ApplianceError | None]


def refuses_nothing(place: TopicPartition) -> None:
    return None


@dataclass
class Fetching:
    wanted: Wanted
    entries: Sequence[Entry]
    config: ShareGroupsConfig
    threads: Executor
    clock_ms: Callable[[], int]
    refuses: Refuses
    decide: Callable[[Entry], Awaitable[None]]  # where a group begins
    watch: Callable[[Entry], None]  # wakes who waits when the log moves
    changed: Callable[[Entry], None]  # something was acquired, or archived
    is_over: Callable[[], bool]  # nobody wants it any more
    waiter: Waiter = field(default_factory=Waiter)

    async def run(self) -> Answer:
        deadline_ms = self.clock_ms() + self.wanted.wait_ms
        try:
            while True:
                left_ms = deadline_ms - self.clock_ms()
                self.waiter.woken.clear()
                refused = self._refused()
                if refused:
                    return refused
                answer = await self._look(is_late=left_ms <= 0)
                if answer or left_ms <= 0 or self.is_over():
                    return answer
                await self._wait(deadline_ms)
        finally:
            self._leave()

    def _refused(self) -> Answer:
        """What was allowed when it began, and is no more: then it ends."""
        places = [each.topic_partition for each in self.entries]
        errors = {each: self.refuses(each) for each in places}
        return {each: Given(error=error) for each, error in errors.items() if error is not None}

    async def _wait(self, deadline_ms: int) -> None:
        for each in self.entries:
            self.watch(each)
        left_s = max(0, deadline_ms - self.clock_ms()) / 1000
        try:
            await asyncio.wait_for(self.waiter.woken.wait(), left_s)
        except asyncio.TimeoutError:
            return  # one last look: less than was asked for is better than nothing

    def _leave(self) -> None:
        for each in self.entries:
            each.waiters.pop(self.waiter, None)
            each.wake(self.config)  # it may have been woken for what it does not take

    # Looking

    async def _look(self, is_late: bool) -> Answer:
        for each in self.entries:
            each.waiters.setdefault(self.waiter, None)
        own = [each for each in self.entries if each.reader is None and each.has_more(self.config)]
        for each in own:
            each.reader = self.waiter
        answer: Answer = {}
        try:
            ready = await self._decided(own, answer)
            seen = {each: each.seen(self.config) for each in ready}
            jobs = self._jobs(ready)
            if jobs:
                loop = asyncio.get_running_loop()
                batches = await loop.run_in_executor(self.threads, read_all, jobs)
                self._acquire(list(zip(ready, jobs, batches, strict=True)), answer, is_late)
            for each in ready:
                each.waiters[self.waiter] = seen[each]
        finally:
            for each in own:
                each.reader = None
                if answer:
                    each.waiters.pop(self.waiter, None)
                each.wake(self.config)
        return answer

    async def _decided(self, entries: Sequence[Entry], answer: Answer) -> list[Entry]:
        # all at a time: one commit is for all of them
        undecided = [each for each in entries if each.is_undecided]
        for begun in await asyncio.gather(*map(self._begin, undecided)):
            answer.update(begun)
        ready = []
        for each in entries:
            if each.topic_partition in answer:
                continue
            try:
                each.check_there()
                ready.append(each)
            except ApplianceError as error:
                answer[each.topic_partition] = Given(error=error)
        return ready

    async def _begin(self, entry: Entry) -> Answer:
        """Empty, or why it is not known where."""
        try:
            await self.decide(entry)
        except ApplianceError as error:
            return {entry.topic_partition: Given(error=error)}
        return {}

    def _jobs(self, entries: Sequence[Entry]) -> list[Job]:
        if not entries:
            return []
        is_committed = self.config.isolation_level == READ_COMMITTED
        most = max(1, self.wanted.bytes_max // len(entries))
        return [
            Job(
                each.log,
                each.stored.partition.next_fetch_offset(),
                most,
                self.wanted.records_max,
                is_committed,
            )
            for each in entries
        ]

    def _acquire(
        self,
        read: Sequence[tuple[Entry, Job, ReadBatches | ApplianceError]],
        answer: Answer,
        is_late: bool,
    ) -> None:
        if self.is_over():
            return
        size = sum(len(batches.data) for _, _, batches in read if isinstance(batches, ReadBatches))
        must_go_on = any(isinstance(each, ApplianceError) or each.is_hole for *_, each in read)
        if size < self.wanted.bytes_min and not is_late and not must_go_on:
            return
        left = self.wanted.records_max
        for entry, job, batches in read:
            if isinstance(batches, ApplianceError):
                self._cannot_read(entry, job, batches, answer)
            elif left > 0 and not entry.is_gone:
                left -= self._acquire_of(entry, job, batches, left, answer)

    def _acquire_of(
        self, entry: Entry, job: Job, batches: ReadBatches, left: int, answer: Answer
    ) -> int:
        wanted = self.wanted
        asked = Asked(wanted.member_id, left, wanted.batch_size, wanted.is_strict)
        own = entry.stored.partition
        acquired = own.acquire(
            asked, job.offset, batches.extents, limits_of(self.config), self.clock_ms()
        )
        if acquired:
            answer[entry.topic_partition] = Given(batches.slice(acquired), acquired)
        elif own.next_fetch_offset() != job.offset:
            entry.version += 1  # nothing of it was for anybody, but there may be more
        self.changed(entry)
        return sum(each.last - each.first + 1 for each in acquired)

    def _cannot_read(
        self, entry: Entry, job: Job, error: ApplianceError, answer: Answer
    ) -> None:
        """A log that begins later, or ends sooner, than the group was: it goes on where it can."""
        own, log = entry.stored.partition, entry.log
        if isinstance(error, OffsetOutOfRange) and (
            own.move_start(log.log_start_offset) or entry.restart_at(log.log_end_offset)
        ):
            entry.version += 1
            self.changed(entry)
            return
        answer[entry.topic_partition] = Given(error=error)

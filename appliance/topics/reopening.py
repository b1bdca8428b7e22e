"""Partitions that are there but not open, while the broker runs.

    could not be opened     the start, or an attempt here, met an error: no space, no descriptor, a
                            permission. Tried again by a timer, as whatever it was may be gone
    no topic's              it could not be set aside. Nothing deletes from it; tried again
    failed                  a sync or a write of an open log failed. Never tried again by itself (a
                            second sync would succeed over a hole), but on an operator's word
    failed for want of room opened again by a timer when there is some: nothing speaks against the
                            disk. What was not durable does not return (log-format.md, invariant 7)

    a directory of log.dirs  could not be opened. Tried again; its partitions are not, one by one
    not made                a directory that is missing could not be made anew. Tried again
    not deleted             what is left of a deleted topic: files, and what others keep of it by
                            its name. Tried again, and for the first time as soon as it can be

A log is opened as at a start after a crash: what is not known to be good is read from the disk, not
from the page cache. The owner of what is in an internal topic loads it then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from appliance._log import Log
from appliance.config import LogConfig, topic_config
from appliance.data_dir.partition_names import Key, directory_name
from appliance.data_dir.record_dir import RecordDir
from appliance.errors import ApplianceError
from appliance.process import event_log
from appliance.process.detached_tasks import Changes
from appliance.topics.directory_reopening import DirectoryReopening, Transactions
from appliance.topics.reconciliation import identify
from appliance.topics.topics import Topics

events = event_log.named("reopening")

# Between two attempts: soon after the start, for what passes by itself; later seldom, as an attempt
# may read a whole segment.
RETRY_MIN_MS = 1_000
RETRY_MAX_MS = 60_000

Job = Key | str | RecordDir


@dataclass
class Attempts:
    """At one partition, or at one deletion."""

    due_ms: int
    delay_ms: int = RETRY_MIN_MS
    why: str = ""  # the last failed; told once


class Reopening:
    def __init__(
        self,
        topics: Topics,
        transactions: Transactions,
        change: Changes,
        clock_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        self._topics = topics
        self._log_dir = topics.log_dir
        self._transactions = transactions
        self._change = change
        self._clock_ms = clock_ms
        self.directories = DirectoryReopening(topics, transactions, change)
        self.may_reopen: Callable[[Key, Log], bool] = lambda key, log: True  # one that failed
        self._attempts: dict[Job, Attempts] = {}

    async def run(self, stops_within: Callable[[int], Awaitable[bool]]) -> None:
        """Tries again until the broker stops, one at a time: an attempt may read for long, and a
        stop or a change of any topic waits for no more than one."""
        while not await stops_within(self._wait_ms()):
            now_ms = self._clock_ms()
            for job in [each for each in self._jobs() if self._attempts_at(each).due_ms <= now_ms]:
                if await stops_within(0):
                    return
                await self._attempt(job)

    def _wait_ms(self) -> int:
        jobs, now_ms = self._jobs(), self._clock_ms()
        self._attempts = {
            job: each for job, each in self._attempts.items() if job in jobs or each.due_ms > now_ms
        }
        first_ms = min((self._attempts_at(each).due_ms for each in jobs), default=None)
        return RETRY_MIN_MS if first_ms is None else max(0, first_ms - now_ms)

    def _attempts_at(self, job: Job) -> Attempts:
        wait_ms = 0 if isinstance(job, str) else RETRY_MIN_MS  # for whom the name is not free
        return self._attempts.setdefault(job, Attempts(self._clock_ms() + wait_ms))

    @property
    def is_wanted(self) -> bool:
        return bool(self._jobs())

    def _jobs(self) -> list[Job]:
        """Directories; partitions to open, to make or to set aside; what is left of deleted topics.
        """
        undeleted = self._topics.undeleted
        closed = {each for each in self._log_dir.unopened if each[0] not in undeleted}
        unserved = {each for each in self._topics.unserved() if not self._log_dir.away(*each)}
        keys = {*closed, *unserved, *self._without_room(), *self._log_dir.unowned}
        return [*self._log_dir.offline(), *sorted(keys), *sorted(undeleted)]

    def _without_room(self) -> set[Key]:
        """Those that failed for want of it, where there is some by now."""
        found = {
            key: log
            for key, log in self._log_dir.logs().items()
            if log.waits_for_room and not log.is_closed and key[0] in self._topics
        }
        return {
            key
            for key, log in found.items()
            if self.may_reopen(key, log) and not self._log_dir.is_full_for([key])
        }

    async def retry(self) -> int:
        """All of it at once; of all that is not open, how much is now."""
        return sum([await self._attempt(each) for each in self._jobs()])

    async def reopen(self, topic: str, partition: int) -> None:
        """One partition, on an operator's word, also one that failed. Raises what it meets."""
        await self._change(self._open((topic, partition)))

    async def _attempt(self, job: Job) -> bool:
        tried, had_failed = self._attempts_at(job), job in self._without_room()
        try:
            is_done = await self._try(job)
        except ApplianceError as error:
            if str(error) != tried.why:
                events.warning("still not opened", log=shown(job), error=error)
            tried.why, is_done = str(error), False
            self._tell(job, error)
        if is_done and not had_failed:  # which may fail again, and again
            self._attempts.pop(job, None)
        else:
            tried.delay_ms = min(2 * tried.delay_ms, RETRY_MAX_MS)
            tried.due_ms = self._clock_ms() + tried.delay_ms
        return is_done

    def _tell(self, job: Job, error: ApplianceError) -> None:
        if isinstance(job, RecordDir):
            return  # it is told of by the directory
        if isinstance(job, str):
            if job in self._topics.undeleted:
                self._topics.undeleted[job] = str(error)
            return
        topic = self._topics.get(job[0])
        if topic is not None and job[1] in topic.unserved:
            topic.unserved[job[1]] = str(error)

    async def _try(self, job: Job) -> bool:
        """False: it was deleted, or opened, before its turn came."""
        if isinstance(job, str):
            if job not in self._topics.undeleted:
                return False
            await self._topics.undeleted.finish(job)
            return True
        return await self._change(self._try_to_open(job))

    async def _try_to_open(self, job: Key | RecordDir) -> bool:
        topics, log_dir = self._topics, self._log_dir
        if isinstance(job, RecordDir):
            if not job.is_open:
                await self.directories.open(job)
            return True
        if job in log_dir.unowned:
            place = await asyncio.to_thread(log_dir.set_aside, *job)
            events.warning("no topic's partition was set aside", log=shown(job), path=place)
            return True
        topic = topics.get(job[0])
        waiting = {*log_dir.unopened, *self._without_room()}
        if topic is None or (job not in waiting and job[1] not in topic.unserved):
            return False
        await self._open(job)
        return True

    async def _open(self, key: Key) -> None:
        """The log, in the place of the one that failed. Until then the old one stays there: closed,
        so that clients are told to come again."""
        name, partition = key
        log_dir = self._log_dir
        config = await asyncio.to_thread(self._config_of, name)
        make = log_dir.reopen if log_dir.holds(name, partition) else log_dir.create
        log = await asyncio.to_thread(make, name, partition, config)
        topic = self._topics.get(name)
        if topic is not None and partition < len(topic.logs):
            await asyncio.to_thread(identify, log_dir, topic, partition)
            if self._has_less(key, topic.logs[partition], log):
                self.directories.begin_another_life([key])
            self._transactions.opened_anew(name, partition)
            topic.put_log(partition, log)
            self._topics.show(topic)
            await self._transactions.read_again(log)
        events.info("opened again", log=log.name, log_end=log.log_end_offset)

    def _has_less(self, key: Key, former: Log | None, log: Log) -> bool:
        """Than before: an end that is lower, or a hole that is new."""
        had = 0 if former is None else self.directories.had(key, former)
        known = set() if former is None else {*former.holes()}
        is_shorter = self.directories.has_less(key, log) or log.durable_offset < had
        return is_shorter or not known.issuperset(log.holes())

    def _config_of(self, name: str) -> LogConfig:
        base = self._topics.base
        own = next((row.configs for row in self._topics.rows.all() if row.name == name), {})
        return topic_config.readable(own, base)[0].log


def shown(job: Job) -> str:
    if isinstance(job, RecordDir):
        return str(job.path)
    return job if isinstance(job, str) else directory_name(*job)

"""Directories of `log.dirs` that are not open, or failed, while the broker runs.

    could not be opened    tried again by a timer (`reopening.py`): it may be mounted by then
    failed                 opened again on a person's word alone, as a log: a second sync would
                           succeed over a hole

On that word nobody is served from it, its readers are waited for, and it is closed. From then on
its disk can be taken out; if it cannot be opened at once the timer tries again. It is recovered as
at a start after a crash, and what is in it is compared with the catalog as at a start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from appliance._log import Log
from appliance.data_dir.log_dirs import LogDirs
from appliance.data_dir.partition_names import Key
from appliance.data_dir.record_dir import RecordDir
from appliance.errors import ApplianceError
from appliance.process import event_log
from appliance.process.detached_tasks import Changes
from appliance.topics.reconciliation import Reconciliation
from appliance.topics.topic import Topic
from appliance.topics.topics import Topics

events = event_log.named("reopening")


class Transactions(Protocol):
    def opened_anew(self, topic: str, partition: int) -> None:
        """Its log is to be read again before a transaction writes there."""
        ...

    async def read_again(self, log: Log) -> None:
        """What a log has open that was opened anew."""
        ...


class DirectoryReopening:
    def __init__(self, topics: Topics, transactions: Transactions, change: Changes) -> None:
        self._topics = topics
        self._log_dir: LogDirs = topics.log_dir
        self._transactions = transactions
        self._change = change
        # In a cluster, before anything is served: what came back with less than it had is not led
        # on in the same election, for the others may have more of that.
        self.begin_another_life: Callable[[Collection[Key]], None] = lambda lost: None
        # One that failed, where such a life has begun since: it promises no more than is durable.
        self.is_over: Callable[[Key, Log], bool] = lambda key, log: False
        self._ends: dict[Key, int] = {}  # of logs that were let go of: others may have as much

    async def reopen(self, path: str) -> int:
        """One directory, on a person's word; how many partitions it has now. Raises what it
        meets."""
        directory = self._log_dir.named(path)
        return await self._change(self._reopen(directory))

    async def give_up(self, path: str) -> int:
        """One that is offline, with all that was in it, on a person's word; how many partitions are
        begun anew."""
        directory = self._log_dir.named(path)
        return await self._change(self._give_up(directory))

    async def _give_up(self, directory: RecordDir) -> int:
        keys = await asyncio.to_thread(self._log_dir.give_up, directory)
        why = f"its directory {directory.path} was given up, and it is not begun anew yet"
        for topic, numbers in self._by_topic(keys):
            topic.unserved.update(dict.fromkeys(numbers, why))
        for key in keys:
            self._ends.pop(key, None)
        self.begin_another_life(keys)
        return len(keys)

    async def _reopen(self, directory: RecordDir) -> int:
        await self._let_go(directory)
        return await self.open(directory)

    async def _let_go(self, directory: RecordDir) -> None:
        if directory.logs is None:
            return
        keys, logs = directory.logs.held(), directory.logs.logs()
        over = {key for key, log in logs.items() if self.is_over(key, log)}  # then it is forgotten
        self._withdraw(keys, f"its directory {directory.path} is being opened again")
        try:
            await asyncio.to_thread(self._log_dir.let_go, directory)
        except ApplianceError:
            self._serve(directory.logs.logs())  # as before, but for those that are closed by now
            raise
        finally:  # not before it is closed: an append that was under way counts
            still = {} if directory.logs is None else directory.logs.logs()
            for key in logs.keys() - still.keys():
                log = logs[key]
                self._ends[key] = log.durable_offset if key in over else log.log_end_offset

    def _withdraw(self, keys: list[Key], why: str) -> None:
        """Nobody is served from them, and nobody takes them for deleted."""
        for topic, numbers in self._by_topic(keys):
            logs = list(topic.logs)
            for each in numbers:
                logs[each] = None
                topic.unserved[each] = why
            topic.logs = logs
            self._topics.show(topic)

    def _by_topic(self, keys: list[Key]) -> list[tuple[Topic, list[int]]]:
        found: dict[str, list[int]] = {}
        for name, number in keys:
            found.setdefault(name, []).append(number)
        return [
            (topic, [each for each in numbers if each < len(topic.logs)])
            for name, numbers in found.items()
            if (topic := self._topics.get(name)) is not None
        ]

    async def open(self, directory: RecordDir) -> int:
        """One that is not open; how many partitions it has."""
        start = await asyncio.to_thread(Reconciliation, self._topics, self._topics.limits)
        try:
            await asyncio.to_thread(self._log_dir.open_again, directory, start.log_config)
        except ApplianceError:
            self._tell(directory)
            raise
        logs, faults = await asyncio.to_thread(self._take_in, start, directory)
        self.begin_another_life(self._lost(directory, logs))
        self._serve(logs)
        for topic, numbers in self._by_topic(list(faults)):
            for each in numbers:
                if topic.logs[each] is None:
                    topic.unserved[each] = faults[topic.name, each]
        for log in logs.values():
            await self._transactions.read_again(log)
        events.info("a directory is open again", path=directory.path, partitions=len(logs))
        return len(logs)

    def _tell(self, directory: RecordDir) -> None:
        """Why its partitions are away, as it is now."""
        for topic in self._topics.values():
            for number in topic.unserved:
                if why := self._log_dir.away(topic.name, number):
                    topic.unserved[number] = why

    def _take_in(
        self, start: Reconciliation, directory: RecordDir
    ) -> tuple[dict[Key, Log], dict[Key, str]]:
        """What is in it and what should be, as at a start. Blocks."""
        start.set_strays_aside()
        start.set_orphans_aside()
        logs: dict[Key, Log] = {}
        faults = self._log_dir.unopened
        for topic in [*self._topics.values()]:
            for number, log in enumerate(topic.logs):
                if log is None and self._log_dir.place_of(topic.name, number) is directory:
                    key = (topic.name, number)
                    if key in faults:
                        continue
                    try:
                        logs[key] = start.complete(topic, number)
                    except ApplianceError as error:
                        faults[key] = str(error)
        self._log_dir.adopt(logs)
        return logs, faults

    def _lost(self, directory: RecordDir, logs: Mapping[Key, Log]) -> set[Key]:
        """What has less than it had: by its journal, or, if that is gone, too, by what this process
        remembers; and what cannot be opened yet, so that others lead it."""
        lost = {(each.topic, each.partition) for each in directory.opened().report.losses}
        lost |= {key for key, log in logs.items() if self.has_less(key, log)}
        lost |= {key for key in self._log_dir.unopened
                 if self._log_dir.place_of(*key) is directory}  # fmt: skip
        return lost

    def has_less(self, key: Key, log: Log) -> bool:
        """Than when it was let go of."""
        return log.durable_offset < self._ends.pop(key, 0)

    def had(self, key: Key, former: Log) -> int:
        """The end of what others may have of it."""
        return former.durable_offset if self.is_over(key, former) else former.log_end_offset

    def _serve(self, logs: Mapping[Key, Log]) -> None:
        for topic, numbers in self._by_topic(list(logs)):
            for each in numbers:
                self._transactions.opened_anew(topic.name, each)
                topic.put_log(each, logs[topic.name, each])
            self._topics.show(topic)


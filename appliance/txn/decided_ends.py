"""Carries out the end of a transaction once it is decided, step by step.

    1  its Prepare record is durable    decided: from here on it ends this way, whatever happens
    2  the markers are durable          readers see it, and the client is answered
    3  its Complete record is durable   only now may the id begin its next transaction

A step that fails leaves the id in its Prepare state, and 2 and 3 are tried again: by the timer, and
by the next start. A partition that cannot be opened keeps none of the others from its marker.

In a cluster the markers go to the leaders of the partitions (`markers_at_leaders.py`), and are
tried again soon, while elections pass. When this broker is not the coordinator any more its
successor goes on from the log.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from appliance._log import Log
from appliance.errors import ApplianceError, ProducerEpochOld, raise_first
from appliance.process import event_log
from appliance.process.detached_tasks import LoggedTasks
from appliance.topics.topic import TopicUnavailable
from appliance.txn.markers import Marker, Markers
from appliance.txn.markers_at_leaders import Leaders, write_at_leaders
from appliance.txn.states import PREPARED
from appliance.txn.transaction import Partition, Transaction
from appliance.txn.transaction_table import TransactionTable

logger = event_log.named("transactions")

# In a cluster: after which a client is answered whose end is decided, but has a marker left.
MARKED_S = 2.0
AGAIN_S, AGAIN_MAX_S = 0.05, 1.0


class EndsUnderWay(ApplianceError):
    """Again later."""

    kafka_code = 7


class Logs(Protocol):
    def find_log(self, topic: str, partition: int) -> Log | None:
        """None: there is no such partition, or no longer. Raises TopicUnavailable while it is not
        served, or not read."""
        ...


@dataclass(eq=False)
class DecidedEnds:
    _table: TransactionTable
    _logs: Logs
    _markers: Markers
    _wall_ms: Callable[[], int]
    _tasks: LoggedTasks
    _deciding: set[asyncio.Future[None]] = field(default_factory=set)
    _ending: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _hold: asyncio.Event | None = None  # is set when ends may go on
    # of ends that are held up
    _marked: dict[str, frozenset[Partition]] = field(default_factory=dict)
    _failures: dict[str, int] = field(default_factory=dict)
    leaders: Leaders | None = None  # in a cluster

    async def abort(self, transaction: Transaction) -> None:
        """Whoever wrote it is fenced."""
        await self.end(transaction.fenced(self._wall_ms()))

    async def end(self, prepared: Transaction) -> None:
        """Returns when readers see it, or when that is held up: it is decided all the same."""
        await self._may_go_on()
        deciding: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._deciding.add(deciding)
        try:
            await self._table.store(prepared)
        finally:
            self._deciding.discard(deciding)
            deciding.set_result(None)
        marked = self.complete(prepared)
        if self._table.is_in_cluster:
            await asyncio.wait({marked}, timeout=MARKED_S)
        else:
            await marked

    @asynccontextmanager
    async def held(self, timeout_s: float) -> AsyncIterator[None]:
        """At its begin no end is between its decision and its last record, and until it is over
        none is decided. One that is held up stays so: its Prepare record says how it will end."""
        await self._may_go_on()
        hold = self._hold = asyncio.Event()
        try:
            await self._none_under_way(timeout_s)
            yield
        finally:
            self._hold = None
            hold.set()

    async def _may_go_on(self) -> None:
        while self._hold is not None:
            await self._hold.wait()

    async def _none_under_way(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while waits := [*self._deciding, *self._ending.values()]:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise EndsUnderWay(
                    f"{len(waits)} transactions have been ending for {timeout_s:g} s: a partition "
                    "that cannot be written holds them up, see health"
                )
            await asyncio.wait(waits, timeout=left_s)

    def complete(self, prepared: Transaction) -> asyncio.Future[None]:
        """What comes behind the Prepare record. The answer is done with the markers."""
        marked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ending[prepared.id] = self._tasks.run(self._complete(prepared, marked))
        return marked

    def complete_again(self, prepared: Transaction) -> None:
        """What was held up."""
        if prepared.id not in self._ending and self._hold is None:
            self.complete(prepared)

    async def settled(self, name: str) -> None:
        """After the last end is complete, or held up."""
        if name in self._ending:
            timeout_s = MARKED_S if self._table.is_in_cluster else None
            await asyncio.wait([self._ending[name]], timeout=timeout_s)

    def forget(self, name: str) -> None:
        """Another broker goes on with it."""
        self._marked.pop(name, None)
        self._failures.pop(name, None)

    async def _complete(self, prepared: Transaction, marked: asyncio.Future[None]) -> None:
        try:
            if self._table.is_in_cluster:
                await self._write_at_leaders(prepared)
            else:
                await self._write_markers(prepared)
                self._markers.end_offsets(prepared.producer.id, prepared.is_commit)
            marked.set_result(None)
            await self._table.store(prepared.completed(self._wall_ms()))
            self._failures.pop(prepared.id, None)
        except ApplianceError as error:
            self._held_up(prepared, error)
        finally:
            # in a cluster it may be the coordinator again since, and be ending what it read
            if self._ending.get(prepared.id) is asyncio.current_task():
                del self._ending[prepared.id]
            if not marked.done():
                marked.set_result(None)

    def _ends(self, prepared: Transaction) -> bool:
        """Whether this task still does. A broker that stopped to lead may begin again in the same
        election, read what there is, and end it by another task: what this one finds out then is of
        a transaction that may be over."""
        is_this = self._ending.get(prepared.id) is asyncio.current_task()
        return is_this and self._table.is_of_term(prepared)

    def _held_up(self, prepared: Transaction, error: ApplianceError) -> None:
        facts = {"transactional_id": prepared.id, "state": prepared.state.value}
        if not self._ends(prepared):
            logger.info("another one goes on with it", **facts)
            return
        logger.warning("a transaction cannot be ended yet", **facts, error=error)
        if self._table.is_in_cluster:
            failures = self._failures[prepared.id] = self._failures.get(prepared.id, -1) + 1
            wait_s = min(AGAIN_S * 2 ** min(failures, 10), AGAIN_MAX_S)
            asyncio.get_running_loop().call_later(wait_s, self._again, prepared)

    def _again(self, prepared: Transaction) -> None:
        now = self._table.transactions.get(prepared.id)
        if now is not None and now.state in PREPARED and self._table.is_of_term(now):
            self.complete_again(now)

    async def _write_at_leaders(self, prepared: Transaction) -> None:
        """All of them, or it raises."""
        assert self.leaders is not None
        marked = self._marked.pop(prepared.id, frozenset())
        marker = Marker(prepared.producer, prepared.is_commit, prepared.term_epoch)
        left = prepared.partitions - marked
        more, failure = await write_at_leaders(self.leaders, marker, left)
        if not self._ends(prepared):
            raise EndsUnderWay(f"{prepared.id} is another's to end")
        if failure is not None:
            self._marked[prepared.id] = marked | more
            raise failure

    async def _write_markers(self, prepared: Transaction) -> None:
        """All of them, or it raises. One that is not served keeps none of the others from its
        marker, and those have theirs once, however long it takes."""
        logs: list[Log] = []
        away: list[ApplianceError] = []
        marked = self._marked.pop(prepared.id, frozenset())
        for partition in prepared.partitions - marked:
            try:
                log = self._logs.find_log(*partition)
            except TopicUnavailable as error:
                away.append(error)
                continue
            marked |= {partition}
            if log is not None:  # a topic that was deleted needs none
                logs.append(log)
        epoch = self._table.coordinator_epoch(prepared.id)
        marker = Marker(prepared.producer, prepared.is_commit, epoch)
        failed = await self._markers.write(logs, marker)
        # where a later epoch wrote, somebody else has ended this transaction
        raise_first(each for each in failed if not isinstance(each, ProducerEpochOld))
        if away:
            self._marked[prepared.id] = marked
        raise_first(away)

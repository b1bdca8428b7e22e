"""The share coordinator of a cluster: the state of each share partition, in partitions of
`__share_group_state` that this broker leads.

Who leads a share partition reads its state here and writes what changes. Each of its requests says
in which election it leads, and a later one fences it (FENCED_LEADER_EPOCH); that a group set where
it begins, or began anew, fences what was read before (FENCED_STATE_EPOCH).

A leader that got no answer does not know what became of its write, and writes again what it knows.
So a change is applied to a copy, which counts once it is on disk; what is below the start is done,
whatever is said of it later; and that a log was cut is said apart.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID
from weakref import WeakValueDictionary

from appliance._log import Log
from appliance.config import ShareStateConfig
from appliance.errors import ApplianceError, LeaderEpochOld, NotLeader, RequestInvalid
from appliance.process import event_log
from appliance.process.detached_tasks import settle
from appliance.protocol import ErrorCode
from appliance.share.partition import SharePartition
from appliance.share.runs import StateBatch
from appliance.share.served_partition import UNDECIDED
from appliance.share.state_checks import (
    check_begin,
    check_key,
    check_leader,
    check_start,
    check_state,
)
from appliance.share.state_log import (
    ReplayedShares,
    SharePartitionKey,
    Stored,
    replay,
    snapshot,
    tombstone,
    update,
)
from appliance.share.state_store import StatePlaces
from appliance.share.states import ShareRefused
from appliance.topics.internal_topic import Record
from appliance.topics.led_partitions import LedPartitions, Term
from appliance.topics.topic import SHARE_STATE

logger = event_log.named("share_state")


class State(NamedTuple):
    """As the leader of a share partition reads and writes it."""

    state_epoch: int
    start_offset: int
    batches: Sequence[StateBatch]
    is_anew: bool = False  # the log was cut: nothing that was known before counts


class Summary(NamedTuple):
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int


class LedStates:
    """The topic, for `LedPartitions`."""

    def __init__(self, places: StatePlaces) -> None:
        self.topic = places.share_state_topic
        self.make = places.make_share_state_topic


class StateCoordinator:
    def __init__(
        self, config: ShareStateConfig, places: StatePlaces, wall_ms: Callable[[], int]
    ) -> None:
        self._config = config
        self._wall_ms = wall_ms
        self._stored: dict[SharePartitionKey, Stored] = {}
        self._turns: WeakValueDictionary[SharePartitionKey, asyncio.Lock] = WeakValueDictionary()
        self._writing: dict[int, list[int]] = {}  # ends of logs when writes began, by partition
        self._places = places
        self.led: LedPartitions[ReplayedShares] = LedPartitions(
            SHARE_STATE, LedStates(places), config.write_timeout_ms, lambda log: replay([log]),
            self._take, self._drop, logger,
        )  # fmt: skip

    def on_led(self, partition: int, epoch: int) -> None:
        self.led.on_led(partition, epoch)

    def on_resigned(self, partition: int) -> None:
        self.led.on_resigned(partition)

    def _take(self, term: Term, replayed: ReplayedShares) -> None:
        for fault in replayed.faults:
            logger.warning("left out while the state of share groups was loaded", what=fault)
        for key, own in replayed.stored.items():
            term.owners.add(key.owner)
            self._stored[key] = own

    def _drop(self, term: Term) -> None:
        for key in [each for each in self._stored if each.owner in term.owners]:
            del self._stored[key]

    # Asked by leaders of share partitions, and by groups

    async def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int
    ) -> None:
        """One that is there stays as it is, unless it is to begin elsewhere."""
        check_begin(key, state_epoch, start_offset)
        async with self._turn(key) as term:
            before = self._stored.get(key)
            if before is not None:
                check_state(key, state_epoch, before)
                if start_offset == UNDECIDED:
                    return
            new = Stored(
                SharePartition(start_offset),
                state_epoch=state_epoch,
                leader_epoch=before.leader_epoch if before else 0,
                snapshot_epoch=before.snapshot_epoch if before else 0,
                snapshot_offset=before.snapshot_offset if before else -1,
            )
            await self._snapshot(term, key, new)

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> State:
        """From now on this leader writes, and none before it."""
        async with self._turn(key) as term:
            own = self._find(key)
            check_leader(key, leader_epoch, own)
            if leader_epoch > own.leader_epoch:
                own = replace(own, leader_epoch=leader_epoch)
                await self._update(term, key, own, [])
            return State(
                own.state_epoch, own.partition.start_offset, own.partition.take_whole()
            )

    async def write(self, key: SharePartitionKey, leader_epoch: int, change: State) -> None:
        check_start(key, change.start_offset)
        async with self._turn(key) as term:
            own = self._find(key)
            check_leader(key, leader_epoch, own)
            check_state(key, change.state_epoch, own)
            if change.batches and own.partition.start_offset == change.start_offset == UNDECIDED:
                raise RequestInvalid(f"{key.owner}: got states, and nothing says where it begins")
            new = replace(own, leader_epoch=leader_epoch)
            if _begins_anew(own.partition, change):
                new.partition, new.must_snapshot = SharePartition(change.start_offset), True
            else:
                new.partition = own.partition.copy()
            new.partition.restore(change.start_offset, change.batches)
            await self._update(term, key, new, change.batches)

    def summary(self, key: SharePartitionKey) -> Summary:
        self._check(key)
        own = self._find(key)
        count = own.partition.delivery_complete_count
        return Summary(own.state_epoch, own.leader_epoch, own.partition.start_offset, count)

    async def delete(self, key: SharePartitionKey) -> None:
        async with self._turn(key) as term:
            if key in self._stored:
                await self._write(term, key, tombstone(key), None, lambda _: None)

    async def forget_topics(self, topic_ids: Collection[UUID]) -> None:
        """They are deleted. What cannot be written now stays until it can be."""
        for key in [each for each in self._stored if each.topic_id in topic_ids]:
            try:
                await self.delete(key)
            except ApplianceError as error:
                logger.warning("the state of a deleted topic stays", key=key.owner, error=error)

    # Who has the say

    @asynccontextmanager
    async def _turn(self, key: SharePartitionKey) -> AsyncIterator[Term]:
        self._check(key)
        async with self._turns.setdefault(key, asyncio.Lock()):
            yield self._check(key)

    def _check(self, key: SharePartitionKey) -> Term:
        check_key(key)
        term = self.led.term_of(key.owner)
        if term is None:
            raise _not_here(key)
        if term.fault:
            raise ShareRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{key.owner}: {term.fault}")
        if not term.is_read:
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            raise ShareRefused(code, f"{key.owner}: the state of share groups is being read")
        return term

    def _find(self, key: SharePartitionKey) -> Stored:
        own = self._stored.get(key)
        if own is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise ShareRefused(code, f"{key.owner} is no share partition")
        return own

    # Written

    async def _update(
        self, term: Term, key: SharePartitionKey, own: Stored, batches: Sequence[StateBatch]
    ) -> None:
        if own.must_snapshot or own.updates >= self._config.updates_per_snapshot:
            await self._snapshot(term, key, own)
            return

        def written(_: int) -> None:
            own.updates += 1

        await self._write(term, key, update(key, own, batches), own, written)

    async def _snapshot(self, term: Term, key: SharePartitionKey, own: Stored) -> None:
        now_ms = self._wall_ms()
        own.snapshot_epoch += 1 if own.snapshot_offset >= 0 else 0

        def written(offset: int) -> None:
            own.snapshot_offset, own.snapshot_ms, own.updates = offset, now_ms, 0
            own.must_snapshot = False

        record = snapshot(key, own, own.partition.take_whole(), now_ms)
        await self._write(term, key, record, own, written)

    async def _write(
        self,
        term: Term,
        key: SharePartitionKey,
        record: Record,
        own: Stored | None,
        written: Callable[[int], None],
    ) -> None:
        """`own` counts once the record is on disk, and before `prune` may delete it."""
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        floors = self._writing.setdefault(term.partition, [])
        floors.append(floor := self._log(term).log_end_offset)

        def done(error: ApplianceError | None, offset: int) -> None:
            if error is None:
                written(offset)
                self._put(term, key, own)
            elif (before := self._stored.get(key)) is not None:
                before.must_snapshot = True  # it may be on disk yet: the next record says all
            floors.remove(floor)
            settle(stored, error and _refusal(key, error))

        self.led.write(term, key.owner, [record], self._wall_ms(), done)
        await stored
        if term.over.is_set():
            raise _not_here(key)

    def _put(self, term: Term, key: SharePartitionKey, own: Stored | None) -> None:
        if term.over.is_set():
            return  # another broker reads it
        if own is None:
            self._stored.pop(key, None)
            term.owners.discard(key.owner)
        else:
            self._stored[key] = own
            term.owners.add(key.owner)

    # What nothing depends on

    async def prune(self) -> None:
        """Writes anew what seldom changes, and deletes what stands before every last snapshot."""
        for term in [each for each in self.led.terms.values() if each.is_read]:
            log = self._log(term)
            own = self._of(term)
            needed = sum(1 + each.updates for _, each in own)
            if log.log_end_offset - log.log_start_offset > 2 * needed:
                for key, each in own:
                    if self._is_cold(each):
                        async with self._turn(key) as now:
                            if self._stored.get(key) is each:
                                await self._snapshot(now, key, replace(each))
            kept = self._of(term)  # some came meanwhile
            floors = [each.snapshot_offset for _, each in kept if each.snapshot_offset >= 0]
            floors += self._writing.get(term.partition, [])
            offset = min([log.high_watermark, *floors])
            if not term.over.is_set() and log.log_start_offset < offset:
                await asyncio.to_thread(log.delete_before, offset)
                logger.info("share state was pruned", log=log.name, offset=offset)

    def _of(self, term: Term) -> list[tuple[SharePartitionKey, Stored]]:
        return [(key, each) for key, each in self._stored.items() if key.owner in term.owners]

    def _is_cold(self, own: Stored) -> bool:
        age_ms = self._wall_ms() - own.snapshot_ms
        return own.snapshot_offset >= 0 and age_ms >= self._config.cold_interval_ms

    def _log(self, term: Term) -> Log:
        topic = self._places.share_state_topic()
        if topic is None:
            raise NotLeader(f"{SHARE_STATE} is not known here")
        return topic.log(term.partition)


def _begins_anew(own: SharePartition, change: State) -> bool:
    """It begins now, or its log was cut: what is written is all there is. A leader of a former
    build says of a cut log only that it begins sooner, and that nothing is to be known of it."""
    if own.start_offset == UNDECIDED:
        return True
    is_sooner = not change.batches and change.start_offset < own.start_offset
    return change.start_offset > UNDECIDED and (change.is_anew or is_sooner)


def _not_here(key: SharePartitionKey) -> ShareRefused:
    return ShareRefused(ErrorCode.NOT_COORDINATOR, f"{key.owner} is another broker's")


def _refusal(key: SharePartitionKey, error: ApplianceError) -> ApplianceError:
    if isinstance(error, (NotLeader, LeaderEpochOld)):
        return _not_here(key)
    return ShareRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error))

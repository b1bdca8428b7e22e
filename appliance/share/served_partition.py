"""A share partition in service: its state, its log, who reads the log for it, and who waits.

One fetch at a time reads for a share partition: two would read the same records, and only one of
them can have them. Whoever finds nothing to acquire waits. When there is more, because the log has
moved, a lock was let go or the reader left something, the one that waits longest is woken, and
those after it one by one for as long as there is more.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from appliance._log import Log
from appliance.config import ShareGroupsConfig
from appliance.process import event_log
from appliance.process.detached_tasks import settle
from appliance.protocol import ErrorCode
from appliance.share.acquisition import Limits
from appliance.share.runs import NEVER_MS, Change
from appliance.share.session import TopicPartition, Waiter
from appliance.share.state_log import SharePartitionKey, Stored
from appliance.share.states import ShareRefused

logger = event_log.named("share_partitions")

UNDECIDED = -1  # a start that the first fetch decides on
READ_COMMITTED = "read_committed"


def limits_of(config: ShareGroupsConfig) -> Limits:
    return Limits(
        delivery_count=config.delivery_count_limit,
        record_locks=config.partition_max_record_locks,
        lock_ms=config.record_lock_duration_ms,
        may_renew=config.renew_acknowledge_enable,
    )


# What a fetch saw that found nothing: how far the log could be read, and the state's version
Seen = tuple[int, int]


@dataclass(eq=False)
class Entry:
    key: SharePartitionKey
    stored: Stored
    log: Log
    turn: asyncio.Lock  # who writes, or puts in a new state
    version: int = 0  # counts what may let somebody acquire
    reader: Waiter | None = None
    is_gone: bool = False
    waiters: dict[Waiter, Seen | None] = field(default_factory=dict)  # the longest first
    changes: list[tuple[Change, asyncio.Future[None]]] = field(default_factory=list)
    wait: int | None = None  # the number of its wait at the log
    waits_for_committed: bool = False
    storing: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None
    due_ms: int = NEVER_MS  # when it rings

    @property
    def topic_partition(self) -> TopicPartition:
        return self.key.topic_partition

    @property
    def is_undecided(self) -> bool:
        return self.stored.partition.start_offset == UNDECIDED

    def limit_offset(self, config: ShareGroupsConfig) -> int:
        """How far its readers may read."""
        is_committed = config.isolation_level == READ_COMMITTED
        return self.log.last_stable_offset if is_committed else self.log.high_watermark

    def seen(self, config: ShareGroupsConfig) -> Seen:
        return self.limit_offset(config), self.version

    def has_more(self, config: ShareGroupsConfig) -> bool:
        """Whether a fetch would find something. It may still be no record for it."""
        own = self.stored.partition
        if self.is_gone or self.is_undecided:
            return True
        offset = own.next_fetch_offset()
        if offset > self.log.log_end_offset:
            return True  # the log was cut: that is to be seen, and put right
        may_acquire = own.may_acquire(config.partition_max_record_locks)
        return offset < self.limit_offset(config) and may_acquire

    def check_there(self) -> None:
        if self.is_gone:
            raise ShareRefused(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.key.owner} is no more"
            )

    def restart_at(self, log_end_offset: int) -> bool:
        if not self.stored.partition.restart_at(log_end_offset):
            return False
        self.stored.must_snapshot = True  # an update cannot move the start back
        logger.warning(
            "a log ends before what a share group has done of it: the group begins at its end",
            group=self.key.group, log=self.log.name, offset=log_end_offset,
        )  # fmt: skip
        return True

    def wake(self, config: ShareGroupsConfig) -> None:
        """The first of those who have not seen this yet."""
        if self.reader is not None or not self.waiters or not self.has_more(config):
            return
        now = self.seen(config)
        for waiter, seen in self.waiters.items():
            if seen != now:
                waiter.woken.set()
                return

    def wake_all(self) -> None:
        for each in self.waiters:
            each.woken.set()

    def settle_with(self, error: Exception) -> None:
        """Who waits for the disk is told that it will not be."""
        changes, self.changes = self.changes, []
        for change, told in changes:
            self.stored.partition.undo(change)
            settle(told, error)

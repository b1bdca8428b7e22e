"""Points in time for backups: where every log ends, and the catalog, so that all of it is one state
in which the broker could have been (docs/decisions/backup.md).

Ends are taken in one go on the loop: of what groups and share groups have read first, then of data,
then of transactions. Logs are synced up to there afterwards.

A broker of a cluster asks the leaders of what it follows how far that counts, and takes no end
before it has all of that: so others go on meanwhile. What never counted is not in a point, and what
is not on this broker is named. Transactions that other brokers coordinate cannot be held here: if
one goes on while ends of data are taken, these are taken anew.
"""

from __future__ import annotations

import asyncio
import os
import struct
import time
import uuid
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

from appliance import __version__
from appliance._crc import crc32c
from appliance._log import Log
from appliance.backup.point import LogAt, Point, SegmentAt, Unserved
from appliance.broker.partition_leaders import LATEST, PartitionLeaders
from appliance.catalog import kafka_uuid
from appliance.catalog.catalog import Catalog
from appliance.data_dir.log_dirs import LogDirs
from appliance.data_dir.partition_names import Key
from appliance.errors import ApplianceError, ResourceUnknown
from appliance.process import event_log
from appliance.process.detached_tasks import Changes
from appliance.storage._log_metrics import LogFacts, log_facts
from appliance.topics.known_end import check_end_is_known
from appliance.topics.topic import TRANSACTIONS, Topic
from appliance.topics.topics import Topics

logger = event_log.named("backup")

# So long compaction rests for a backup of which nothing is heard.
HOLD_S = 60.0
ENDS_S = 5.0  # that ends of transactions which are under way may take
SYNC_S = 30.0
TAKES_MAX = 50  # of ends, while transactions of other brokers go on
SNAPSHOT_HEAD = struct.Struct(">hI")
SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")


class Transactions(Protocol):
    def held(self, timeout_s: float) -> AbstractAsyncContextManager[None]: ...


class Us(Protocol):
    """The broker."""

    node_id: int
    cluster_id: str
    leaders: PartitionLeaders


class TransactionsGoOn(ApplianceError):
    """Of other brokers, all the time: what one has written could be in the point in part."""

    kafka_code = 7  # again later


class Ends(NamedTuple):
    topic: Topic
    log: Log
    log_start_offset: int
    end_offset: int


class BackupPoints:
    """Compaction rests while any of them is held."""

    def __init__(
        self,
        topics: Topics,
        log_dir: LogDirs,
        catalog: Catalog,
        us: Us,
        change: Changes,
        transactions: Transactions,
    ) -> None:
        self._topics = topics
        self._log_dir = log_dir
        self._catalog = catalog
        self._us = us
        self._change = change
        self._transactions = transactions
        self._holds: dict[str, float] = {}  # until when of time.monotonic(), by the point

    async def take(self) -> Point:
        at_ms = self._log_dir.clock.now_ms()
        point_id = uuid.uuid4().hex
        self._hold(point_id)
        async with self._transactions.held(ENDS_S):
            ends, unserved = await self._ends()
        catalog = await self._change(asyncio.to_thread(self._catalog.copy))
        faults = await asyncio.to_thread(made_durable, ends)
        policy = self._topics.base.cleanup_policy
        logs = await asyncio.to_thread(lambda: [log_at(each, policy, faults) for each in ends])
        self._hold(point_id)
        logger.info("a backup begins", point=point_id, partitions=len(logs))
        return Point(
            point=point_id,
            at_ms=at_ms,
            hold_ms=round(HOLD_S * 1000),
            cluster_id=self._us.cluster_id,
            broker_id=self._us.node_id,
            version=__version__,
            logs=tuple(logs),
            unserved=tuple(unserved),
            catalog=catalog,
        )

    async def _ends(self) -> tuple[list[Ends], list[Unserved]]:
        topics = in_order(self._topics.values())
        if any(each.is_replicated for each in topics):
            ends, away = await self._ends_in_cluster(topics)
        else:
            ends = ends_of((each, log) for each in topics for log in each.open_logs)
            away = self._topics.unserved()
        return ends, [Unserved(*key, why) for key, why in sorted(away.items())]

    # In a cluster

    async def _ends_in_cluster(self, topics: list[Topic]) -> tuple[list[Ends], dict[Key, str]]:
        groups = [each for each in topics if each.is_internal and each.name != TRANSACTIONS]
        data = [each for each in topics if not each.is_internal]
        decisions = [each for each in topics if each.name == TRANSACTIONS]
        shown, away = await self._us.leaders.shown(groups)
        ends = ends_of(shown)
        more, faults, decided = await self._ends_of_data(data, decisions)
        shown, of_decisions = await self._us.leaders.shown(decisions)
        last = [each._replace(end_offset=decided[each.log.partition]) for each in ends_of(shown)]
        return [*ends, *more, *last], {**away, **faults, **of_decisions}

    async def _ends_of_data(
        self, data: list[Topic], decisions: list[Topic]
    ) -> tuple[list[Ends], dict[Key, str], dict[int, int]]:
        """And how far the state of transactions went, before and after."""
        for _ in range(TAKES_MAX):
            before = await self._counts(decisions)
            shown, away = await self._us.leaders.shown(data)
            ends = ends_of(shown)
            if await self._counts(decisions) == before:
                return ends, away, before
        raise TransactionsGoOn(
            f"transactions that other brokers coordinate went on all {TAKES_MAX} times that ends "
            "of logs were taken: what one wrote could be in the backup in part. Try again when "
            "there are fewer of them"
        )

    async def _counts(self, decisions: list[Topic]) -> dict[int, int]:
        """How far that is counted, wherever it is led."""
        found: dict[int, int] = {}
        for topic in decisions:
            numbers = range(len(topic.logs))
            elsewhere = self._us.leaders.led_elsewhere(topic, numbers)
            found |= await self._us.leaders.offsets(topic, dict.fromkeys(elsewhere, LATEST))
            own = [each for each in numbers if each not in elsewhere]
            for log in await self._us.leaders.readable(topic, own):
                check_end_is_known(log)  # it was perhaps deposed, and who leads has counted more
                found[log.partition] = log.high_watermark
        return found

    # The hold

    def renew(self, point: str) -> None:
        self._check(point)
        self._hold(point)

    def end(self, point: str) -> None:
        """Compacted logs were read."""
        self._check(point)
        del self._holds[point]
        self._log_dir.compacts_from = max(self._holds.values(), default=0.0)

    def _check(self, point: str) -> None:
        if time.monotonic() >= self._holds.get(point, 0.0):
            raise ResourceUnknown(
                f"point {point[:40]!r}: nothing was heard of it for {HOLD_S:g} s, or the broker "
                "was restarted; take a new one"
            )

    def _hold(self, point: str) -> None:
        now = time.monotonic()
        self._holds = {one: until for one, until in self._holds.items() if until > now}
        self._holds[point] = now + HOLD_S
        self._log_dir.compacts_from = max(self._holds.values())


def in_order(topics: Iterable[Topic]) -> list[Topic]:
    """What refers to data is before it, and what decides about it behind it."""
    return sorted(topics, key=lambda each: (each.name == TRANSACTIONS, not each.is_internal))


def ends_of(places: Iterable[tuple[Topic, Log]]) -> list[Ends]:
    pairs = [*places]
    facts = log_facts([log for _, log in pairs])
    return [
        Ends(topic, log, found.log_start_offset, end_of(topic, found))
        for (topic, log), found in zip(pairs, facts, strict=True)
    ]


def end_of(topic: Topic, found: LogFacts) -> int:
    """What is not on all replicas that must have it may be cut, whoever has it."""
    if topic.is_replicated:
        return min(found.high_watermark, found.durable_offset)
    return found.log_end_offset


def made_durable(ends: Iterable[Ends]) -> dict[str, str]:
    """By the log's name why it could not be, of those that could not."""
    waits = [each for each in ends if each.log.durable_offset < each.end_offset]
    for each in waits:
        each.log.ask_commit()
    deadline = time.monotonic() + SYNC_S
    faults = {}
    for each in waits:
        try:
            each.log.await_durable(each.end_offset - 1, max(0, deadline - time.monotonic()))
        except ApplianceError as error:
            faults[each.log.name] = str(error)
    return faults


def log_at(ends: Ends, policy: str, faults: dict[str, str]) -> LogAt:
    """Touches the disk: looks at the files of its segments."""
    topic, log, start, end = ends
    fault = faults.get(log.name, "")
    if fault:
        end = max(start, min(end, log.durable_offset))
    start = min(max(start, log.log_start_offset), end)
    return LogAt(
        topic=topic.name,
        topic_id=kafka_uuid.text_of(topic.id),
        partition=log.partition,
        log_start_offset=start,
        end_offset=end,
        leader_epoch=log.leader_epoch,
        is_compacted="compact" in topic.configs.get("cleanup.policy", policy),
        holes=tuple((first, behind) for first, behind in log.holes() if first < end),
        segments=tuple(segments_of(log, end)),
        producers=producers_before(log, start),
        fault=fault,
    )


def segments_of(log: Log, end: int) -> list[SegmentAt]:
    found = []
    every = log.segments()
    for each in every:
        if each.base_offset >= end:
            break
        try:
            status = os.stat(each.path)
        except FileNotFoundError:
            continue  # retention was faster
        is_sealed = each is not every[-1] and each.end_offset <= end
        found.append(SegmentAt(
            each.base_offset, min(each.end_offset, end), status.st_size, status.st_mtime_ns,
            is_sealed,
        ))  # fmt: skip
    return found


def producers_before(log: Log, start: int) -> bytes:
    """Those that have no batch from there on, as a snapshot file (docs/log-format.md): nothing that
    is copied tells of them. One that has written since the point has batches that do."""
    known = [each for each in log.producers() if 0 <= each.last_offset < start]
    entries = [
        SNAPSHOT_ENTRY.pack(
            each.producer_id, each.epoch, each.last_sequence, each.last_offset, 0,
            each.last_timestamp, each.coordinator_epoch, each.txn_first_offset,
        )
        for each in known
    ]  # fmt: skip
    data = b"".join([len(entries).to_bytes(4, "big"), *entries])
    return SNAPSHOT_HEAD.pack(1, crc32c(data)) + data if entries else b""

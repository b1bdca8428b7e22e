"""How far groups are behind, in records and in seconds.

    records   what may be read (the high watermark) less what was committed, as Kafka's tools count
    seconds   the age of the oldest record that was not consumed

That record is found by its offset through the index, and of its batch the header is read, so the
cost is that of one small read whatever is stored. It is remembered until the group goes on.

Partitions that members have, or want, count before anything was committed for them: else a reader
that has just begun, or never commits, looks as if it were up to date. Where a consumer would begin
is its own setting, `auto.offset.reset`, which no request tells; so it counts as if it began at the
log's start, the most that can be, and each figure says how much of it is of that kind. Where share
groups begin the broker knows itself.

In a cluster there are partitions that other brokers have alone. Their leaders are asked where they
end, once in a round for all groups; the age of a record there is the time since a round first knew
of it. What a leader does not tell is in no sum, and is counted as unknown. So is what is here and
whose watermark is not known yet: that of before would be no lag at all. The past has no sample of a
topic then.

All groups are measured every `group.lag.interval.seconds`, some at a time: the event loop compares
numbers, a thread beside it reads the disk. Readers get the last round, which costs them nothing.

Ages are by a clock whose jumps forward are not believed at once; a record from the future is of
age 0. Whoever writes wrong timestamps gets wrong ages: a record is as old as its writer says.
"""

from __future__ import annotations

import asyncio
import os
import struct
import time
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Container,
    Iterable,
    Iterator,
    Mapping,
)
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol

from appliance._log import Log
from appliance.config import GroupsConfig
from appliance.errors import ApplianceError
from appliance.groups.lag_elsewhere import Elsewhere, Ends
from appliance.groups.lag_history import History, LagSample, Measured, Series
from appliance.groups.records import Partition
from appliance.groups.states import GroupRefused
from appliance.machine.believed_time import WallClock
from appliance.process import event_log
from appliance.protocol import ErrorCode
from appliance.record import _batch
from appliance.storage._read_from_python import FileSlice
from appliance.topics.known_end import is_watermark_stale

logger = event_log.named("groups.lag")

# Partitions looked at between two turns of the event loop, and read in one visit of a thread: a
# millisecond or two.
TURN_PARTITIONS = 200

# Records of one batch that lie this close in time are told apart by nobody who looks at lag; else
# the batch is read whole, and decompressed.
SPREAD_MAX_MS = 1000

# The record may have gone meanwhile, since the log is compacted.
REMEMBERED_S = 60

# Of a batch's header: attributes, base timestamp, largest timestamp.
HEAD = struct.Struct(">21xh4xqq")
APPEND_TIME = 0x08  # in the attributes: every record has the largest timestamp
DELETE_HORIZON = 0x40  # the base timestamp is that of no record
NO_TIMESTAMP = -1


class PartitionLag(NamedTuple):
    topic: str
    partition: int
    committed: int | None  # the next offset to read; None: nothing was committed yet
    start: int | None  # None: unknown, for another broker has not told
    end: int | None  # the high watermark; None: the same
    records: int  # end - committed, or from where it would begin; never below 0, which is unknown
    lost: int  # of these, records that were deleted before they were read
    seconds: float | None  # 0: nothing to read; None: not known


class GroupLag(NamedTuple):
    group: str
    protocol: str  # classic, consumer, share or streams
    records: int  # sum
    seconds: float | None  # largest
    partitions: tuple[PartitionLag, ...]  # with a commit, or a member that wants them; in order

    def of_topics(self, topics: Container[str]) -> GroupLag:
        """For who may know of no others."""
        own = tuple(each for each in self.partitions if each.topic in topics)
        records = sum(each.records for each in own)
        return self._replace(records=records, seconds=_largest(own), partitions=own)

    @property
    def without_commit(self) -> WithoutCommit:
        own = [each for each in self.partitions if each.committed is None and each.end is not None]
        return WithoutCommit(len(own), sum(each.records for each in own))

    @property
    def unknown_partitions(self) -> int:
        """In no sum: other brokers have not told where they end, or where a share group begins."""
        return sum(each.end is None for each in self.partitions)


class WithoutCommit(NamedTuple):
    """What of a lag is of partitions for which nothing was committed yet."""

    partitions: int
    records: int


class RecordsBehind(NamedTuple):
    """A group's lag without its time."""

    records: int
    without_commit: WithoutCommit
    topics: frozenset[str]
    unknown_partitions: int
    partitions: int


class LagSnapshot(NamedTuple):
    at_ms: int  # wall clock; 0: nothing was measured yet
    groups: tuple[GroupLag, ...]  # those that have or want partitions, by name
    series_left_out: int  # groups and topics without history: `group.lag.series.max`


class LagHistory(NamedTuple):
    interval_s: int
    topics: Mapping[str, tuple[LagSample, ...]]


class GroupProgress(NamedTuple):
    """How far a group is."""

    protocol: str
    offsets: Mapping[Partition, int]
    wanted: Collection[Partition] = ()  # what members have or want, with a commit or without
    begins_at_end: bool = False  # where nothing is committed; else at the log's start
    unknown: Collection[Partition] = ()  # where it is there other brokers know, and do not tell


NOWHERE = GroupProgress("", {})


class Source(Protocol):
    """Whoever keeps offsets of groups."""

    def groups_that_read(self) -> Iterable[str]:
        """Those with a commit or with members."""
        ...

    def progress(self, group_id: str) -> GroupProgress | None: ...


AskGroups = Callable[[str | None], Awaitable[None]]


class PartitionProgress(NamedTuple):
    """One group at one partition, with the numbers of one moment."""

    group: str
    partition: Partition
    log: Log | None  # None: others have it, or it is not known where the group is
    committed: int | None
    ends: Ends | None  # None: others have not told
    begins_at_end: bool

    @property
    def next(self) -> int:
        """The first offset that can still be read, and is to be."""
        return max(self.position, self.ends.start) if self.ends else self.position

    @property
    def position(self) -> int:
        if self.committed is not None:
            return max(0, self.committed)  # anybody may commit -2^63
        if self.ends is None:
            return 0
        return self.ends.end if self.begins_at_end else self.ends.start

    @property
    def records(self) -> int:
        return max(0, self.ends.end - self.position) if self.ends else 0

    @property
    def has_read_all(self) -> bool:
        return self.ends is not None and self.next >= self.ends.end

    @property
    def lost(self) -> int:
        before = self.ends.start - self.position if self.ends else 0
        return min(self.records, max(0, before))


class Oldest(NamedTuple):
    """The oldest record not consumed."""

    log: Log | None
    offset: int
    timestamp: int
    found_s: float


class Lag:
    def __init__(
        self,
        config: GroupsConfig,
        find_log: Callable[[str, int], Log | None],
        sources: list[Source],
        loaded: Callable[[], Awaitable[None]],
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        self.sources = sources
        self.elsewhere: Elsewhere | None = None  # in a cluster
        self.ask_where_groups_are: AskGroups | None = None  # the same; of one group, or of all
        self._interval_s = config.lag_interval_s
        self._find_log = find_log
        self._loaded = loaded
        self._now_ms = now_ms or WallClock().now_ms
        self._history = History(config.lag_samples_max, config.lag_series_max)
        self._oldest: dict[tuple[str, Partition], Oldest] = {}
        self._gone: set[str] = set()  # groups that left in this round
        self._snapshot = LagSnapshot(0, (), 0)
        self._measuring: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, "lag")

    # Life

    def start(self) -> None:
        """On the event loop."""
        self._measuring = asyncio.get_running_loop().create_task(self._measure())

    async def close(self) -> None:
        """When it returns no thread of ours reads a log."""
        if self._measuring is not None:
            self._measuring.cancel()
            await asyncio.wait([self._measuring])
        await asyncio.to_thread(self._thread.shutdown)

    async def _measure(self) -> None:
        await self._loaded()
        while True:
            try:
                await self.round()
            except Exception:
                logger.exception("lag could not be measured, in a way that was not foreseen")
            await asyncio.sleep(self._interval_s)

    # Asked

    def snapshot(self) -> LagSnapshot:
        return self._snapshot

    @property
    def series(self) -> Collection[Series]:
        """Groups and topics that have a history, and a place in metrics."""
        return self._history.series

    def history(self, group_id: str) -> LagHistory:
        return LagHistory(self._interval_s, self._history.of_group(group_id))

    async def of_group(self, group_id: str) -> GroupLag:
        """As it is now."""
        if self.ask_where_groups_are is not None:
            await self.ask_where_groups_are(group_id)
        progress = self._progress(group_id)
        if progress is None:
            raise GroupRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        await self._ask_elsewhere(_places(progress))
        oldest: dict[tuple[str, Partition], Oldest] = {}
        return await self._group(group_id, progress, oldest)

    def records_of(self, group_id: str, topics: Container[str]) -> RecordsBehind:
        """As they are now in these topics; reads no log, and costs what the group has
        partitions."""
        progress = self._progress(group_id) or NOWHERE
        places = [each for each in _places(progress) if each.topic in topics]
        partitions = [each for place in places
                      for each in self._partition(group_id, progress, place)]  # fmt: skip
        own = [each.records for each in partitions if each.committed is None and each.ends]
        return RecordsBehind(
            sum(each.records for each in partitions),
            WithoutCommit(len(own), sum(own)),
            frozenset(each.topic for each in places),
            sum(each.ends is None for each in partitions),
            len(partitions),
        )

    def _progress(self, group_id: str) -> GroupProgress | None:
        known = (source.progress(group_id) for source in self.sources)
        return next((each for each in known if each is not None), None)

    def forget(self, groups: Collection[str]) -> None:
        """They are another broker's, who measures them."""
        self._gone.update(groups)
        left = tuple(each for each in self._snapshot.groups if each.group not in self._gone)
        self._snapshot = self._snapshot._replace(groups=left)
        self._history.forget(groups)

    # Measuring

    async def round(self) -> None:
        """All groups, once."""
        self._gone.clear()
        if self.ask_where_groups_are is not None:
            await self.ask_where_groups_are(None)
        await self._ask_elsewhere(await self._all_places())
        at_ms = self._now_ms()
        oldest: dict[tuple[str, Partition], Oldest] = {}
        groups: list[GroupLag] = []
        for source in self.sources:
            for group_id in list(source.groups_that_read()):
                progress = source.progress(group_id)
                if progress is not None:
                    groups.append(await self._group(group_id, progress, oldest))
        groups = [each for each in groups if each.group not in self._gone]
        self._oldest = oldest
        self._history.add(at_ms, dict(_series(groups)))
        reading = tuple(sorted(each for each in groups if each.partitions))
        self._snapshot = LagSnapshot(at_ms, reading, self._history.left_out)

    async def _all_places(self) -> Collection[Partition]:
        """Of all groups; none where nothing is elsewhere."""
        found: set[Partition] = set()
        if self.elsewhere is None:
            return found
        for source in self.sources:
            for group_id in list(source.groups_that_read()):
                progress = source.progress(group_id)
                found.update(() if progress is None else _places(progress))
                await asyncio.sleep(0)
        return found

    async def _ask_elsewhere(self, places: Iterable[Partition]) -> None:
        if self.elsewhere is not None:
            await self.elsewhere.ask([each for each in places if self.elsewhere.is_there(each)])

    async def _group(
        self,
        group_id: str,
        progress: GroupProgress,
        oldest: dict[tuple[str, Partition], Oldest],
    ) -> GroupLag:
        lags: list[PartitionLag] = []
        places = sorted(_places(progress))
        for first in range(0, len(places), TURN_PARTITIONS):
            turn = places[first : first + TURN_PARTITIONS]
            partitions = [each for place in turn
                          for each in self._partition(group_id, progress, place)]  # fmt: skip
            await self._look_up(partitions, oldest)
            lags += [self._lag(each, oldest) for each in partitions]
        records = sum(each.records for each in lags)
        return GroupLag(group_id, progress.protocol, records, _largest(lags), tuple(lags))

    def _partition(
        self, group_id: str, progress: GroupProgress, place: Partition
    ) -> Iterator[PartitionProgress]:
        """None of a partition that is not served, or no more."""
        log, elsewhere = self._find_log(*place), self.elsewhere
        ends: Ends | None
        if log is not None and is_watermark_stale(log):  # first: it may get known meanwhile
            log = ends = None
        elif log is not None:
            ends = Ends(log.log_start_offset, log.high_watermark)
        elif elsewhere is not None and elsewhere.is_there(place):
            ends = elsewhere.ends(place)
        else:
            return
        is_known = place not in progress.unknown
        yield PartitionProgress(
            group_id, place, log if is_known else None, progress.offsets.get(place),
            ends if is_known else None, progress.begins_at_end,
        )  # fmt: skip

    async def _look_up(
        self, partitions: list[PartitionProgress], oldest: dict[tuple[str, Partition], Oldest]
    ) -> None:
        """Fills in the oldest record of each partition that has one."""
        now_s = time.monotonic()
        unknown: list[PartitionProgress] = []
        for each in partitions:
            if each.log is None or each.has_read_all:
                continue
            key = each.group, each.partition
            known = self._oldest.get(key)
            if known is None or not _still_holds(known, each, now_s):
                unknown.append(each)
            else:
                oldest[key] = known
        if unknown:
            loop = asyncio.get_running_loop()
            stamps = await loop.run_in_executor(self._thread, _timestamps, unknown)
            for each, stamp in zip(unknown, stamps, strict=True):
                oldest[each.group, each.partition] = Oldest(each.log, each.next, stamp, now_s)
        else:
            await asyncio.sleep(0)

    def _lag(
        self, progress: PartitionProgress, oldest: Mapping[tuple[str, Partition], Oldest]
    ) -> PartitionLag:
        first = oldest.get((progress.group, progress.partition))
        seconds: float | None = 0.0
        if first is not None:
            age_ms = max(0, self._now_ms() - first.timestamp)
            seconds = None if first.timestamp == NO_TIMESTAMP else age_ms / 1000
        elif progress.log is None:
            seconds = self._seconds_elsewhere(progress)
        start, end = progress.ends or (None, None)
        return PartitionLag(
            *progress.partition, progress.committed, start, end, progress.records, progress.lost,
            seconds,
        )  # fmt: skip

    def _seconds_elsewhere(self, progress: PartitionProgress) -> float | None:
        if self.elsewhere is None or progress.ends is None:
            return None
        if progress.has_read_all:
            return 0.0
        return self.elsewhere.seconds(progress.partition, progress.next)


def _places(progress: GroupProgress) -> set[Partition]:
    return {*progress.offsets, *progress.wanted, *progress.unknown}


def _still_holds(known: Oldest, progress: PartitionProgress, now_s: float) -> bool:
    is_same = known.log is progress.log and known.offset == progress.next
    return is_same and now_s - known.found_s < REMEMBERED_S


def _timestamps(partitions: Iterable[PartitionProgress]) -> list[int]:
    return [_timestamp(each) for each in partitions]


def _timestamp(progress: PartitionProgress) -> int:
    """Of the first record from `next` on."""
    log, offset = progress.log, progress.next
    assert log is not None
    try:
        for first, end in log.holes():
            offset = end if first <= offset < end else offset
        return _timestamp_at(log, offset)
    except ApplianceError:
        return NO_TIMESTAMP  # deleted meanwhile, or failed, which health tells


def _timestamp_at(log: Log, offset: int) -> int:
    batch = log.slice(offset, 1)
    if batch.size == 0:
        return NO_TIMESTAMP
    head = _head(batch)
    if len(head) < HEAD.size:
        log.note_damaged(offset, head)
        return NO_TIMESTAMP
    attributes, base_timestamp, max_timestamp = HEAD.unpack(head)
    if attributes & APPEND_TIME:
        return int(max_timestamp)
    if max_timestamp - base_timestamp <= SPREAD_MAX_MS and not attributes & DELETE_HORIZON:
        return int(base_timestamp)
    records = _batch.records(log.read(offset, 1))
    return next((each.timestamp for each in records if each.offset >= offset), int(max_timestamp))


def _head(batch: FileSlice) -> bytes:
    """Fewer bytes than it has where the disk has no more, or refuses."""
    try:
        return os.pread(batch.fd, HEAD.size, batch.position)
    except OSError:
        return b""


def _largest(lags: Iterable[PartitionLag]) -> float | None:
    known = [each.seconds for each in lags if each.seconds is not None]
    return max(known, default=None)


def _series(groups: Iterable[GroupLag]) -> Iterator[tuple[Series, Measured | None]]:
    for group in groups:
        by_topic: dict[str, list[PartitionLag]] = {}
        for each in group.partitions:
            by_topic.setdefault(each.topic, []).append(each)
        for topic, lags in by_topic.items():
            records = sum(each.records for each in lags)
            is_known = all(each.end is not None for each in lags)
            yield (group.group, topic), (records, _largest(lags)) if is_known else None

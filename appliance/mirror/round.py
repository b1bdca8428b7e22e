"""One round of a mirror: from the setup to the first failure or to the next refresh of topics.

1  both clusters tell their ids; missing topics are created in the target
2  the target tells the next offset of each partition, the source its offsets
3  fetchers read and this thread sends, until something ends the round
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from appliance.mirror import topics
from appliance.mirror.config import MirrorConfig
from appliance.mirror.errors import (
    OffsetsCannotBeKept,
    Refuse,
    RoundOver,
    TopicRefused,
    TopicsRefused,
)
from appliance.mirror.fetcher import Cursor, Fetcher
from appliance.mirror.group_offsets import GroupOffsets
from appliance.mirror.inbox import Aborted, Fetched, Inbox, Octets
from appliance.mirror.kept_target import KeptTarget
from appliance.mirror.mapped_target import MappedTarget
from appliance.mirror.progress import MirrorProgress
from appliance.mirror.site import (
    EARLIEST,
    LATEST,
    Offsets,
    Positions,
    Refusals,
    Site,
    Topic,
    TopicPartition,
)
from appliance.process import event_log

log = event_log.named("mirror")

IDLE_S = 0.1  # pause between checks while no batches arrive


class Target(Protocol):
    def prepare(
        self, partition: TopicPartition, records: Octets, before: int, aborted: Aborted
    ) -> tuple[Any, int, int, int]: ...

    def positions(
        self, starts: Offsets, ends: Offsets, refuse: Refuse, unserved: Refusals
    ) -> Positions:
        """The next offset of each partition; `starts` and `ends` are the source's. Those that the
        target does not serve go into `unserved`."""
        ...

    def pass_over(
        self, partition: TopicPartition, offset: int | None, start: int, end: int
    ) -> int: ...

    def send(self, fetched: list[Fetched]) -> None: ...

    def settle(self, is_idle: bool) -> None: ...

    def commit(self) -> None: ...

    def close(self) -> None: ...


class Round:
    def __init__(
        self,
        config: MirrorConfig,
        progress: MirrorProgress,
        stopping: threading.Event,
        once: bool,
        held: Callable[[], Mapping[str, TopicRefused]],
    ) -> None:
        self._config, self._progress, self._held = config, progress, held
        self._stopping, self._once = stopping, once
        self._source = Site(config.source_client)
        self._target_site = Site(config.target_client)
        self._inbox = Inbox(config.inbox_bytes)
        self._fetchers: list[Fetcher] = []
        self._target: Target | None = None
        self._batch_bytes_max: dict[str, int] = {}  # by the target's topic
        self._keeps_offsets = False
        self._groups: GroupOffsets | None = None
        self._without_position: set[str] = set()  # topics refused at the start
        self._refused_for_now: set[str] = set()

    def run(self) -> None:
        """Runs until it is stopped, or caught up with `once`; raises what else ends the round."""
        try:
            mirrored = self._arrange()
            self._target = self._open(mirrored)
            cursors = self._begin(mirrored, self._target)
            if not cursors:
                self._check_some_can_be_mirrored()
            self._progress.is_connected = True
            self._fetch(cursors, self._target)
            self._pump(self._target)
        finally:
            self._progress.is_connected = False
            self._close()

    def cut(self) -> None:
        """Ends the round at once, as a failure would; any thread may call this."""
        self._source.cut()
        self._target_site.cut()

    def _close(self) -> None:
        self._inbox.close()
        self._source.cut()  # wakes the fetchers that wait for it
        if self._target is not None:
            self._target.close()
        self._source.close()
        self._target_site.close()
        for each in self._fetchers:
            each.join()

    # the setup

    def _arrange(self) -> list[Topic]:
        self._source.refresh()
        self._target_site.refresh()
        self._progress.unread.forget_gone(self._source.topics)
        self._progress.unwritten.forget_gone(self._target_site.topics)
        self._keeps_offsets = topics.can_keep_offsets(self._target_site, self._config)
        if self._config.groups:
            self._groups = self._group_offsets()
        mirrored = self._arranged()
        self._seen = self._signature(mirrored)
        return mirrored

    def _group_offsets(self) -> GroupOffsets:
        if not self._keeps_offsets:
            where = self._target_site.config.broker_list
            raise OffsetsCannotBeKept(f"groups are copied where offsets are kept, not to {where}")
        return GroupOffsets(
            self._source,
            self._target_site,
            self._config.groups,
            self._progress.groups_refreshed,
        )

    def _arranged(self) -> list[Topic]:
        """Topics that can be mirrored; the target has all of them afterwards."""
        arrangement = topics.Arrangement(
            self._source, self._target_site, self._config, self._keeps_offsets
        )
        mirrored = arrangement.arrange()
        self._batch_bytes_max.update(arrangement.batch_bytes_max)
        held = self._held()
        for_now = {name for name, error in held.items() if error.is_for_now}
        self._refused_for_now = arrangement.refused_for_now | for_now
        refused = {**arrangement.refused, **{name: str(error) for name, error in held.items()}}
        for name, why in refused.items():
            self._refuse(name, why)
        self._progress.forget_refused(refused.keys() | self._without_position)
        return [each for each in mirrored if each.name not in refused]

    def _check_some_can_be_mirrored(self) -> None:
        """At the start. Later the topics that are refused are looked at again."""
        refused = self._progress.refused
        if refused and not self._progress.has_worked and not self._refused_for_now:
            raise TopicsRefused(refused)

    def _refuse(self, topic: str, why: str) -> None:
        if self._progress.refuse(topic, why):
            log.error("topic cannot be mirrored", topic=topic, why=why)

    def _signature(self, mirrored: list[Topic]) -> object:
        """The inputs of a round: when one changes, the next round begins."""
        here = self._target_site.topics
        return [(each, here.get(each.name)) for each in mirrored]

    def _open(self, mirrored: list[Topic]) -> Target:
        sources = {each.name: topics.source_of(self._source, each) for each in mirrored}
        site, progress, config = self._target_site, self._progress, self._config
        if self._keeps_offsets:
            return KeptTarget(site, sources, progress, config)
        return MappedTarget(site, sources, self._batch_bytes_max, progress, config)

    def _begin(self, mirrored: list[Topic], target: Target) -> dict[TopicPartition, Cursor]:
        """The next offset of each partition, after skipping what the source does not have."""
        partitions = [partition for each in mirrored for partition in each.partitions]
        unserved: Refusals = {}
        starts = self._source.offsets(partitions, EARLIEST, refused=unserved)
        ends = self._source.offsets(starts, LATEST, refused=unserved)
        starts = {partition: starts[partition] for partition in ends}
        refused = self._without_position

        def refuse(error: TopicRefused) -> None:
            refused.add(error.topic)
            self._refuse(error.topic, str(error))

        known = target.positions(starts, ends, refuse, unserved)
        known = {
            partition: each for partition, each in known.items() if partition.topic not in refused
        }
        self._progress.begin({partition: each or 0 for partition, each in known.items()})
        self._pass_by(unserved)
        cursors = {}
        for partition, offset in known.items():
            start, end = starts[partition], ends[partition]
            cursors[partition] = Cursor(max(offset or 0, start), offset or 0)
            if (offset or 0) < start:
                self._tell_lost(partition, offset, start)
                cursors[partition].next_offset = target.pass_over(partition, offset, start, end)
        target.settle(is_idle=True)
        return cursors

    def _pass_by(self, unserved: Refusals) -> None:
        for partition, error in unserved.items():
            if not self._progress.unread.lasts(partition, self._config.refresh_interval_ms):
                raise error
            self._progress.failed(partition, str(error))

    def _tell_lost(self, partition: TopicPartition, offset: int | None, start: int) -> None:
        if offset is not None:
            self._progress.lost(partition, start - offset)
            log.error(
                "the source deleted records before they were mirrored",
                place=partition,
                first_offset=offset,
                last_offset=start - 1,
            )

    def _fetch(self, cursors: dict[TopicPartition, Cursor], target: Target) -> None:
        by_leader: dict[int, dict[TopicPartition, Cursor]] = defaultdict(dict)
        for partition, cursor in cursors.items():
            by_leader[self._source.leader(partition)][partition] = cursor
        for leader, own in by_leader.items():
            connection = self._source.connect(leader)
            self._fetchers.append(
                Fetcher(connection, own, target.prepare, self._inbox, self._progress, self._config)
            )
        for each in self._fetchers:
            each.start()

    # the transfer

    def _pump(self, target: Target) -> None:
        looked = time.monotonic()
        while not self._stopping.is_set():
            taken = self._take(target)
            target.send(taken)
            target.settle(is_idle=not taken)
            if not taken and self._progress.is_caught_up:
                self._progress.has_worked = True
            if not taken and self._once:
                target.commit()
                if self._progress.is_caught_up:
                    break
            if time.monotonic() - looked > self._config.refresh_interval_ms / 1000:
                self._look(target)
                looked = time.monotonic()
        target.commit()
        self._copy_groups()

    def _copy_groups(self) -> None:
        if self._groups:
            self._groups.copy({partition: each.position for partition, each in self._progress})

    def _take(self, target: Target) -> list[Fetched]:
        try:
            return self._inbox.take(self._config.fetch_max_bytes, IDLE_S)
        except Exception:
            # the source failed; sent batches may still be acknowledged
            target.commit()
            raise

    def _look(self, target: Target) -> None:
        self._source.refresh()
        self._target_site.refresh()
        mirrored = self._signature(self._arranged())
        if mirrored != self._seen or any(each.failure for _, each in self._progress):
            target.commit()
            raise RoundOver(
                "topics, partitions or leaders changed, or a partition is due for a retry"
            )
        self._copy_groups()

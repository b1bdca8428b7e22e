"""The group coordinator: what it is made of, and its life from a start to a stop.

Everything in it runs on the one asyncio thread.

    table         all groups: looked up, made, written, deleted, timed
    availability  which of them are served; `offsets_topic_loading` reads them at a start
    classic       members of the classic protocol
    consumer      members of the newer one
    streams       members of groups of Kafka Streams
    offsets       what groups committed; `commits` changes it, `expiry` takes away what is old
    progress      how far groups are, for the lag
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from appliance.config import GroupsConfig
from appliance.groups.availability import Term
from appliance.groups.classic_membership import ClassicMembership
from appliance.groups.consumer_membership import ConsumerMembership, Topics
from appliance.groups.group_progress import ConsumerProgress
from appliance.groups.group_table import GroupTable
from appliance.groups.modern_group import ModernGroup
from appliance.groups.offset_commits import OffsetCommits
from appliance.groups.offset_expiry import OffsetExpiry
from appliance.groups.offsets_topic import OffsetsTopicSource
from appliance.groups.offsets_topic_loading import Loading
from appliance.groups.offsets_topic_replay import ReplayedGroups
from appliance.groups.share_records import StoredShareGroup
from appliance.groups.streams import membership as streams
from appliance.groups.streams.membership import StreamsMembership
from appliance.machine.believed_time import WallClock
from appliance.protocol import ErrorCode
from appliance.topics.topic import OFFSETS


class Source(Topics, streams.Topics, OffsetsTopicSource, Protocol):
    """Where the records live, what there is to read, and what was set for a group."""


class ShareGroups(Protocol):
    """The owner of share groups, whose records lie among those of the others."""

    def restore(self, replayed: Mapping[str, StoredShareGroup], now_ms: int) -> None: ...

    def expire(self, group: ModernGroup) -> None:
        """If it is idle."""
        ...


class Coordinator:
    def __init__(
        self,
        config: GroupsConfig,
        table: GroupTable,
        topics: Source,
        share_groups: ShareGroups,
        clock: WallClock,
    ) -> None:
        self.table = table
        self.availability = table.availability
        self.offsets = table.offsets
        self.doubtful: dict[str, list[str]] = {}  # groups whose commits may be older, by partition
        self._share_groups = share_groups
        self.classic = ClassicMembership(config, table)
        self.consumer = ConsumerMembership(config, table, topics)
        self.streams = StreamsMembership(table, topics)
        self.commits = OffsetCommits(table)
        self.expiry = OffsetExpiry(config, table, self.commits, clock, share_groups.expire)
        self.progress = ConsumerProgress(table, topics)
        self.loading = Loading(
            topics, table.availability, self._restore, self._restored, self._unload,
            table.topic.settled_in,
        )  # fmt: skip
        self.on_unloaded: Callable[[Collection[str]], None] = lambda groups: None

    def start(self) -> None:
        """On the event loop. Groups are served once the topic is read."""
        self.expiry.start()
        self.loading.start()

    def stop(self) -> None:
        """Answers everybody who waits for other members; nobody is let in any more."""
        self.availability.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker stops")
        self.loading.stop()
        self.commits.stop()
        self.expiry.stop()
        self.table.stop()

    async def close(self) -> None:
        """After the last write that has begun."""
        self.stop()
        await self.loading.loaded()
        await self.table.close()

    def _restore(self, replayed: ReplayedGroups) -> int:
        table, now_ms = self.table, time.monotonic_ns() // 1_000_000
        self.offsets.take(replayed.offsets)
        self.doubtful |= replayed.doubtful
        for group_id, value in replayed.groups.items():
            group = table.make(group_id)
            group.restore(value, now_ms)
            table.arm(group)
        for group_id, stored in replayed.consumer_groups.items():
            self.consumer.restore(group_id, stored, now_ms)
        for group_id, kept in replayed.streams_groups.items():
            self.streams.restore(group_id, kept, now_ms)
        self._share_groups.restore(replayed.share_groups, now_ms)
        for group_id in replayed.offsets.groups():
            if group_id not in table.groups:
                table.make(group_id)
            table.weights.weigh(group_id)
        return len(table.groups)

    def _restored(self, replayed: ReplayedGroups, partitions: Collection[int]) -> None:
        groups = {*replayed.offsets.groups(), *replayed.offsets.all_held()}
        self.commits.forget_deleted_topics(groups, partitions)

    # In a cluster, on the event loop

    def on_led(self, partition: int, epoch: int) -> None:
        """This broker leads that partition of `__consumer_offsets`, and so its groups."""
        self.loading.lead(partition, epoch)
        self.commits.was_elected(partition, epoch)

    def on_resigned(self, partition: int) -> None:
        """It does not, or no longer."""
        self.loading.resign(partition)

    def _unload(self, term: Term) -> None:
        self.table.unload(term)
        self.commits.deleted_before([term.partition])
        self.doubtful.pop(f"{OFFSETS}-{term.partition}", None)
        self.on_unloaded(term.groups)

"""Copies the committed offsets of consumer groups to a target that keeps offsets, so that a group
that moves to the target continues there.

Offsets only move forward, and never beyond the mirrored position: the mirror does not reset a group
that already consumes from the target. It skips groups that have members in the target.

The target never saw members of these groups, so committed offsets that stay the same would expire.
The mirror commits them again once a day and at its start, because one with `--once` runs for less
than a day.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from appliance.client.errors import BrokerRefused
from appliance.mirror.site import GROUP, Site, TopicPartition
from appliance.process import event_log, patterns
from appliance.protocol import ErrorCode
from appliance.protocol.messages.list_groups import API as LIST_GROUPS
from appliance.protocol.messages.list_groups import ListGroupsRequest
from appliance.protocol.messages.offset_commit import API as OFFSET_COMMIT
from appliance.protocol.messages.offset_commit import OffsetCommitRequest
from appliance.protocol.messages.offset_fetch import API as OFFSET_FETCH
from appliance.protocol.messages.offset_fetch import OffsetFetchRequest

log = event_log.named("mirror")

OF_ONE_GROUP = 7  # the last version of OffsetFetch with one group per request
BY_NAME = 9  # the last version of OffsetCommit that names topics
NOT_COMMITTED = -1
FRESH_S = 86_400.0
ITS_OWN = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.STALE_MEMBER_EPOCH}
NOT_NOW = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
    ErrorCode.GROUP_ID_NOT_FOUND,
}


class Committed(NamedTuple):
    offset: int
    metadata: str


Offsets = dict[TopicPartition, Committed]


class GroupOffsets:
    def __init__(
        self,
        source: Site,
        target: Site,
        pattern: str,
        refreshed: dict[str, float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source, self._target = source, target
        self._clock = clock
        self._pattern = patterns.compiled(pattern)
        self._left_alone: set[str] = set()  # already logged
        self._copied: dict[str, Offsets] = {}
        self._refreshed = refreshed  # by group, when all was committed last; outlives this object

    def copy(self, positions: Mapping[TopicPartition, int]) -> None:
        """`positions` are the mirrored ones. An error of one group does not stop the others."""
        for group in self._groups():
            try:
                self._copy_one(group, positions)
            except BrokerRefused as error:
                for site in (self._source, self._target):
                    site.forget_coordinator(group, GROUP)
                if ErrorCode(error.kafka_code) in ITS_OWN:
                    self._leave_alone(group, error)
                elif ErrorCode(error.kafka_code) not in NOT_NOW:
                    log.warning("a group's offsets are not copied", group=group, error=error)

    def _leave_alone(self, group: str, error: BrokerRefused) -> None:
        self._refreshed[group] = self._clock()  # members keep the offsets from expiring
        if group not in self._left_alone:
            self._left_alone.add(group)
            log.info("a group has members in the target: its offsets are its own", group=group)

    def _groups(self) -> list[str]:
        found: set[str] = set()
        for broker in [*self._source.brokers]:
            answer = self._source.ask(LIST_GROUPS, ListGroupsRequest(), broker)
            if answer.error_code:
                continue  # the coordinator is loading; the next look retries
            found.update(each.group_id for each in answer.groups)
        return sorted(each for each in found if self._pattern.fullmatch(each))

    def _copy_one(self, group: str, positions: Mapping[TopicPartition, int]) -> None:
        there = {
            partition: each._replace(offset=min(each.offset, positions[partition]))
            for partition, each in committed(self._source, group).items()
            if partition in positions
        }
        now_s = self._clock()
        is_stale = now_s - self._refreshed.get(group, -math.inf) >= FRESH_S
        if not there or (there == self._copied.get(group) and not is_stale):
            return
        here = committed(self._target, group)
        ahead = {
            partition: each
            for partition, each in there.items()
            if partition not in here or here[partition].offset < each.offset
        }
        still = {
            partition: here[partition]
            for partition, each in there.items()
            if is_stale and partition in here and here[partition].offset == each.offset
        }
        if still or ahead:
            commit(self._target, group, still | ahead)
        if ahead:
            log.info("a group's offsets copied", group=group, partitions=len(ahead))
        self._copied[group] = there
        if is_stale:
            self._refreshed[group] = now_s


def committed(site: Site, group: str) -> Offsets:
    request = OffsetFetchRequest(group_id=group, topics=None)
    answer = site.ask(OFFSET_FETCH, request, site.coordinator(group, GROUP), OF_ONE_GROUP)
    if answer.error_code:
        raise BrokerRefused(answer.error_code, f"offsets of group {group}")
    offsets = {}
    for topic in answer.topics:
        for row in topic.partitions:
            if row.error_code:
                raise BrokerRefused(row.error_code, f"offsets of group {group}")
            if row.committed_offset != NOT_COMMITTED:
                partition = TopicPartition(topic.name, row.partition_index)
                offsets[partition] = Committed(row.committed_offset, row.metadata or "")
    return offsets


def commit(site: Site, group: str, offsets: Offsets) -> None:
    """Commits without being a member; a group that has members refuses."""
    topics: dict[str, OffsetCommitRequest.OffsetCommitRequestTopic] = {}
    for partition, each in offsets.items():
        row = OffsetCommitRequest.OffsetCommitRequestPartition(partition.partition, each.offset)
        row.committed_metadata = each.metadata
        topics.setdefault(
            partition.topic, OffsetCommitRequest.OffsetCommitRequestTopic(partition.topic)
        ).partitions.append(row)
    request = OffsetCommitRequest(group_id=group, topics=[*topics.values()])
    answer = site.ask(OFFSET_COMMIT, request, site.coordinator(group, GROUP), BY_NAME)
    codes = {row.error_code for topic in answer.topics for row in topic.partitions} - {0}
    if codes:
        raise BrokerRefused(codes.pop(), f"commit of group {group} in the target")

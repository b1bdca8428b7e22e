"""What consumer groups have committed, copied as it is: where offsets are kept it means the same in
both clusters, so that a group that moves over goes on where it was.

Only forward, and never beyond what is mirrored: a group that has moved already, and goes on in the
target, is not set back, and none is sent to an offset that is not there yet. A group with members
in the target has its own say; it is left alone.

What nobody commits for long expires where a group never had members, and in the target it had none:
so what stands still is committed again once a day, and when a mirror begins: one that runs `--once`
is never there for a day.
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

OF_ONE_GROUP = 7  # the last version of OffsetFetch that asks for one group
BY_NAME = 9  # of OffsetCommit
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
        self._left_alone: set[str] = set()  # said so already
        self._copied: dict[str, Offsets] = {}
        self._refreshed = refreshed  # when, by group: for longer than this lives

    def copy(self, positions: Mapping[TopicPartition, int]) -> None:
        """`positions`: what is mirrored, and up to where. One group holds up no other."""
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
        self._refreshed[group] = self._clock()  # nothing of it expires
        if group not in self._left_alone:
            self._left_alone.add(group)
            log.info("a group has members in the target: its offsets are its own", group=group)

    def _groups(self) -> list[str]:
        found: set[str] = set()
        for broker in [*self._source.brokers]:
            answer = self._source.ask(LIST_GROUPS, ListGroupsRequest(), broker)
            if answer.error_code:
                continue  # it is still loading: at the next look
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
    """All that the group has committed."""
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
    """As one who is no member: a group that has members refuses."""
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

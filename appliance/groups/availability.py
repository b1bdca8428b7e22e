"""Which groups are served.

None is before `__consumer_offsets` was read. After that all are, but for those of partitions that
cannot be opened: all of a group stands in one partition of it.
"""

from __future__ import annotations

from typing import Protocol

from appliance.groups.states import GroupRefused
from appliance.protocol import ErrorCode
from appliance.topics.internal_topic import partition_of
from appliance.topics.topic import OFFSETS, Topic, TopicUnavailable


class OffsetsTopicView(Protocol):
    def offsets_topic(self) -> Topic | None:
        """None before the first use."""
        ...


class Availability:
    def __init__(self, topics: OffsetsTopicView) -> None:
        self.fault = ""  # why no group is served, or some are not; for people
        self.unread: frozenset[int] = frozenset()  # partitions whose groups are not known yet
        self._topics = topics
        self._refusal: GroupRefused | None = None
        self.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the group coordinator has not started")

    def refuse(self, code: ErrorCode, why: str) -> None:
        """All groups, from now on."""
        self._refusal = GroupRefused(code, why)

    def serve(self) -> None:
        self._refusal = None

    @property
    def is_loaded(self) -> bool:
        """Groups are served; some may not be."""
        return self._refusal is None

    @property
    def is_whole(self) -> bool:
        """All groups are served."""
        return self._refusal is None and not self.unread

    def check_loaded(self) -> None:
        if self._refusal is not None:
            raise self._refusal

    def check(self, group_id: str) -> None:
        """Whether what there is of this group is known."""
        self.check_loaded()
        topic = self._topics.offsets_topic() if self.unread else None
        if topic is None:
            return
        try:
            self.check_read(partition_of(group_id, len(topic.logs)))
        except TopicUnavailable as error:
            text = f"group {group_id}: {error}"
            raise GroupRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, text) from None

    def check_named(self, group_id: str) -> None:
        """The same where a group without a name is refused."""
        self.check(group_id)
        if not group_id:
            raise GroupRefused(ErrorCode.INVALID_GROUP_ID, "the group's id is empty")

    def check_read(self, partition: int) -> None:
        """Of `__consumer_offsets`: raises until it is known what groups have there."""
        if partition in self.unread:
            raise TopicUnavailable(f"{OFFSETS}-{partition} is not served, or is not read yet")

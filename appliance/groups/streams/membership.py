"""Members of streams groups come in: their groups are found, made, and restored at a start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from appliance.config import StreamsGroupsConfig
from appliance.groups.group import Group
from appliance.groups.group_table import AnyGroup, GroupTable, check_alive
from appliance.groups.modern_group import Done, Terms, TopicView
from appliance.groups.states import GroupRefused
from appliance.groups.streams.group import ASSIGNOR, StreamsGroup
from appliance.groups.streams.member import Beat, Beaten
from appliance.groups.streams.records import StoredStreamsGroup
from appliance.protocol import ErrorCode
from appliance.topics.internal_topic import Record


class Topics(TopicView, Protocol):
    """What there is to read, and what was set for a group."""

    def streams_group_config(self, group_id: str) -> StreamsGroupsConfig: ...


class StreamsMembership:
    def __init__(self, table: GroupTable, topics: Topics) -> None:
        self._table = table
        self._topics = topics

    def heartbeat(
        self, group_id: str, asked: Beat, now_ms: int, answer: Callable[[Beaten], None]
    ) -> None:
        table = self._table
        table.availability.check(group_id)
        names = asked.member_id, asked.rack_id, asked.process_id
        table.weights.check_member(group_id, asked.member_id, asked.size, *names)
        before = table.groups.get(group_id)
        group = self._find_or_make(group_id, before, asked.is_joining)
        group.beat(asked, now_ms, answer)
        if group is not before and asked.member_id in group.members:
            table.adopt(group)
            if isinstance(before, Group):
                before.disband()
        if group is table.groups.get(group_id):
            table.arm(group)

    def _find_or_make(
        self, group_id: str, known: AnyGroup | None, may_make: bool
    ) -> StreamsGroup:
        """A group of the classic protocol without members takes that of its next member: so does an
        application that comes from there, with its offsets."""
        if known is not None:
            check_alive(known)
        if isinstance(known, StreamsGroup):
            return known
        is_free = known is None or (isinstance(known, Group) and not known.members)
        if not may_make or not is_free:
            what = "is not a streams group" if known else "not found"
            raise GroupRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}.")
        group = self._make(group_id)
        if known is not None:
            group.supersede(known.tombstones())
        return group

    def _make(self, group_id: str) -> StreamsGroup:
        def config() -> StreamsGroupsConfig:
            return self._topics.streams_group_config(group_id)

        def terms() -> Terms:
            own = config()
            return Terms(
                own.session_timeout_ms, own.heartbeat_interval_ms, own.max_size, (ASSIGNOR,)
            )

        def store(records: list[Record], done: Done) -> None:
            self._table.store(group, records, done)

        group = StreamsGroup(group_id, terms, self._topics, store, config=config)
        return group

    def get(self, group_id: str) -> StreamsGroup:
        group = self._table.get(group_id)
        if not isinstance(group, StreamsGroup):
            raise GroupRefused(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group."
            )
        return group

    def restore(self, group_id: str, stored: StoredStreamsGroup, now_ms: int) -> None:
        if stored.epoch is not None and group_id not in self._table.groups:
            group = self._make(group_id)
            group.restore(stored, now_ms)
            self._table.adopt(group)

"""How far groups of consumers are in what they read, for the lag (`lag.py`)."""

from __future__ import annotations

from collections.abc import Collection

from appliance.groups.group_table import OF_CONSUMERS, ConsumersGroup, GroupTable
from appliance.groups.lag import GroupProgress
from appliance.groups.mixed_group import MixedGroup
from appliance.groups.modern_group import TopicView
from appliance.groups.streams.group import StreamsGroup
from appliance.groups.subscribed_partitions import subscribed_partitions


class ConsumerProgress:
    def __init__(self, table: GroupTable, topics: TopicView) -> None:
        self._table = table
        self._topics = topics

    def groups_that_read(self) -> Collection[str]:
        with_members = {each.id for each in self._table.groups.values() if each.members}
        return with_members.union(self._table.offsets.groups())

    def progress(self, group_id: str) -> GroupProgress | None:
        """None: there is no such group of consumers."""
        group = self._table.groups.get(group_id)
        if not isinstance(group, OF_CONSUMERS) or group.is_dead:
            return None
        own = self._table.offsets.of_group(group_id)
        offsets = {place: each.value.offset for place, each in own.items()}
        return GroupProgress(_protocol(group), offsets, subscribed_partitions(group, self._topics))


def _protocol(group: ConsumersGroup) -> str:
    if isinstance(group, StreamsGroup):
        return "streams"
    return "consumer" if isinstance(group, MixedGroup) else "classic"

"""Members of the newer protocol (KIP-848), and groups on their way from one protocol to the other.

The first such member of a classic group takes the group along. Once the last of them is gone, the
members that are left go back to a classic group (`mixed_group.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from appliance.config import ConsumerGroupsConfig, GroupsConfig
from appliance.errors import ApplianceError
from appliance.groups.consumer_member import JOINING, Beat, Beaten
from appliance.groups.consumer_records import StoredConsumerGroup
from appliance.groups.group import Group
from appliance.groups.group_table import AnyGroup, GroupTable, check_alive
from appliance.groups.mixed_group import MixedGroup
from appliance.groups.modern_group import Done, ModernGroup, Terms, TopicView
from appliance.groups.states import GroupRefused
from appliance.process import event_log
from appliance.protocol import ErrorCode
from appliance.topics.internal_topic import Record

logger = event_log.named("groups")


class Topics(TopicView, Protocol):
    """What there is to read, and what was set for a group."""

    def consumer_group_config(self, group_id: str) -> ConsumerGroupsConfig: ...


class ConsumerMembership:
    def __init__(self, config: GroupsConfig, table: GroupTable, topics: Topics) -> None:
        self._config = config
        self._table = table
        self._topics = topics

    def heartbeat(
        self, group_id: str, asked: Beat, now_ms: int, answer: Callable[[Beaten], None]
    ) -> None:
        table = self._table
        table.availability.check(group_id)
        table.weights.check_beat(group_id, asked)
        before = table.groups.get(group_id)
        group = self._find_or_make(group_id, before, asked.epoch == JOINING, now_ms)
        group.beat(asked, now_ms, answer)
        if group is not before and asked.member_id in group.members:
            table.adopt(group)
            if isinstance(before, Group):
                before.disband()
        if group is table.groups.get(group_id):
            table.arm(group)

    def _find_or_make(
        self, group_id: str, known: AnyGroup | None, may_make: bool, now_ms: int
    ) -> MixedGroup:
        if known is not None:
            check_alive(known)
        if isinstance(known, MixedGroup):
            return known
        if not may_make or isinstance(known, ModernGroup):
            what = "is not a consumer group" if known else "not found"
            raise GroupRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}.")
        group = self._make(group_id)
        if known is not None:
            group.supersede(known.tombstones())
            if known.members:
                self._check_upgrade(group_id)
                group.take_over(known, now_ms)
        return group

    def _check_upgrade(self, group_id: str) -> None:
        config = self._topics.consumer_group_config(group_id)
        if not config.may_upgrade:
            raise GroupRefused(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"Group {group_id} is not a consumer group, and group.consumer.migration.policy is "
                f"{config.migration_policy}.",
            )

    def _maybe_downgrade(self, group: MixedGroup) -> None:
        """Once the last member of the newer protocol is gone."""
        config = self._topics.consumer_group_config(group.id)
        has_room = len(group.members) <= self._config.max_size
        if not (group.is_to_go_back and config.may_downgrade and has_room):
            return
        logger.info("a group goes back to the older protocol", group=group.id)
        older = self._table.make(group.id)
        older.superseded = group.tombstones()
        group.give_back(older, time.monotonic_ns() // 1_000_000)
        # nobody waits: what failed is written with the next, or a restart finds it as it was
        older.store(older.record(), lambda error, _: None)
        self._table.arm(older)

    def _make(self, group_id: str) -> MixedGroup:
        def terms() -> Terms:
            config = self._topics.consumer_group_config(group_id)
            return Terms(
                config.session_timeout_ms,
                config.heartbeat_interval_ms,
                config.max_size,
                tuple(config.assignors.split(",")),
            )

        def store(records: list[Record], done: Done) -> None:
            def stored(error: ApplianceError | None) -> None:
                done(error)
                if self._table.availability.is_loaded:
                    self._maybe_downgrade(group)

            self._table.store(group, records, stored)

        group = MixedGroup(group_id, terms, self._topics, store)
        return group

    def restore(self, group_id: str, stored: StoredConsumerGroup, now_ms: int) -> None:
        # Where both have records, the older kind came later: a group that changes to the newer one
        # takes the other's away in the same write.
        if stored.epoch is not None and group_id not in self._table.groups:
            group = self._make(group_id)
            group.restore(stored, now_ms)
            self._table.adopt(group)
            self._maybe_downgrade(group)

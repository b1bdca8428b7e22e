"""Members of the classic protocol: they join a group, sync, send heartbeats and leave.

Nobody is waited for here: JoinGroup and SyncGroup get an `answer` to call, at once or when the
other members, or the disk, are ready.
"""

from __future__ import annotations

from appliance.config import GroupsConfig
from appliance.groups.group_table import FOR_CLASSIC, GroupTable
from appliance.groups.member import AnswerJoin, AnswerSync, Join, Sync
from appliance.groups.mixed_group import MixedGroup
from appliance.groups.states import GroupRefused
from appliance.groups.streams.group import StreamsGroup
from appliance.protocol import ErrorCode


class ClassicMembership:
    def __init__(self, config: GroupsConfig, table: GroupTable) -> None:
        self._config = config
        self._table = table
        self._check = table.availability.check_named

    def join(self, group_id: str, asked: Join, now_ms: int, answer: AnswerJoin) -> None:
        self._check(group_id)
        config = self._config
        if not config.min_session_ms <= asked.session_timeout_ms <= config.max_session_ms:
            raise GroupRefused(
                ErrorCode.INVALID_SESSION_TIMEOUT,
                f"group {group_id}: got a session timeout of {asked.session_timeout_ms} ms, wanted "
                f"{config.min_session_ms} to {config.max_session_ms}",
            )
        table = self._table
        names = (asked.member_id, asked.instance_id, asked.protocol_type)
        table.weights.check_member(group_id, asked.member_id, asked.size, *names)
        self._give_up_empty(group_id)
        known = table.groups.get(group_id)
        if known is not None and not isinstance(known, FOR_CLASSIC):
            raise GroupRefused(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"group {group_id} is not one of consumers"
            )
        if known is None and not asked.member_id:
            table.make(group_id)
        group = table.of_member(group_id)
        group.join(asked, now_ms, answer)
        table.arm(group)

    def _give_up_empty(self, group_id: str) -> None:
        """A group without members takes the protocol of whoever comes next."""
        group = self._table.groups.get(group_id)
        if not isinstance(group, (MixedGroup, StreamsGroup)) or not group.is_empty:
            return
        self._table.make(group_id)
        # should this fail, a restart finds a group without members, or the other kind's records
        self._table.topic.write(group_id, group.tombstones(), lambda error, _: None)

    def sync(self, group_id: str, asked: Sync, now_ms: int, answer: AnswerSync) -> None:
        self._check(group_id)
        group = self._table.of_member(group_id)
        size = sum(map(len, asked.assignments.values()))
        self._table.weights.check(group_id, size - group.weight)
        group.sync(asked, now_ms, answer)
        self._table.arm(group)

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int, now_ms: int
    ) -> None:
        self._check(group_id)
        self._table.of_member(group_id).heartbeat(member_id, instance_id, generation, now_ms)

    def leave(self, group_id: str, member_id: str, instance_id: str | None, now_ms: int) -> None:
        self._check(group_id)
        group = self._table.of_member(group_id)
        group.leave(member_id, instance_id, now_ms)
        self._table.arm(group)

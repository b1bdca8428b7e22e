"""How much groups make the broker keep: their names, members and offsets, in bytes of memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from appliance.access.kept_per_address import Kept, check_name
from appliance.errors import RequestInvalid
from appliance.groups.consumer_member import Beat
from appliance.groups.group import Group
from appliance.groups.modern_group import ModernGroup
from appliance.groups.offsets import Offsets
from appliance.groups.states import GroupRefused
from appliance.protocol import ErrorCode

SHOWN_MAX = 100  # characters of a group's name that an error repeats


@dataclass(eq=False)
class GroupWeights:
    _groups: Mapping[str, Group | ModernGroup]
    _offsets: Offsets
    _kept: Kept
    _member_max_bytes: int
    # of modern groups: epoch, bytes
    _of_epoch: dict[str, tuple[int, int]] = field(default_factory=dict)

    def check(self, group_id: str, more_bytes: int = 0) -> None:
        """Before a group is made, or grows by so much."""
        if group_id not in self._groups:
            try:
                check_name("group", group_id)
            except RequestInvalid as error:
                raise GroupRefused(ErrorCode.INVALID_GROUP_ID, str(error)) from error
            more_bytes += len(group_id)
        self._kept.check(group_id, more_bytes)

    def check_beat(self, group_id: str, asked: Beat) -> None:
        names = (asked.member_id, asked.instance_id, asked.rack_id, asked.assignor)
        self.check_member(group_id, asked.member_id, asked.size, *names)

    def check_member(self, group_id: str, member_id: str, size: int, *names: str | None) -> None:
        for each in names:
            check_name(f"member of group {group_id[:SHOWN_MAX]}", each)
        if size > self._member_max_bytes:
            raise RequestInvalid(
                f"group {group_id[:SHOWN_MAX]}: got a member of {size} bytes, wanted at most "
                f"{self._member_max_bytes} (group.member.max.bytes)"
            )
        group = self._groups.get(group_id)
        self.check(group_id, size - (group.weight_of(member_id) if group else 0))

    def weigh(self, group_id: str) -> None:
        """After whatever may have changed how much there is of it."""
        group = self._groups.get(group_id)
        if group is None:
            self._kept.drop(group_id)
            self._of_epoch.pop(group_id, None)
            return
        members = self._weight(group) if isinstance(group, ModernGroup) else group.weight
        self._kept.put(group_id, len(group_id) + members + self._offsets.bytes_of(group_id))

    def forget_epoch(self, group_id: str) -> None:
        """Another group has that name now."""
        self._of_epoch.pop(group_id, None)

    def _weight(self, group: ModernGroup) -> int:
        """The weight of a member is looked up for all of them, which only a new epoch needs."""
        epoch, weight = self._of_epoch.get(group.id, (-1, 0))
        if epoch != group.epoch:
            weight = group.weight
            self._of_epoch[group.id] = group.epoch, weight
        return weight

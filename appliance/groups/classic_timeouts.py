"""Timeouts of a classic group: who is silent for too long, or does not join or sync, is out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from appliance.groups.member import NEVER_MS, Member
from appliance.protocol import ErrorCode

if TYPE_CHECKING:
    from appliance.groups.group import Group, Rebalance

# Sessions end up to so much late: a thousand members that die together are a few looks at all of
# them, not a thousand.
SESSION_GRAIN_MS = 100


def tick(group: Group, now_ms: int) -> None:
    """Whatever is over by now. Cheap when nothing is."""
    if group.rebalance and group.rebalance.deadline_ms <= now_ms:
        _join_time_is_over(group, group.rebalance, now_ms)
    _put_out(group, [each for each in group.members if each.is_late(now_ms)], now_ms)
    if group.sync_deadline_ms <= now_ms:
        _put_out(group, [each for each in group.members if each.id in group.unsynced], now_ms)
    for member_id in [name for name, end_ms in group.named.items() if end_ms <= now_ms]:
        del group.named[member_id]
        group.complete_join(now_ms)
    group.due_ms = min(_deadlines(group, now_ms), default=NEVER_MS)


def _join_time_is_over(group: Group, rebalance: Rebalance, now_ms: int) -> None:
    if rebalance.has_newcomer and rebalance.left_ms > 0:
        wait_ms = min(group.config.initial_rebalance_delay_ms, rebalance.left_ms)
        rebalance.has_newcomer = False
        rebalance.left_ms -= wait_ms
        rebalance.deadline_ms = now_ms + wait_ms
        return
    for member in [each for each in group.members if each.join is None]:
        if member.instance_id is None:
            group.remove(member, ErrorCode.UNKNOWN_MEMBER_ID)
    if group.members and not group.members.joining:
        # Static members only, none of which is back: each has until the end of its session.
        rebalance.deadline_ms = now_ms + group.members.rebalance_timeout_ms()
        return
    group.begin_generation(now_ms)


def _put_out(group: Group, late: list[Member], now_ms: int) -> None:
    for member in late:
        group.remove(member, ErrorCode.UNKNOWN_MEMBER_ID)
    if late:
        group.begin_rebalance(now_ms)


def _deadlines(group: Group, now_ms: int) -> Iterable[int]:
    if group.rebalance:
        yield group.rebalance.deadline_ms
    yield group.sync_deadline_ms
    yield from group.named.values()
    for member in group.members:
        # one that is parked past its deadline is looked at again when it is answered
        if member.deadline_ms > now_ms:
            yield max(member.deadline_ms, now_ms + SESSION_GRAIN_MS)


def postpone(group: Group, by_ms: int, now_ms: int) -> None:
    """The process stood still so long: signs of life wait unread, and nobody is late yet."""
    for member in group.members:
        grace_ms = min(by_ms, member.session_timeout_ms)
        member.deadline_ms = max(member.deadline_ms, now_ms + grace_ms)

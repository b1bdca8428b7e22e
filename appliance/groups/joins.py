"""JoinGroup: how a member of the classic protocol enters a group, and joins again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.groups import consumer_protocol
from appliance.groups.consumer_protocol import CONSUMER
from appliance.groups.member import AnswerJoin, Join, Joined, Member
from appliance.groups.states import GroupRefused, State
from appliance.protocol import ErrorCode

if TYPE_CHECKING:
    from appliance.groups.group import Group

# How long a member that never had an answer is kept: long enough for any rebalance, short enough
# for the leftovers of a client that joins again and again. Kafka's number.
NEW_MEMBER_JOIN_MS = 300_000


def join(group: Group, asked: Join, now_ms: int, answer: AnswerJoin) -> None:
    try:
        _check_protocols(group, asked)
        if asked.member_id in group.named:
            _check_instance(group, asked)
            del group.named[asked.member_id]
            _add(group, asked.member_id, asked, now_ms, answer)
        elif asked.member_id:
            member = group.members.find(asked.member_id, asked.instance_id)
            _rejoin(group, member, asked, now_ms, answer)
        else:
            _join_new(group, asked, now_ms, answer)
    except GroupRefused as error:
        answer(Joined(error.kafka_code, asked.member_id))


def _check_instance(group: Group, asked: Join) -> None:
    """An id is given to those that are no instance. Who has one takes the place of its former
    self without one; with one it would be two members of the same instance."""
    holder = group.members.static.get(asked.instance_id or "")
    if holder is not None:
        raise GroupRefused(
            ErrorCode.FENCED_INSTANCE_ID,
            f"group {group.id}: instance {asked.instance_id} is member {holder}, "
            f"not {asked.member_id!r}",
        )


def _check_protocols(group: Group, asked: Join) -> None:
    """One protocol at least must be everybody's; a group without members takes any."""
    names = [name for name, _ in asked.protocols]
    is_known = bool(asked.protocol_type and names)
    if is_known and group.members:
        is_common = not group.members.common_protocols().isdisjoint(names)
        is_known = asked.protocol_type == group.protocol_type and is_common
    if not is_known:
        raise GroupRefused(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"group {group.id} has protocol type {group.protocol_type} and the protocols "
            f"{sorted(group.members.common_protocols())}, got {asked.protocol_type} and {names}",
        )


def _join_new(group: Group, asked: Join, now_ms: int, answer: AnswerJoin) -> None:
    if asked.instance_id in group.members.static:
        _replace(group, asked, now_ms, answer)
        return
    count, most = len(group.members) + len(group.named), group.config.max_size
    if count >= most:
        raise GroupRefused(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"group {group.id} has {count} members, wanted at most {most} (group.max.size)",
        )
    if asked.needs_member_id and asked.instance_id is None:
        group.named[asked.new_member_id] = group.due_at(now_ms + asked.session_timeout_ms)
        answer(Joined(ErrorCode.MEMBER_ID_REQUIRED, asked.new_member_id))
        return
    _add(group, asked.new_member_id, asked, now_ms, answer)


def _add(group: Group, member_id: str, asked: Join, now_ms: int, answer: AnswerJoin) -> None:
    member = Member(member_id, asked.instance_id)
    group.members.enter(member, asked)
    member.deadline_ms = group.due_at(now_ms + NEW_MEMBER_JOIN_MS)
    group.protocol_type = asked.protocol_type
    group.members.park_join(member, answer)
    if group.rebalance:
        group.rebalance.has_newcomer = True
    group.begin_rebalance(now_ms)


def _rejoin(group: Group, member: Member, asked: Join, now_ms: int, answer: AnswerJoin) -> None:
    is_same = list(member.protocols) == list(asked.protocols)
    must_wait = group.state is State.PREPARING_REBALANCE
    if group.state is State.STABLE:
        # the leader joins again when it saw topics or partitions come and go
        must_wait = member.id == group.members.leader_id or not is_same
    elif group.state is State.COMPLETING_REBALANCE:
        must_wait = not is_same  # else the answer was lost on its way
    if must_wait:
        group.members.take(member, asked)
        group.members.park_join(member, answer)
        group.begin_rebalance(now_ms)
        return
    group.touch(member, now_ms)
    answer(group.joined(member))


def _replace(group: Group, asked: Join, now_ms: int, answer: AnswerJoin) -> None:
    """A static member was restarted: it takes the place of its former self. In a Stable group
    nothing else changes, as long as it wants what it wanted before."""
    assert asked.instance_id is not None
    leader_before, old = group.members.leader_id, group.members.of_instance(asked.instance_id)
    was_unsynced = old.id in group.unsynced
    group.remove(old, ErrorCode.FENCED_INSTANCE_ID)
    member = Member(asked.new_member_id, asked.instance_id)
    member.assignment, member.is_new = old.assignment, False
    group.members.enter(member, asked)
    if leader_before == old.id:
        group.members.leader_id = member.id
    if was_unsynced:
        group.unsynced.add(member.id)
    group.touch(member, now_ms)
    if group.state is not State.STABLE or not _wants_the_same(group, old, member):
        group.members.park_join(member, answer)
        group.begin_rebalance(now_ms)
        return
    joined = group.joined(member)
    if joined.leader == member.id and not asked.may_skip_assignment:
        # Older clients would assign again, and nobody would hear of it: they are told that
        # somebody else leads, which is their own former self.
        joined = joined._replace(leader=leader_before or "", members=())
    joined = joined._replace(skip_assignment=joined.leader == member.id)
    group.store(
        group.record(),
        lambda error, _: answer(Joined(error.kafka_code, member.id) if error else joined),
    )


def _wants_the_same(group: Group, old: Member, new: Member) -> bool:
    if group.members.select_protocol() != group.protocol_name:
        return False
    if group.protocol_type != CONSUMER:
        return True
    before, after = old.metadata(group.protocol_name), new.metadata(group.protocol_name)
    return consumer_protocol.topics(before) == consumer_protocol.topics(after)

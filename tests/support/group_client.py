"""A member of a group that says exactly what it is told to, over the control plane."""

from __future__ import annotations

from typing import Any

from appliance.protocol.messages.heartbeat import HeartbeatRequest
from appliance.protocol.messages.join_group import JoinGroupRequest
from appliance.protocol.messages.leave_group import LeaveGroupRequest
from appliance.protocol.messages.offset_commit import OffsetCommitRequest
from appliance.protocol.messages.offset_fetch import OffsetFetchRequest
from appliance.protocol.messages.sync_group import SyncGroupRequest
from tests.support.control import Control, Sent

SESSION_MS = 45_000


def subscription(*topics: str) -> bytes:
    """Version 0, as consumers write it."""
    names = b"".join(len(each).to_bytes(2, "big") + each.encode() for each in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


class GroupClient:
    """Remembers its id and generation as a consumer does."""

    def __init__(
        self,
        control: Control,
        group: str = "g",
        *,
        instance: str | None = None,
        protocols: dict[str, bytes] | None = None,
        protocol_type: str = "consumer",
    ) -> None:
        self.control = control
        self.group = group
        self.instance = instance
        self.protocols = protocols or {"range": subscription("t")}
        self.protocol_type = protocol_type
        self.id = ""
        self.generation = -1
        self.is_leader = False

    def send_join(self, version: int = 9) -> Sent:
        rows = [
            JoinGroupRequest.JoinGroupRequestProtocol(name, data)
            for name, data in self.protocols.items()
        ]
        asked = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=60_000,
            member_id=self.id,
            group_instance_id=self.instance,
            protocol_type=self.protocol_type,
            protocols=rows,
        )
        return self.control.send(asked, version)

    def joined(self, sent: Sent) -> Any:
        """The answer, after the one that gives a new member its id."""
        answer = self.control.answer(sent)
        if answer.error_code == 79:
            self.id = answer.member_id
            answer = self.control.answer(self.send_join(sent.version))
        if not answer.error_code:
            self.id, self.generation = answer.member_id, answer.generation_id
            self.is_leader = answer.leader == self.id
        return answer

    def join(self, version: int = 9) -> Any:
        return self.joined(self.send_join(version))

    def send_sync(self, version: int = 5, **assignments: bytes) -> Sent:
        rows = [
            SyncGroupRequest.SyncGroupRequestAssignment(member_id.replace("_", "-"), data)
            for member_id, data in assignments.items()
        ]
        asked = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.id,
            group_instance_id=self.instance if version >= 3 else None,
            protocol_type=self.protocol_type if version >= 5 else None,
            assignments=rows,
        )
        return self.control.send(asked, version)

    def sync(self, version: int = 5, **assignments: bytes) -> Any:
        return self.control.answer(self.send_sync(version, **assignments))

    def enter(self, version: int = 9) -> None:
        """As the only member: joined, assigned, Stable."""
        assert self.join(version).error_code == 0
        assert self.sync(**{self.id: b"all"}).error_code == 0

    def heartbeat(self, version: int = 4) -> int:
        asked = HeartbeatRequest(
            self.group, self.generation, self.id, self.instance if version >= 3 else None
        )
        return int(self.control.ask(asked, version).error_code)

    def leave(self, version: int = 5) -> Any:
        member = LeaveGroupRequest.MemberIdentity(self.id, self.instance)
        asked = LeaveGroupRequest(group_id=self.group, member_id=self.id, members=[member])
        return self.control.ask(asked, version)

    def send_commit(
        self,
        *offsets: int,
        topic: str = "t",
        metadata: str | None = "",
        version: int = 9,
        **facts: Any,
    ) -> Sent:
        """One offset a partition, from 0 on."""
        rows = [
            OffsetCommitRequest.OffsetCommitRequestPartition(i, offset, -1, metadata)
            for i, offset in enumerate(offsets)
        ]
        found = self.control.broker.topics.get(topic)
        row = OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=rows)
        if found and version >= 10:
            row.topic_id = found.id
        asked = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.id,
            group_instance_id=self.instance if version >= 7 else None,
            topics=[row],
            **facts,
        )
        return self.control.send(asked, version)

    def commit(self, *offsets: int, **facts: Any) -> list[int]:
        """The error of each partition."""
        (topic,) = self.control.answer(self.send_commit(*offsets, **facts)).topics
        return [each.error_code for each in topic.partitions]


def fetch_offsets(
    control: Control,
    group: str,
    topics: dict[str, list[int]] | None,
    version: int = 9,
    **facts: Any,
) -> Any:
    """The answer for one group, by versions from 8 on as by those before."""
    if version < 8:
        old = OffsetFetchRequest.OffsetFetchRequestTopic
        rows = None if topics is None else [old(name, parts) for name, parts in topics.items()]
        return control.ask(OffsetFetchRequest(group_id=group, topics=rows, **facts), version)
    new = OffsetFetchRequest.OffsetFetchRequestTopics
    rows = None
    if topics is not None:
        rows = [new(name=name, partition_indexes=parts) for name, parts in topics.items()]
        for each in rows if version >= 10 else ():
            each.topic_id = control.broker.topics[each.name].id
    asked = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=rows)
    (answer,) = control.ask(OffsetFetchRequest(groups=[asked], **facts), version).groups
    return answer


def committed(control: Control, group: str = "g", version: int = 9, **facts: Any) -> dict[Any, int]:
    """All that the group committed: offsets by topic and partition."""
    answer = fetch_offsets(control, group, None, version, **facts)
    return {
        (topic.name, each.partition_index): each.committed_offset
        for topic in answer.topics
        for each in topic.partitions
    }

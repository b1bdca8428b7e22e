"""A member of a consumer group by the classic protocol, which most clients use.

The leader gives each member every n-th partition.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from appliance.protocol import ErrorCode
from appliance.protocol.messages.heartbeat import API as HEARTBEAT
from appliance.protocol.messages.heartbeat import HeartbeatRequest
from appliance.protocol.messages.join_group import API as JOIN_GROUP
from appliance.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from appliance.protocol.messages.leave_group import API as LEAVE_GROUP
from appliance.protocol.messages.leave_group import LeaveGroupRequest
from appliance.protocol.messages.offset_commit import API as OFFSET_COMMIT
from appliance.protocol.messages.offset_commit import OffsetCommitRequest
from appliance.protocol.messages.offset_fetch import API as OFFSET_FETCH
from appliance.protocol.messages.offset_fetch import OffsetFetchRequest
from appliance.protocol.messages.sync_group import API as SYNC_GROUP
from appliance.protocol.messages.sync_group import SyncGroupRequest
from loadtest.broker import checked
from loadtest.connection import Connection

SESSION_MS = 45_000  # the default of clients
REBALANCE_MS = 60_000
JOIN_TIMEOUT_MS = 90_000.0  # the response of a join may take a whole rebalance
PROTOCOL_TYPE, PROTOCOL = "consumer", "every-nth"
HEAD_VERSION = struct.Struct(">h")
COUNT = struct.Struct(">i")
NO_USER_DATA = COUNT.pack(-1)

# After these errors a member joins again and continues.
REJOIN = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
    }
)


def text(value: str) -> bytes:
    data = value.encode()
    return HEAD_VERSION.pack(len(data)) + data


def subscription(topic: str) -> bytes:
    return HEAD_VERSION.pack(0) + COUNT.pack(1) + text(topic) + NO_USER_DATA


def assignment(topic: str, partitions: list[int]) -> bytes:
    numbers = b"".join(map(COUNT.pack, [len(partitions), *partitions]))
    return HEAD_VERSION.pack(0) + COUNT.pack(1) + text(topic) + numbers + NO_USER_DATA


def assigned(data: bytes | memoryview, topic: str) -> list[int]:
    """The partitions of an assignment from `assignment`."""
    at = HEAD_VERSION.size + COUNT.size + len(text(topic))
    if len(data) < at + COUNT.size:
        return []  # a member that was too late for this generation
    (count,) = COUNT.unpack_from(data, at)
    return list(struct.unpack_from(f">{count}i", data, at + COUNT.size))


class Member:
    def __init__(self, group: str, topic: str, partitions: int) -> None:
        self.group, self.topic, self.partitions = group, topic, partitions
        self.id, self.generation = "", -1

    def forget(self, code: int) -> None:
        """After an error of `REJOIN`."""
        self.generation = -1
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.id = ""

    def enter(self, connection: Connection) -> list[int]:
        """Joins, and returns the partitions of this member."""
        joined = self._join(connection)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.id = joined.member_id
            joined = self._join(connection)
        checked(joined.error_code, f"group {self.group}: join")
        self.id, self.generation = joined.member_id, joined.generation_id
        return self._sync(connection, joined)

    def _join(self, connection: Connection) -> JoinGroupResponse:
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(PROTOCOL, subscription(self.topic))
        asked = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[protocol],
        )
        found = connection.ask(JOIN_GROUP, asked, JOIN_TIMEOUT_MS)
        assert isinstance(found, JoinGroupResponse)
        return found

    def _sync(self, connection: Connection, joined: JoinGroupResponse) -> list[int]:
        ids = sorted(each.member_id for each in joined.members)  # only the leader gets the list
        rows = [
            SyncGroupRequest.SyncGroupRequestAssignment(
                each, assignment(self.topic, list(range(i, self.partitions, len(ids))))
            )
            for i, each in enumerate(ids)
        ]
        asked = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=PROTOCOL,
            assignments=rows,
        )
        found = connection.ask(SYNC_GROUP, asked, JOIN_TIMEOUT_MS)
        checked(found.error_code, f"group {self.group}: sync")
        return assigned(found.assignment, self.topic)

    def heartbeat(self, connection: Connection) -> None:
        asked = HeartbeatRequest(self.group, self.generation, self.id)
        checked(connection.ask(HEARTBEAT, asked).error_code, f"group {self.group}: heartbeat")

    def committed(self, connection: Connection, partitions: list[int]) -> dict[int, int]:
        """-1 without a commit."""
        row = OffsetFetchRequest.OffsetFetchRequestTopics(
            name=self.topic, partition_indexes=partitions
        )
        group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=self.group, topics=[row])
        (found,) = connection.ask(OFFSET_FETCH, OffsetFetchRequest(groups=[group])).groups
        checked(found.error_code, f"group {self.group}: offsets")
        return {
            each.partition_index: each.committed_offset
            for topic in found.topics
            for each in topic.partitions
        }

    def commit(self, connection: Connection, offsets: Mapping[int, int]) -> None:
        rows = [
            OffsetCommitRequest.OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset, committed_metadata=""
            )
            for partition, offset in offsets.items()
        ]
        asked = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.id,
            topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name=self.topic, partitions=rows)],
        )
        (topic,) = connection.ask(OFFSET_COMMIT, asked).topics
        for each in topic.partitions:
            checked(each.error_code, f"group {self.group}: commit of {each.partition_index}")

    def leave(self, connection: Connection) -> None:
        member = LeaveGroupRequest.MemberIdentity(self.id)
        asked = LeaveGroupRequest(group_id=self.group, member_id=self.id, members=[member])
        checked(connection.ask(LEAVE_GROUP, asked).error_code, f"group {self.group}: leave")

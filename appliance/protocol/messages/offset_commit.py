"""OffsetCommit: how far a group has read."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from appliance.protocol.types import (
    Api,
    Message,
    Versions,
    array,
    field,
    int16,
    int32,
    int64,
    string,
    uuid,
)

VERSIONS = Versions(2, 10, flexible_from=8)


class OffsetCommitRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class OffsetCommitRequestPartition(Message):
        partition_index: int = field(int32)
        committed_offset: int = field(int64)
        committed_leader_epoch: int = field(int32, "6+", default=-1)
        committed_metadata: str | None = field(string, nullable="0+")

    class OffsetCommitRequestTopic(Message):
        name: str = field(string, "0-9")
        topic_id: UUID = field(uuid, "10+")
        partitions: list[OffsetCommitRequest.OffsetCommitRequestPartition] = field(
            array(lambda: OffsetCommitRequest.OffsetCommitRequestPartition)
        )

    group_id: str = field(string)
    generation_id_or_member_epoch: int = field(int32, default=-1)
    member_id: str = field(string)
    group_instance_id: str | None = field(string, "7+", nullable="7+", default=None)
    retention_time_ms: int = field(int64, "0-4", default=-1)
    topics: list[OffsetCommitRequestTopic] = field(array(OffsetCommitRequestTopic))


class OffsetCommitResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class OffsetCommitResponsePartition(Message):
        partition_index: int = field(int32)
        error_code: int = field(int16)

    class OffsetCommitResponseTopic(Message):
        name: str = field(string, "0-9")
        topic_id: UUID = field(uuid, "10+")
        partitions: list[OffsetCommitResponse.OffsetCommitResponsePartition] = field(
            array(lambda: OffsetCommitResponse.OffsetCommitResponsePartition)
        )

    throttle_time_ms: int = field(int32, "3+")
    topics: list[OffsetCommitResponseTopic] = field(array(OffsetCommitResponseTopic))


API = Api(8, "OffsetCommit", OffsetCommitRequest, OffsetCommitResponse)

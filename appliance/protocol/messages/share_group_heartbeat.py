"""ShareGroupHeartbeat: join, stay in or leave a share group (KIP-932)."""

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
    string,
    uuid,
)

VERSIONS = Versions(1, 1, flexible_from=0)


class ShareGroupHeartbeatRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    group_id: str = field(string)
    member_id: str = field(string)
    member_epoch: int = field(int32)
    rack_id: str | None = field(string, nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = field(array(string), nullable="0+", default=None)


class ShareGroupHeartbeatResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class TopicPartitions(Message):
        topic_id: UUID = field(uuid)
        partitions: list[int] = field(array(int32))

    class Assignment(Message):
        topic_partitions: list[ShareGroupHeartbeatResponse.TopicPartitions] = field(
            array(lambda: ShareGroupHeartbeatResponse.TopicPartitions)
        )

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    member_id: str | None = field(string, nullable="0+", default=None)
    member_epoch: int = field(int32)
    heartbeat_interval_ms: int = field(int32)
    assignment: Assignment | None = field(Assignment, nullable="0+", default=None)


API = Api(76, "ShareGroupHeartbeat", ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse)

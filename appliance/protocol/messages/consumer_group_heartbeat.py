"""ConsumerGroupHeartbeat: join, stay in or leave a consumer group (KIP-848)."""

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

VERSIONS = Versions(0, 1, flexible_from=0)


class ConsumerGroupHeartbeatRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class TopicPartitions(Message):
        topic_id: UUID = field(uuid)
        partitions: list[int] = field(array(int32))

    group_id: str = field(string)
    member_id: str = field(string)
    member_epoch: int = field(int32)
    instance_id: str | None = field(string, nullable="0+", default=None)
    rack_id: str | None = field(string, nullable="0+", default=None)
    rebalance_timeout_ms: int = field(int32, default=-1)
    subscribed_topic_names: list[str] | None = field(array(string), nullable="0+", default=None)
    subscribed_topic_regex: str | None = field(string, "1+", nullable="1+", default=None)
    server_assignor: str | None = field(string, nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = field(
        array(TopicPartitions), nullable="0+", default=None
    )


class ConsumerGroupHeartbeatResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class TopicPartitions(Message):
        topic_id: UUID = field(uuid)
        partitions: list[int] = field(array(int32))

    class Assignment(Message):
        topic_partitions: list[ConsumerGroupHeartbeatResponse.TopicPartitions] = field(
            array(lambda: ConsumerGroupHeartbeatResponse.TopicPartitions)
        )

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    member_id: str | None = field(string, nullable="0+", default=None)
    member_epoch: int = field(int32)
    heartbeat_interval_ms: int = field(int32)
    assignment: Assignment | None = field(Assignment, nullable="0+", default=None)


API = Api(
    68, "ConsumerGroupHeartbeat", ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
)

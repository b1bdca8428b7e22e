"""DescribeTopicPartitions: topics and partitions in pages; a cursor leads to the next."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from appliance.protocol.types import (
    Api,
    Message,
    Versions,
    array,
    boolean,
    field,
    int16,
    int32,
    string,
    uuid,
)

VERSIONS = Versions(0, 0, flexible_from=0)


class DescribeTopicPartitionsRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class TopicRequest(Message):
        name: str = field(string)

    class Cursor(Message):
        topic_name: str = field(string)
        partition_index: int = field(int32)

    topics: list[TopicRequest] = field(array(TopicRequest))
    response_partition_limit: int = field(int32, default=2000)
    cursor: Cursor | None = field(Cursor, nullable="0+", default=None)


class DescribeTopicPartitionsResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class DescribeTopicPartitionsResponsePartition(Message):
        error_code: int = field(int16)
        partition_index: int = field(int32)
        leader_id: int = field(int32)
        leader_epoch: int = field(int32, default=-1)
        replica_nodes: list[int] = field(array(int32))
        isr_nodes: list[int] = field(array(int32))
        eligible_leader_replicas: list[int] | None = field(
            array(int32), nullable="0+", default=None
        )
        last_known_elr: list[int] | None = field(array(int32), nullable="0+", default=None)
        offline_replicas: list[int] = field(array(int32))

    class DescribeTopicPartitionsResponseTopic(Message):
        error_code: int = field(int16)
        name: str | None = field(string, nullable="0+")
        topic_id: UUID = field(uuid)
        is_internal: bool = field(boolean)
        partitions: list[
            DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition
        ] = field(
            array(lambda: DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition)
        )
        topic_authorized_operations: int = field(int32, default=-(2**31))

    class Cursor(Message):
        topic_name: str = field(string)
        partition_index: int = field(int32)

    throttle_time_ms: int = field(int32)
    topics: list[DescribeTopicPartitionsResponseTopic] = field(
        array(DescribeTopicPartitionsResponseTopic)
    )
    next_cursor: Cursor | None = field(Cursor, nullable="0+", default=None)


API = Api(
    75, "DescribeTopicPartitions", DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
)

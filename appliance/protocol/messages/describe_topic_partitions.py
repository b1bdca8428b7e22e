"""DescribeTopicPartitions: topics and partitions in pages; a cursor leads to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from appliance.protocol.types import (
    Api,
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


@dataclass(slots=True)
class DescribeTopicPartitionsRequest:
    VERSIONS: ClassVar = VERSIONS

    @dataclass(slots=True)
    class TopicRequest:
        name: str = field(string)

    @dataclass(slots=True)
    class Cursor:
        topic_name: str = field(string)
        partition_index: int = field(int32)

    topics: list[TopicRequest] = field(array(TopicRequest))
    response_partition_limit: int = field(int32, default=2000)
    cursor: Cursor | None = field(Cursor, nullable="0+", default=None)


@dataclass(slots=True)
class DescribeTopicPartitionsResponse:
    VERSIONS: ClassVar = VERSIONS

    @dataclass(slots=True)
    class DescribeTopicPartitionsResponsePartition:
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

    @dataclass(slots=True)
    class DescribeTopicPartitionsResponseTopic:
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

    @dataclass(slots=True)
    class Cursor:
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

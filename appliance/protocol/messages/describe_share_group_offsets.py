"""DescribeShareGroupOffsets: where share groups start, and how far behind they are."""

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

VERSIONS = Versions(0, 1, flexible_from=0)


class DescribeShareGroupOffsetsRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class DescribeShareGroupOffsetsRequestTopic(Message):
        topic_name: str = field(string)
        partitions: list[int] = field(array(int32))

    class DescribeShareGroupOffsetsRequestGroup(Message):
        group_id: str = field(string)
        topics: (
            list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic] | None
        ) = field(
            array(lambda: DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic),
            nullable="0+",
        )

    groups: list[DescribeShareGroupOffsetsRequestGroup] = field(
        array(DescribeShareGroupOffsetsRequestGroup)
    )


class DescribeShareGroupOffsetsResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class DescribeShareGroupOffsetsResponsePartition(Message):
        partition_index: int = field(int32)
        start_offset: int = field(int64)
        leader_epoch: int = field(int32)
        lag: int = field(int64, "1+", default=-1)
        error_code: int = field(int16)
        error_message: str | None = field(string, nullable="0+", default=None)

    class DescribeShareGroupOffsetsResponseTopic(Message):
        topic_name: str = field(string)
        topic_id: UUID = field(uuid)
        partitions: list[
            DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition
        ] = field(
            array(
                lambda: DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition
            )
        )

    class DescribeShareGroupOffsetsResponseGroup(Message):
        group_id: str = field(string)
        topics: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic] = (
            field(
                array(
                    lambda: DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic
                )
            )
        )
        error_code: int = field(int16)
        error_message: str | None = field(string, nullable="0+", default=None)

    throttle_time_ms: int = field(int32)
    groups: list[DescribeShareGroupOffsetsResponseGroup] = field(
        array(DescribeShareGroupOffsetsResponseGroup)
    )


API = Api(
    90,
    "DescribeShareGroupOffsets",
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)

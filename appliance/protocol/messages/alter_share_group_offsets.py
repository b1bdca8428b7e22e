"""AlterShareGroupOffsets: set where an empty share group starts."""

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

VERSIONS = Versions(0, 0, flexible_from=0)


class AlterShareGroupOffsetsRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class AlterShareGroupOffsetsRequestPartition(Message):
        partition_index: int = field(int32)
        start_offset: int = field(int64)

    class AlterShareGroupOffsetsRequestTopic(Message):
        topic_name: str = field(string)
        partitions: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition] = (
            field(
                array(lambda: AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition)
            )
        )

    group_id: str = field(string)
    topics: list[AlterShareGroupOffsetsRequestTopic] = field(
        array(AlterShareGroupOffsetsRequestTopic)
    )


class AlterShareGroupOffsetsResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class AlterShareGroupOffsetsResponsePartition(Message):
        partition_index: int = field(int32)
        error_code: int = field(int16)
        error_message: str | None = field(string, nullable="0+", default=None)

    class AlterShareGroupOffsetsResponseTopic(Message):
        topic_name: str = field(string)
        topic_id: UUID = field(uuid)
        partitions: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponsePartition] = (
            field(
                array(
                    lambda: AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponsePartition
                )
            )
        )

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = field(
        array(AlterShareGroupOffsetsResponseTopic)
    )


API = Api(
    91, "AlterShareGroupOffsets", AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse
)

"""ListOffsets: the offset at a time, or the earliest, the latest, the newest timestamp."""

from __future__ import annotations

from typing import ClassVar

from appliance.protocol.types import (
    Api,
    Message,
    Versions,
    array,
    field,
    int8,
    int16,
    int32,
    int64,
    string,
)

VERSIONS = Versions(1, 11, flexible_from=6)


class ListOffsetsRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class ListOffsetsPartition(Message):
        partition_index: int = field(int32)
        current_leader_epoch: int = field(int32, "4+", default=-1)
        timestamp: int = field(int64)

    class ListOffsetsTopic(Message):
        name: str = field(string)
        partitions: list[ListOffsetsRequest.ListOffsetsPartition] = field(
            array(lambda: ListOffsetsRequest.ListOffsetsPartition)
        )

    replica_id: int = field(int32)
    isolation_level: int = field(int8, "2+")
    topics: list[ListOffsetsTopic] = field(array(ListOffsetsTopic))
    timeout_ms: int = field(int32, "10+")


class ListOffsetsResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class ListOffsetsPartitionResponse(Message):
        partition_index: int = field(int32)
        error_code: int = field(int16)
        timestamp: int = field(int64, default=-1)
        offset: int = field(int64, default=-1)
        leader_epoch: int = field(int32, "4+", default=-1)

    class ListOffsetsTopicResponse(Message):
        name: str = field(string)
        partitions: list[ListOffsetsResponse.ListOffsetsPartitionResponse] = field(
            array(lambda: ListOffsetsResponse.ListOffsetsPartitionResponse)
        )

    throttle_time_ms: int = field(int32, "2+")
    topics: list[ListOffsetsTopicResponse] = field(array(ListOffsetsTopicResponse))


API = Api(2, "ListOffsets", ListOffsetsRequest, ListOffsetsResponse)

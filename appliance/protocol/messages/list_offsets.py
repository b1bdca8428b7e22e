"""ListOffsets: the offset at a time, or the earliest, the latest, the newest timestamp."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from appliance.protocol.types import Api, Versions, array, field, int8, int16, int32, int64, string

VERSIONS = Versions(1, 11, flexible_from=6)


@dataclass(slots=True)
class ListOffsetsRequest:
    VERSIONS: ClassVar = VERSIONS

    @dataclass(slots=True)
    class ListOffsetsPartition:
        partition_index: int = field(int32)
        current_leader_epoch: int = field(int32, "4+", default=-1)
        timestamp: int = field(int64)

    @dataclass(slots=True)
    class ListOffsetsTopic:
        name: str = field(string)
        partitions: list[ListOffsetsRequest.ListOffsetsPartition] = field(
            array(lambda: ListOffsetsRequest.ListOffsetsPartition)
        )

    replica_id: int = field(int32)
    isolation_level: int = field(int8, "2+")
    topics: list[ListOffsetsTopic] = field(array(ListOffsetsTopic))
    timeout_ms: int = field(int32, "10+")


@dataclass(slots=True)
class ListOffsetsResponse:
    VERSIONS: ClassVar = VERSIONS

    @dataclass(slots=True)
    class ListOffsetsPartitionResponse:
        partition_index: int = field(int32)
        error_code: int = field(int16)
        timestamp: int = field(int64, default=-1)
        offset: int = field(int64, default=-1)
        leader_epoch: int = field(int32, "4+", default=-1)

    @dataclass(slots=True)
    class ListOffsetsTopicResponse:
        name: str = field(string)
        partitions: list[ListOffsetsResponse.ListOffsetsPartitionResponse] = field(
            array(lambda: ListOffsetsResponse.ListOffsetsPartitionResponse)
        )

    throttle_time_ms: int = field(int32, "2+")
    topics: list[ListOffsetsTopicResponse] = field(array(ListOffsetsTopicResponse))


API = Api(2, "ListOffsets", ListOffsetsRequest, ListOffsetsResponse)

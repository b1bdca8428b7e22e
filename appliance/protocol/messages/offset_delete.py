"""OffsetDelete: forget the offsets of a group for some partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from appliance.protocol.types import Api, Versions, array, field, int16, int32, string

VERSIONS = Versions(0, 0)


@dataclass(slots=True)
class OffsetDeleteRequest:
    VERSIONS: ClassVar = VERSIONS

    @dataclass(slots=True)
    class OffsetDeleteRequestPartition:
        partition_index: int = field(int32)

    @dataclass(slots=True)
    class OffsetDeleteRequestTopic:
        name: str = field(string)
        partitions: list[OffsetDeleteRequest.OffsetDeleteRequestPartition] = field(
            array(lambda: OffsetDeleteRequest.OffsetDeleteRequestPartition)
        )

    group_id: str = field(string)
    topics: list[OffsetDeleteRequestTopic] = field(array(OffsetDeleteRequestTopic))


@dataclass(slots=True)
class OffsetDeleteResponse:
    VERSIONS: ClassVar = VERSIONS

    @dataclass(slots=True)
    class OffsetDeleteResponsePartition:
        partition_index: int = field(int32)
        error_code: int = field(int16)

    @dataclass(slots=True)
    class OffsetDeleteResponseTopic:
        name: str = field(string)
        partitions: list[OffsetDeleteResponse.OffsetDeleteResponsePartition] = field(
            array(lambda: OffsetDeleteResponse.OffsetDeleteResponsePartition)
        )

    error_code: int = field(int16)
    throttle_time_ms: int = field(int32)
    topics: list[OffsetDeleteResponseTopic] = field(array(OffsetDeleteResponseTopic))


API = Api(47, "OffsetDelete", OffsetDeleteRequest, OffsetDeleteResponse)

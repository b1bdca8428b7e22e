"""OffsetDelete: forget the offsets of a group for some partitions."""

from __future__ import annotations

from typing import ClassVar

from appliance.protocol.types import Api, Message, Versions, array, field, int16, int32, string

VERSIONS = Versions(0, 0)


class OffsetDeleteRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class OffsetDeleteRequestPartition(Message):
        partition_index: int = field(int32)

    class OffsetDeleteRequestTopic(Message):
        name: str = field(string)
        partitions: list[OffsetDeleteRequest.OffsetDeleteRequestPartition] = field(
            array(lambda: OffsetDeleteRequest.OffsetDeleteRequestPartition)
        )

    group_id: str = field(string)
    topics: list[OffsetDeleteRequestTopic] = field(array(OffsetDeleteRequestTopic))


class OffsetDeleteResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class OffsetDeleteResponsePartition(Message):
        partition_index: int = field(int32)
        error_code: int = field(int16)

    class OffsetDeleteResponseTopic(Message):
        name: str = field(string)
        partitions: list[OffsetDeleteResponse.OffsetDeleteResponsePartition] = field(
            array(lambda: OffsetDeleteResponse.OffsetDeleteResponsePartition)
        )

    error_code: int = field(int16)
    throttle_time_ms: int = field(int32)
    topics: list[OffsetDeleteResponseTopic] = field(array(OffsetDeleteResponseTopic))


API = Api(47, "OffsetDelete", OffsetDeleteRequest, OffsetDeleteResponse)

"""OffsetFetch: how far groups have read; many groups at once from version 8."""

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
    int64,
    string,
    uuid,
)

VERSIONS = Versions(1, 10, flexible_from=6)


class OffsetFetchRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class OffsetFetchRequestTopic(Message):
        name: str = field(string, "0-7")
        partition_indexes: list[int] = field(array(int32), "0-7")

    class OffsetFetchRequestTopics(Message):
        name: str = field(string, "8-9")
        topic_id: UUID = field(uuid, "10+")
        partition_indexes: list[int] = field(array(int32), "8+")

    class OffsetFetchRequestGroup(Message):
        group_id: str = field(string, "8+")
        member_id: str | None = field(string, "9+", nullable="9+", default=None)
        member_epoch: int = field(int32, "9+", default=-1)
        topics: list[OffsetFetchRequest.OffsetFetchRequestTopics] | None = field(
            array(lambda: OffsetFetchRequest.OffsetFetchRequestTopics), "8+", nullable="8+"
        )

    group_id: str = field(string, "0-7")
    topics: list[OffsetFetchRequestTopic] | None = field(
        array(OffsetFetchRequestTopic), "0-7", nullable="2-7"
    )
    groups: list[OffsetFetchRequestGroup] = field(array(OffsetFetchRequestGroup), "8+")
    require_stable: bool = field(boolean, "7+")


class OffsetFetchResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class OffsetFetchResponsePartition(Message):
        partition_index: int = field(int32, "0-7")
        committed_offset: int = field(int64, "0-7")
        committed_leader_epoch: int = field(int32, "5-7", default=-1)
        metadata: str | None = field(string, "0-7", nullable="0-7")
        error_code: int = field(int16, "0-7")

    class OffsetFetchResponseTopic(Message):
        name: str = field(string, "0-7")
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartition] = field(
            array(lambda: OffsetFetchResponse.OffsetFetchResponsePartition), "0-7"
        )

    class OffsetFetchResponsePartitions(Message):
        partition_index: int = field(int32, "8+")
        committed_offset: int = field(int64, "8+")
        committed_leader_epoch: int = field(int32, "8+", default=-1)
        metadata: str | None = field(string, "8+", nullable="8+")
        error_code: int = field(int16, "8+")

    class OffsetFetchResponseTopics(Message):
        name: str = field(string, "8-9")
        topic_id: UUID = field(uuid, "10+")
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartitions] = field(
            array(lambda: OffsetFetchResponse.OffsetFetchResponsePartitions), "8+"
        )

    class OffsetFetchResponseGroup(Message):
        group_id: str = field(string, "8+")
        topics: list[OffsetFetchResponse.OffsetFetchResponseTopics] = field(
            array(lambda: OffsetFetchResponse.OffsetFetchResponseTopics), "8+"
        )
        error_code: int = field(int16, "8+")

    throttle_time_ms: int = field(int32, "3+")
    topics: list[OffsetFetchResponseTopic] = field(array(OffsetFetchResponseTopic), "0-7")
    error_code: int = field(int16, "2-7")
    groups: list[OffsetFetchResponseGroup] = field(array(OffsetFetchResponseGroup), "8+")


API = Api(9, "OffsetFetch", OffsetFetchRequest, OffsetFetchResponse)

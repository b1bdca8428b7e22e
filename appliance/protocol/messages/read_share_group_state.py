"""ReadShareGroupState: what became of the records of share partitions."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

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
    uuid,
)

VERSIONS = Versions(0, 0, flexible_from=0)


class ReadShareGroupStateRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class PartitionData(Message):
        partition: int = field(int32)
        leader_epoch: int = field(int32)

    class ReadStateData(Message):
        topic_id: UUID = field(uuid)
        partitions: list[ReadShareGroupStateRequest.PartitionData] = field(
            array(lambda: ReadShareGroupStateRequest.PartitionData)
        )

    group_id: str = field(string)
    topics: list[ReadStateData] = field(array(ReadStateData))


class ReadShareGroupStateResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class StateBatch(Message):
        first_offset: int = field(int64)
        last_offset: int = field(int64)
        delivery_state: int = field(int8)
        delivery_count: int = field(int16)

    class PartitionResult(Message):
        partition: int = field(int32)
        error_code: int = field(int16)
        error_message: str | None = field(string, nullable="0+", default=None)
        state_epoch: int = field(int32)
        start_offset: int = field(int64)
        state_batches: list[ReadShareGroupStateResponse.StateBatch] = field(
            array(lambda: ReadShareGroupStateResponse.StateBatch)
        )

    class ReadStateResult(Message):
        topic_id: UUID = field(uuid)
        partitions: list[ReadShareGroupStateResponse.PartitionResult] = field(
            array(lambda: ReadShareGroupStateResponse.PartitionResult)
        )

    results: list[ReadStateResult] = field(array(ReadStateResult))


API = Api(84, "ReadShareGroupState", ReadShareGroupStateRequest, ReadShareGroupStateResponse)

"""WriteShareGroupState: what became of records of share partitions since the last write."""

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

VERSIONS = Versions(0, 1, flexible_from=0)


class WriteShareGroupStateRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class StateBatch(Message):
        first_offset: int = field(int64)
        last_offset: int = field(int64)
        delivery_state: int = field(int8)
        delivery_count: int = field(int16)

    class PartitionData(Message):
        partition: int = field(int32)
        state_epoch: int = field(int32)
        leader_epoch: int = field(int32)
        start_offset: int = field(int64)
        delivery_complete_count: int = field(int32, "1+", default=-1)
        state_batches: list[WriteShareGroupStateRequest.StateBatch] = field(
            array(lambda: WriteShareGroupStateRequest.StateBatch)
        )

    class WriteStateData(Message):
        topic_id: UUID = field(uuid)
        partitions: list[WriteShareGroupStateRequest.PartitionData] = field(
            array(lambda: WriteShareGroupStateRequest.PartitionData)
        )

    group_id: str = field(string)
    topics: list[WriteStateData] = field(array(WriteStateData))


class WriteShareGroupStateResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class PartitionResult(Message):
        partition: int = field(int32)
        error_code: int = field(int16)
        error_message: str | None = field(string, nullable="0+", default=None)

    class WriteStateResult(Message):
        topic_id: UUID = field(uuid)
        partitions: list[WriteShareGroupStateResponse.PartitionResult] = field(
            array(lambda: WriteShareGroupStateResponse.PartitionResult)
        )

    results: list[WriteStateResult] = field(array(WriteStateResult))


API = Api(85, "WriteShareGroupState", WriteShareGroupStateRequest, WriteShareGroupStateResponse)

"""InitializeShareGroupState: make the state of share partitions, or set where they begin."""

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


class InitializeShareGroupStateRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class PartitionData(Message):
        partition: int = field(int32)
        state_epoch: int = field(int32)
        start_offset: int = field(int64)

    class InitializeStateData(Message):
        topic_id: UUID = field(uuid)
        partitions: list[InitializeShareGroupStateRequest.PartitionData] = field(
            array(lambda: InitializeShareGroupStateRequest.PartitionData)
        )

    group_id: str = field(string)
    topics: list[InitializeStateData] = field(array(InitializeStateData))


class InitializeShareGroupStateResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class PartitionResult(Message):
        partition: int = field(int32)
        error_code: int = field(int16)
        error_message: str | None = field(string, nullable="0+", default=None)

    class InitializeStateResult(Message):
        topic_id: UUID = field(uuid)
        partitions: list[InitializeShareGroupStateResponse.PartitionResult] = field(
            array(lambda: InitializeShareGroupStateResponse.PartitionResult)
        )

    results: list[InitializeStateResult] = field(array(InitializeStateResult))


API = Api(
    83,
    "InitializeShareGroupState",
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
)

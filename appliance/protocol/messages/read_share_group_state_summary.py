"""ReadShareGroupStateSummary: where a share group is in its partitions."""

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


class ReadShareGroupStateSummaryRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class PartitionData(Message):
        partition: int = field(int32)
        leader_epoch: int = field(int32)

    class ReadStateSummaryData(Message):
        topic_id: UUID = field(uuid)
        partitions: list[ReadShareGroupStateSummaryRequest.PartitionData] = field(
            array(lambda: ReadShareGroupStateSummaryRequest.PartitionData)
        )

    group_id: str = field(string)
    topics: list[ReadStateSummaryData] = field(array(ReadStateSummaryData))


class ReadShareGroupStateSummaryResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class PartitionResult(Message):
        partition: int = field(int32)
        error_code: int = field(int16)
        error_message: str | None = field(string, nullable="0+", default=None)
        state_epoch: int = field(int32)
        leader_epoch: int = field(int32)
        start_offset: int = field(int64)
        delivery_complete_count: int = field(int32, "1+", default=-1)

    class ReadStateSummaryResult(Message):
        topic_id: UUID = field(uuid)
        partitions: list[ReadShareGroupStateSummaryResponse.PartitionResult] = field(
            array(lambda: ReadShareGroupStateSummaryResponse.PartitionResult)
        )

    results: list[ReadStateSummaryResult] = field(array(ReadStateSummaryResult))


API = Api(
    87,
    "ReadShareGroupStateSummary",
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
)

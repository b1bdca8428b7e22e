"""DeleteShareGroupState: forget the state of share partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from appliance.protocol.types import Api, Versions, array, field, int16, int32, string, uuid

VERSIONS = Versions(0, 0, flexible_from=0)


@dataclass(slots=True)
class DeleteShareGroupStateRequest:
    VERSIONS: ClassVar = VERSIONS

    @dataclass(slots=True)
    class PartitionData:
        partition: int = field(int32)

    @dataclass(slots=True)
    class DeleteStateData:
        topic_id: UUID = field(uuid)
        partitions: list[DeleteShareGroupStateRequest.PartitionData] = field(
            array(lambda: DeleteShareGroupStateRequest.PartitionData)
        )

    group_id: str = field(string)
    topics: list[DeleteStateData] = field(array(DeleteStateData))


@dataclass(slots=True)
class DeleteShareGroupStateResponse:
    VERSIONS: ClassVar = VERSIONS

    @dataclass(slots=True)
    class PartitionResult:
        partition: int = field(int32)
        error_code: int = field(int16)
        error_message: str | None = field(string, nullable="0+", default=None)

    @dataclass(slots=True)
    class DeleteStateResult:
        topic_id: UUID = field(uuid)
        partitions: list[DeleteShareGroupStateResponse.PartitionResult] = field(
            array(lambda: DeleteShareGroupStateResponse.PartitionResult)
        )

    results: list[DeleteStateResult] = field(array(DeleteStateResult))


API = Api(86, "DeleteShareGroupState", DeleteShareGroupStateRequest, DeleteShareGroupStateResponse)

"""DeleteShareGroupState: forget the state of share partitions."""

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
    string,
    uuid,
)

VERSIONS = Versions(0, 0, flexible_from=0)


class DeleteShareGroupStateRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class PartitionData(Message):
        partition: int = field(int32)

    class DeleteStateData(Message):
        topic_id: UUID = field(uuid)
        partitions: list[DeleteShareGroupStateRequest.PartitionData] = field(
            array(lambda: DeleteShareGroupStateRequest.PartitionData)
        )

    group_id: str = field(string)
    topics: list[DeleteStateData] = field(array(DeleteStateData))


class DeleteShareGroupStateResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class PartitionResult(Message):
        partition: int = field(int32)
        error_code: int = field(int16)
        error_message: str | None = field(string, nullable="0+", default=None)

    class DeleteStateResult(Message):
        topic_id: UUID = field(uuid)
        partitions: list[DeleteShareGroupStateResponse.PartitionResult] = field(
            array(lambda: DeleteShareGroupStateResponse.PartitionResult)
        )

    results: list[DeleteStateResult] = field(array(DeleteStateResult))


API = Api(86, "DeleteShareGroupState", DeleteShareGroupStateRequest, DeleteShareGroupStateResponse)

"""DeleteRecords: raise the start of a log, so that what lies before it is gone."""

from __future__ import annotations

from typing import ClassVar

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
)

VERSIONS = Versions(0, 2, flexible_from=2)


class DeleteRecordsRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class DeleteRecordsPartition(Message):
        partition_index: int = field(int32)
        offset: int = field(int64)

    class DeleteRecordsTopic(Message):
        name: str = field(string)
        partitions: list[DeleteRecordsRequest.DeleteRecordsPartition] = field(
            array(lambda: DeleteRecordsRequest.DeleteRecordsPartition)
        )

    topics: list[DeleteRecordsTopic] = field(array(DeleteRecordsTopic))
    timeout_ms: int = field(int32)


class DeleteRecordsResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class DeleteRecordsPartitionResult(Message):
        partition_index: int = field(int32)
        low_watermark: int = field(int64)
        error_code: int = field(int16)

    class DeleteRecordsTopicResult(Message):
        name: str = field(string)
        partitions: list[DeleteRecordsResponse.DeleteRecordsPartitionResult] = field(
            array(lambda: DeleteRecordsResponse.DeleteRecordsPartitionResult)
        )

    throttle_time_ms: int = field(int32)
    topics: list[DeleteRecordsTopicResult] = field(array(DeleteRecordsTopicResult))


API = Api(21, "DeleteRecords", DeleteRecordsRequest, DeleteRecordsResponse)

"""AlterPartitionReassignments: start or cancel moving partitions to other replicas."""

from __future__ import annotations

from typing import ClassVar

from appliance.protocol.types import (
    Api,
    Message,
    Versions,
    array,
    boolean,
    field,
    int16,
    int32,
    string,
)

VERSIONS = Versions(0, 1, flexible_from=0)


class AlterPartitionReassignmentsRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class ReassignablePartition(Message):
        partition_index: int = field(int32)
        replicas: list[int] | None = field(array(int32), nullable="0+", default=None)

    class ReassignableTopic(Message):
        name: str = field(string)
        partitions: list[AlterPartitionReassignmentsRequest.ReassignablePartition] = field(
            array(lambda: AlterPartitionReassignmentsRequest.ReassignablePartition)
        )

    timeout_ms: int = field(int32, default=60000)
    allow_replication_factor_change: bool = field(boolean, "1+", default=True)
    topics: list[ReassignableTopic] = field(array(ReassignableTopic))


class AlterPartitionReassignmentsResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class ReassignablePartitionResponse(Message):
        partition_index: int = field(int32)
        error_code: int = field(int16)
        error_message: str | None = field(string, nullable="0+")

    class ReassignableTopicResponse(Message):
        name: str = field(string)
        partitions: list[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse] = field(
            array(lambda: AlterPartitionReassignmentsResponse.ReassignablePartitionResponse)
        )

    throttle_time_ms: int = field(int32)
    allow_replication_factor_change: bool = field(boolean, "1+", default=True)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+")
    responses: list[ReassignableTopicResponse] = field(array(ReassignableTopicResponse))


API = Api(
    45,
    "AlterPartitionReassignments",
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)

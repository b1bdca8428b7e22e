"""ListPartitionReassignments: partitions that are on the move; here never any."""

from __future__ import annotations

from typing import ClassVar

from appliance.protocol.types import Api, Message, Versions, array, field, int16, int32, string

VERSIONS = Versions(0, 0, flexible_from=0)


class ListPartitionReassignmentsRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class ListPartitionReassignmentsTopics(Message):
        name: str = field(string)
        partition_indexes: list[int] = field(array(int32))

    timeout_ms: int = field(int32, default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = field(
        array(ListPartitionReassignmentsTopics), nullable="0+", default=None
    )


class ListPartitionReassignmentsResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class OngoingPartitionReassignment(Message):
        partition_index: int = field(int32)
        replicas: list[int] = field(array(int32))
        adding_replicas: list[int] = field(array(int32))
        removing_replicas: list[int] = field(array(int32))

    class OngoingTopicReassignment(Message):
        name: str = field(string)
        partitions: list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment] = field(
            array(lambda: ListPartitionReassignmentsResponse.OngoingPartitionReassignment)
        )

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+")
    topics: list[OngoingTopicReassignment] = field(array(OngoingTopicReassignment))


API = Api(
    46,
    "ListPartitionReassignments",
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

"""CreatePartitions: more partitions for a topic; never fewer."""

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

VERSIONS = Versions(0, 3, flexible_from=2)


class CreatePartitionsRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class CreatePartitionsAssignment(Message):
        broker_ids: list[int] = field(array(int32))

    class CreatePartitionsTopic(Message):
        name: str = field(string)
        count: int = field(int32)
        assignments: list[CreatePartitionsRequest.CreatePartitionsAssignment] | None = field(
            array(lambda: CreatePartitionsRequest.CreatePartitionsAssignment), nullable="0+"
        )

    topics: list[CreatePartitionsTopic] = field(array(CreatePartitionsTopic))
    timeout_ms: int = field(int32)
    validate_only: bool = field(boolean)


class CreatePartitionsResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class CreatePartitionsTopicResult(Message):
        name: str = field(string)
        error_code: int = field(int16)
        error_message: str | None = field(string, nullable="0+", default=None)

    throttle_time_ms: int = field(int32)
    results: list[CreatePartitionsTopicResult] = field(array(CreatePartitionsTopicResult))


API = Api(37, "CreatePartitions", CreatePartitionsRequest, CreatePartitionsResponse)

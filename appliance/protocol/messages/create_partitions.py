"""CreatePartitions: more partitions for a topic; never fewer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from appliance.protocol.types import Api, Versions, array, boolean, field, int16, int32, string

VERSIONS = Versions(0, 3, flexible_from=2)


@dataclass(slots=True)
class CreatePartitionsRequest:
    VERSIONS: ClassVar = VERSIONS

    @dataclass(slots=True)
    class CreatePartitionsAssignment:
        broker_ids: list[int] = field(array(int32))

    @dataclass(slots=True)
    class CreatePartitionsTopic:
        name: str = field(string)
        count: int = field(int32)
        assignments: list[CreatePartitionsRequest.CreatePartitionsAssignment] | None = field(
            array(lambda: CreatePartitionsRequest.CreatePartitionsAssignment), nullable="0+"
        )

    topics: list[CreatePartitionsTopic] = field(array(CreatePartitionsTopic))
    timeout_ms: int = field(int32)
    validate_only: bool = field(boolean)


@dataclass(slots=True)
class CreatePartitionsResponse:
    VERSIONS: ClassVar = VERSIONS

    @dataclass(slots=True)
    class CreatePartitionsTopicResult:
        name: str = field(string)
        error_code: int = field(int16)
        error_message: str | None = field(string, nullable="0+", default=None)

    throttle_time_ms: int = field(int32)
    results: list[CreatePartitionsTopicResult] = field(array(CreatePartitionsTopicResult))


API = Api(37, "CreatePartitions", CreatePartitionsRequest, CreatePartitionsResponse)

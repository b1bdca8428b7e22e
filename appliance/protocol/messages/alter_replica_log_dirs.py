"""AlterReplicaLogDirs: move replicas to another log directory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from appliance.protocol.types import Api, Versions, array, field, int16, int32, string

VERSIONS = Versions(1, 2, flexible_from=2)


@dataclass(slots=True)
class AlterReplicaLogDirsRequest:
    VERSIONS: ClassVar = VERSIONS

    @dataclass(slots=True)
    class AlterReplicaLogDirTopic:
        name: str = field(string)
        partitions: list[int] = field(array(int32))

    @dataclass(slots=True)
    class AlterReplicaLogDir:
        path: str = field(string)
        topics: list[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic] = field(
            array(lambda: AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic)
        )

    dirs: list[AlterReplicaLogDir] = field(array(AlterReplicaLogDir))


@dataclass(slots=True)
class AlterReplicaLogDirsResponse:
    VERSIONS: ClassVar = VERSIONS

    @dataclass(slots=True)
    class AlterReplicaLogDirPartitionResult:
        partition_index: int = field(int32)
        error_code: int = field(int16)

    @dataclass(slots=True)
    class AlterReplicaLogDirTopicResult:
        topic_name: str = field(string)
        partitions: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult] = field(
            array(lambda: AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult)
        )

    throttle_time_ms: int = field(int32)
    results: list[AlterReplicaLogDirTopicResult] = field(array(AlterReplicaLogDirTopicResult))


API = Api(34, "AlterReplicaLogDirs", AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse)

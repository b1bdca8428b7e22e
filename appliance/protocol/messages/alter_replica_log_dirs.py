"""AlterReplicaLogDirs: move replicas to another log directory."""

from __future__ import annotations

from typing import ClassVar

from appliance.protocol.types import Api, Message, Versions, array, field, int16, int32, string

VERSIONS = Versions(1, 2, flexible_from=2)


class AlterReplicaLogDirsRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class AlterReplicaLogDirTopic(Message):
        name: str = field(string)
        partitions: list[int] = field(array(int32))

    class AlterReplicaLogDir(Message):
        path: str = field(string)
        topics: list[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic] = field(
            array(lambda: AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic)
        )

    dirs: list[AlterReplicaLogDir] = field(array(AlterReplicaLogDir))


class AlterReplicaLogDirsResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class AlterReplicaLogDirPartitionResult(Message):
        partition_index: int = field(int32)
        error_code: int = field(int16)

    class AlterReplicaLogDirTopicResult(Message):
        topic_name: str = field(string)
        partitions: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult] = field(
            array(lambda: AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult)
        )

    throttle_time_ms: int = field(int32)
    results: list[AlterReplicaLogDirTopicResult] = field(array(AlterReplicaLogDirTopicResult))


API = Api(34, "AlterReplicaLogDirs", AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse)

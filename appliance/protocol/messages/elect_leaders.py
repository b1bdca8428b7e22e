"""ElectLeaders: have leaders elected; on one node there is nothing to elect."""

from __future__ import annotations

from typing import ClassVar

from appliance.protocol.types import (
    Api,
    Message,
    Versions,
    array,
    field,
    int8,
    int16,
    int32,
    string,
)

VERSIONS = Versions(0, 2, flexible_from=2)


class ElectLeadersRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class TopicPartitions(Message):
        topic: str = field(string)
        partitions: list[int] = field(array(int32))

    election_type: int = field(int8, "1+")
    topic_partitions: list[TopicPartitions] | None = field(array(TopicPartitions), nullable="0+")
    timeout_ms: int = field(int32, default=60000)


class ElectLeadersResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class PartitionResult(Message):
        partition_id: int = field(int32)
        error_code: int = field(int16)
        error_message: str | None = field(string, nullable="0+")

    class ReplicaElectionResult(Message):
        topic: str = field(string)
        partition_result: list[ElectLeadersResponse.PartitionResult] = field(
            array(lambda: ElectLeadersResponse.PartitionResult)
        )

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16, "1+")
    replica_election_results: list[ReplicaElectionResult] = field(array(ReplicaElectionResult))


API = Api(43, "ElectLeaders", ElectLeadersRequest, ElectLeadersResponse)

"""DescribeQuorum: the voters of the metadata log and how far they are."""

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
    int64,
    string,
    uint16,
    uuid,
)

VERSIONS = Versions(0, 2, flexible_from=0)


class DescribeQuorumRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class PartitionData(Message):
        partition_index: int = field(int32)

    class TopicData(Message):
        topic_name: str = field(string)
        partitions: list[DescribeQuorumRequest.PartitionData] = field(
            array(lambda: DescribeQuorumRequest.PartitionData)
        )

    topics: list[TopicData] = field(array(TopicData))


class DescribeQuorumResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class ReplicaState(Message):
        replica_id: int = field(int32)
        replica_directory_id: UUID = field(uuid, "2+")
        log_end_offset: int = field(int64)
        last_fetch_timestamp: int = field(int64, "1+", default=-1)
        last_caught_up_timestamp: int = field(int64, "1+", default=-1)

    class PartitionData(Message):
        partition_index: int = field(int32)
        error_code: int = field(int16)
        error_message: str | None = field(string, "2+", nullable="2+")
        leader_id: int = field(int32)
        leader_epoch: int = field(int32)
        high_watermark: int = field(int64)
        current_voters: list[DescribeQuorumResponse.ReplicaState] = field(
            array(lambda: DescribeQuorumResponse.ReplicaState)
        )
        observers: list[DescribeQuorumResponse.ReplicaState] = field(
            array(lambda: DescribeQuorumResponse.ReplicaState)
        )

    class TopicData(Message):
        topic_name: str = field(string)
        partitions: list[DescribeQuorumResponse.PartitionData] = field(
            array(lambda: DescribeQuorumResponse.PartitionData)
        )

    class Listener(Message):
        name: str = field(string, "2+")
        host: str = field(string, "2+")
        port: int = field(uint16, "2+")

    class Node(Message):
        node_id: int = field(int32, "2+")
        listeners: list[DescribeQuorumResponse.Listener] = field(
            array(lambda: DescribeQuorumResponse.Listener), "2+"
        )

    error_code: int = field(int16)
    error_message: str | None = field(string, "2+", nullable="2+")
    topics: list[TopicData] = field(array(TopicData))
    nodes: list[Node] = field(array(Node), "2+")


API = Api(55, "DescribeQuorum", DescribeQuorumRequest, DescribeQuorumResponse)

"""Fetch: read batches from an offset on, waiting for enough. Topics go by id from 13."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from appliance.protocol.types import (
    Api,
    Message,
    Versions,
    array,
    field,
    int8,
    int16,
    int32,
    int64,
    records,
    string,
    uuid,
)

VERSIONS = Versions(4, 18, flexible_from=12)


class FetchRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class ReplicaState(Message):
        replica_id: int = field(int32, "15+", default=-1)
        replica_epoch: int = field(int64, "15+", default=-1)

    class FetchPartition(Message):
        partition: int = field(int32)
        current_leader_epoch: int = field(int32, "9+", default=-1)
        fetch_offset: int = field(int64)
        last_fetched_epoch: int = field(int32, "12+", default=-1)
        log_start_offset: int = field(int64, "5+", default=-1)
        partition_max_bytes: int = field(int32)
        replica_directory_id: UUID = field(uuid, "17+", tag=0)
        high_watermark: int = field(int64, "18+", default=2**63 - 1, tag=1)

    class FetchTopic(Message):
        topic: str = field(string, "0-12")
        topic_id: UUID = field(uuid, "13+")
        partitions: list[FetchRequest.FetchPartition] = field(
            array(lambda: FetchRequest.FetchPartition)
        )

    class ForgottenTopic(Message):
        topic: str = field(string, "7-12")
        topic_id: UUID = field(uuid, "13+")
        partitions: list[int] = field(array(int32), "7+")

    cluster_id: str | None = field(string, "12+", nullable="12+", default=None, tag=0)
    replica_id: int = field(int32, "0-14", default=-1)
    replica_state: ReplicaState = field(ReplicaState, "15+", tag=1)
    max_wait_ms: int = field(int32)
    min_bytes: int = field(int32)
    max_bytes: int = field(int32, default=2**31 - 1)
    isolation_level: int = field(int8)
    session_id: int = field(int32, "7+")
    session_epoch: int = field(int32, "7+", default=-1)
    topics: list[FetchTopic] = field(array(FetchTopic))
    forgotten_topics_data: list[ForgottenTopic] = field(array(ForgottenTopic), "7+")
    rack_id: str = field(string, "11+")


class FetchResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class EpochEndOffset(Message):
        epoch: int = field(int32, "12+", default=-1)
        end_offset: int = field(int64, "12+", default=-1)

    class LeaderIdAndEpoch(Message):
        leader_id: int = field(int32, "12+", default=-1)
        leader_epoch: int = field(int32, "12+", default=-1)

    class SnapshotId(Message):
        end_offset: int = field(int64, default=-1)
        epoch: int = field(int32, default=-1)

    class AbortedTransaction(Message):
        producer_id: int = field(int64)
        first_offset: int = field(int64)

    class PartitionData(Message):
        partition_index: int = field(int32)
        error_code: int = field(int16)
        high_watermark: int = field(int64)
        last_stable_offset: int = field(int64, default=-1)
        log_start_offset: int = field(int64, "5+", default=-1)
        diverging_epoch: FetchResponse.EpochEndOffset = field(
            lambda: FetchResponse.EpochEndOffset, "12+", tag=0
        )
        current_leader: FetchResponse.LeaderIdAndEpoch = field(
            lambda: FetchResponse.LeaderIdAndEpoch, "12+", tag=1
        )
        snapshot_id: FetchResponse.SnapshotId = field(
            lambda: FetchResponse.SnapshotId, "12+", tag=2
        )
        aborted_transactions: list[FetchResponse.AbortedTransaction] | None = field(
            array(lambda: FetchResponse.AbortedTransaction), nullable="0+"
        )
        preferred_read_replica: int = field(int32, "11+", default=-1)
        records: bytes | None = field(records, nullable="0+")

    class FetchableTopicResponse(Message):
        topic: str = field(string, "0-12")
        topic_id: UUID = field(uuid, "13+")
        partitions: list[FetchResponse.PartitionData] = field(
            array(lambda: FetchResponse.PartitionData)
        )

    class NodeEndpoint(Message):
        node_id: int = field(int32, "16+")
        host: str = field(string, "16+")
        port: int = field(int32, "16+")
        rack: str | None = field(string, "16+", nullable="16+", default=None)

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16, "7+")
    session_id: int = field(int32, "7+")
    responses: list[FetchableTopicResponse] = field(array(FetchableTopicResponse))
    node_endpoints: list[NodeEndpoint] = field(array(NodeEndpoint), "16+", tag=0)


API = Api(1, "Fetch", FetchRequest, FetchResponse)

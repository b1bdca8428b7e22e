"""Produce: record batches to append. Topics go by id from version 13."""

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
    records,
    string,
    uuid,
)

VERSIONS = Versions(3, 13, flexible_from=9)


class ProduceRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class PartitionProduceData(Message):
        index: int = field(int32)
        records: bytes | None = field(records, nullable="0+")

    class TopicProduceData(Message):
        name: str = field(string, "0-12")
        topic_id: UUID = field(uuid, "13+")
        partition_data: list[ProduceRequest.PartitionProduceData] = field(
            array(lambda: ProduceRequest.PartitionProduceData)
        )
        # ours: the sender is the mirror of this topic, and the batches keep their offsets
        mirror_source: str = field(string, "9+", tag=10_000)

    transactional_id: str | None = field(string, nullable="0+", default=None)
    acks: int = field(int16)
    timeout_ms: int = field(int32)
    topic_data: list[TopicProduceData] = field(array(TopicProduceData))


class ProduceResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class BatchIndexAndErrorMessage(Message):
        batch_index: int = field(int32, "8+")
        batch_index_error_message: str | None = field(string, "8+", nullable="8+", default=None)

    class LeaderIdAndEpoch(Message):
        leader_id: int = field(int32, "10+", default=-1)
        leader_epoch: int = field(int32, "10+", default=-1)

    class PartitionProduceResponse(Message):
        index: int = field(int32)
        error_code: int = field(int16)
        base_offset: int = field(int64)
        log_append_time_ms: int = field(int64, default=-1)
        log_start_offset: int = field(int64, "5+", default=-1)
        record_errors: list[ProduceResponse.BatchIndexAndErrorMessage] = field(
            array(lambda: ProduceResponse.BatchIndexAndErrorMessage), "8+"
        )
        error_message: str | None = field(string, "8+", nullable="8+", default=None)
        current_leader: ProduceResponse.LeaderIdAndEpoch = field(
            lambda: ProduceResponse.LeaderIdAndEpoch, "10+", tag=0
        )

    class TopicProduceResponse(Message):
        name: str = field(string, "0-12")
        topic_id: UUID = field(uuid, "13+")
        partition_responses: list[ProduceResponse.PartitionProduceResponse] = field(
            array(lambda: ProduceResponse.PartitionProduceResponse)
        )

    class NodeEndpoint(Message):
        node_id: int = field(int32, "10+")
        host: str = field(string, "10+")
        port: int = field(int32, "10+")
        rack: str | None = field(string, "10+", nullable="10+", default=None)

    responses: list[TopicProduceResponse] = field(array(TopicProduceResponse))
    throttle_time_ms: int = field(int32)
    node_endpoints: list[NodeEndpoint] = field(array(NodeEndpoint), "10+", tag=0)


API = Api(0, "Produce", ProduceRequest, ProduceResponse)

"""Produce: record batches to append. Topics go by id from version 13."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from appliance.protocol.types import (
    Api,
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


@dataclass(slots=True)
class ProduceRequest:
    VERSIONS: ClassVar = VERSIONS

    @dataclass(slots=True)
    class PartitionProduceData:
        index: int = field(int32)
        records: bytes | None = field(records, nullable="0+")

    @dataclass(slots=True)
    class TopicProduceData:
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


@dataclass(slots=True)
class ProduceResponse:
    VERSIONS: ClassVar = VERSIONS

    @dataclass(slots=True)
    class BatchIndexAndErrorMessage:
        batch_index: int = field(int32, "8+")
        batch_index_error_message: str | None = field(string, "8+", nullable="8+", default=None)

    @dataclass(slots=True)
    class LeaderIdAndEpoch:
        leader_id: int = field(int32, "10+", default=-1)
        leader_epoch: int = field(int32, "10+", default=-1)

    @dataclass(slots=True)
    class PartitionProduceResponse:
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

    @dataclass(slots=True)
    class TopicProduceResponse:
        name: str = field(string, "0-12")
        topic_id: UUID = field(uuid, "13+")
        partition_responses: list[ProduceResponse.PartitionProduceResponse] = field(
            array(lambda: ProduceResponse.PartitionProduceResponse)
        )

    @dataclass(slots=True)
    class NodeEndpoint:
        node_id: int = field(int32, "10+")
        host: str = field(string, "10+")
        port: int = field(int32, "10+")
        rack: str | None = field(string, "10+", nullable="10+", default=None)

    responses: list[TopicProduceResponse] = field(array(TopicProduceResponse))
    throttle_time_ms: int = field(int32)
    node_endpoints: list[NodeEndpoint] = field(array(NodeEndpoint), "10+", tag=0)


API = Api(0, "Produce", ProduceRequest, ProduceResponse)

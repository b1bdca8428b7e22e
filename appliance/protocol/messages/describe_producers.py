"""DescribeProducers: idempotent producers that a partition knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from appliance.protocol.types import Api, Versions, array, field, int16, int32, int64, string

VERSIONS = Versions(0, 0, flexible_from=0)


@dataclass(slots=True)
class DescribeProducersRequest:
    VERSIONS: ClassVar = VERSIONS

    @dataclass(slots=True)
    class TopicRequest:
        name: str = field(string)
        partition_indexes: list[int] = field(array(int32))

    topics: list[TopicRequest] = field(array(TopicRequest))


@dataclass(slots=True)
class DescribeProducersResponse:
    VERSIONS: ClassVar = VERSIONS

    @dataclass(slots=True)
    class ProducerState:
        producer_id: int = field(int64)
        producer_epoch: int = field(int32)
        last_sequence: int = field(int32, default=-1)
        last_timestamp: int = field(int64, default=-1)
        coordinator_epoch: int = field(int32)
        current_txn_start_offset: int = field(int64, default=-1)

    @dataclass(slots=True)
    class PartitionResponse:
        partition_index: int = field(int32)
        error_code: int = field(int16)
        error_message: str | None = field(string, nullable="0+", default=None)
        active_producers: list[DescribeProducersResponse.ProducerState] = field(
            array(lambda: DescribeProducersResponse.ProducerState)
        )

    @dataclass(slots=True)
    class TopicResponse:
        name: str = field(string)
        partitions: list[DescribeProducersResponse.PartitionResponse] = field(
            array(lambda: DescribeProducersResponse.PartitionResponse)
        )

    throttle_time_ms: int = field(int32)
    topics: list[TopicResponse] = field(array(TopicResponse))


API = Api(61, "DescribeProducers", DescribeProducersRequest, DescribeProducersResponse)

"""DescribeProducers: idempotent producers that a partition knows."""

from __future__ import annotations

from typing import ClassVar

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
)

VERSIONS = Versions(0, 0, flexible_from=0)


class DescribeProducersRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class TopicRequest(Message):
        name: str = field(string)
        partition_indexes: list[int] = field(array(int32))

    topics: list[TopicRequest] = field(array(TopicRequest))


class DescribeProducersResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class ProducerState(Message):
        producer_id: int = field(int64)
        producer_epoch: int = field(int32)
        last_sequence: int = field(int32, default=-1)
        last_timestamp: int = field(int64, default=-1)
        coordinator_epoch: int = field(int32)
        current_txn_start_offset: int = field(int64, default=-1)

    class PartitionResponse(Message):
        partition_index: int = field(int32)
        error_code: int = field(int16)
        error_message: str | None = field(string, nullable="0+", default=None)
        active_producers: list[DescribeProducersResponse.ProducerState] = field(
            array(lambda: DescribeProducersResponse.ProducerState)
        )

    class TopicResponse(Message):
        name: str = field(string)
        partitions: list[DescribeProducersResponse.PartitionResponse] = field(
            array(lambda: DescribeProducersResponse.PartitionResponse)
        )

    throttle_time_ms: int = field(int32)
    topics: list[TopicResponse] = field(array(TopicResponse))


API = Api(61, "DescribeProducers", DescribeProducersRequest, DescribeProducersResponse)

"""AddPartitionsToTxn: partitions that a transaction will write to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from appliance.protocol.types import (
    Api,
    Versions,
    array,
    boolean,
    field,
    int16,
    int32,
    int64,
    string,
)

VERSIONS = Versions(0, 5, flexible_from=3)


@dataclass(slots=True)
class AddPartitionsToTxnRequest:
    VERSIONS: ClassVar = VERSIONS

    @dataclass(slots=True)
    class AddPartitionsToTxnTopic:
        name: str = field(string)
        partitions: list[int] = field(array(int32))

    @dataclass(slots=True)
    class AddPartitionsToTxnTransaction:
        transactional_id: str = field(string, "4+")
        producer_id: int = field(int64, "4+")
        producer_epoch: int = field(int16, "4+")
        verify_only: bool = field(boolean, "4+")
        topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = field(
            array(lambda: AddPartitionsToTxnRequest.AddPartitionsToTxnTopic), "4+"
        )

    transactions: list[AddPartitionsToTxnTransaction] = field(
        array(AddPartitionsToTxnTransaction), "4+"
    )
    v3_and_below_transactional_id: str = field(string, "0-3")
    v3_and_below_producer_id: int = field(int64, "0-3")
    v3_and_below_producer_epoch: int = field(int16, "0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(
        array(AddPartitionsToTxnTopic), "0-3"
    )


@dataclass(slots=True)
class AddPartitionsToTxnResponse:
    VERSIONS: ClassVar = VERSIONS

    @dataclass(slots=True)
    class AddPartitionsToTxnPartitionResult:
        partition_index: int = field(int32)
        partition_error_code: int = field(int16)

    @dataclass(slots=True)
    class AddPartitionsToTxnTopicResult:
        name: str = field(string)
        results_by_partition: list[AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult] = (
            field(array(lambda: AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult))
        )

    @dataclass(slots=True)
    class AddPartitionsToTxnResult:
        transactional_id: str = field(string, "4+")
        topic_results: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = field(
            array(lambda: AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult), "4+"
        )

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16, "4+")
    results_by_transaction: list[AddPartitionsToTxnResult] = field(
        array(AddPartitionsToTxnResult), "4+"
    )
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(
        array(AddPartitionsToTxnTopicResult), "0-3"
    )


API = Api(24, "AddPartitionsToTxn", AddPartitionsToTxnRequest, AddPartitionsToTxnResponse)

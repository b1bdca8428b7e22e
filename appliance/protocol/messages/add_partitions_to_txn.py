"""AddPartitionsToTxn: partitions that a transaction will write to."""

from __future__ import annotations

from typing import ClassVar

from appliance.protocol.types import (
    Api,
    Message,
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


class AddPartitionsToTxnRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class AddPartitionsToTxnTopic(Message):
        name: str = field(string)
        partitions: list[int] = field(array(int32))

    class AddPartitionsToTxnTransaction(Message):
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


class AddPartitionsToTxnResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class AddPartitionsToTxnPartitionResult(Message):
        partition_index: int = field(int32)
        partition_error_code: int = field(int16)

    class AddPartitionsToTxnTopicResult(Message):
        name: str = field(string)
        results_by_partition: list[AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult] = (
            field(array(lambda: AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult))
        )

    class AddPartitionsToTxnResult(Message):
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

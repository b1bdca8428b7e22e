"""DescribeTransactions: state and partitions of transactional ids."""

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


class DescribeTransactionsRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    transactional_ids: list[str] = field(array(string))


class DescribeTransactionsResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class TopicData(Message):
        topic: str = field(string)
        partitions: list[int] = field(array(int32))

    class TransactionState(Message):
        error_code: int = field(int16)
        transactional_id: str = field(string)
        transaction_state: str = field(string)
        transaction_timeout_ms: int = field(int32)
        transaction_start_time_ms: int = field(int64)
        producer_id: int = field(int64)
        producer_epoch: int = field(int16)
        topics: list[DescribeTransactionsResponse.TopicData] = field(
            array(lambda: DescribeTransactionsResponse.TopicData)
        )

    throttle_time_ms: int = field(int32)
    transaction_states: list[TransactionState] = field(array(TransactionState))


API = Api(65, "DescribeTransactions", DescribeTransactionsRequest, DescribeTransactionsResponse)

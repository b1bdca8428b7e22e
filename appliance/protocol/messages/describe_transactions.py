"""DescribeTransactions: state and partitions of transactional ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from appliance.protocol.types import Api, Versions, array, field, int16, int32, int64, string

VERSIONS = Versions(0, 0, flexible_from=0)


@dataclass(slots=True)
class DescribeTransactionsRequest:
    VERSIONS: ClassVar = VERSIONS

    transactional_ids: list[str] = field(array(string))


@dataclass(slots=True)
class DescribeTransactionsResponse:
    VERSIONS: ClassVar = VERSIONS

    @dataclass(slots=True)
    class TopicData:
        topic: str = field(string)
        partitions: list[int] = field(array(int32))

    @dataclass(slots=True)
    class TransactionState:
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

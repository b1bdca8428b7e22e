"""ListTransactions: transactional ids, by state, producer, duration or pattern."""

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

VERSIONS = Versions(0, 2, flexible_from=0)


class ListTransactionsRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    state_filters: list[str] = field(array(string))
    producer_id_filters: list[int] = field(array(int64))
    duration_filter: int = field(int64, "1+", default=-1)
    transactional_id_pattern: str | None = field(string, "2+", nullable="2+", default=None)


class ListTransactionsResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class TransactionState(Message):
        transactional_id: str = field(string)
        producer_id: int = field(int64)
        transaction_state: str = field(string)

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    unknown_state_filters: list[str] = field(array(string))
    transaction_states: list[TransactionState] = field(array(TransactionState))


API = Api(66, "ListTransactions", ListTransactionsRequest, ListTransactionsResponse)

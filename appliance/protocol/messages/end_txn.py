"""EndTxn: commit or abort a transaction; from version 5 the epoch goes up."""

from __future__ import annotations

from typing import ClassVar

from appliance.protocol.types import (
    Api,
    Message,
    Versions,
    boolean,
    field,
    int16,
    int32,
    int64,
    string,
)

VERSIONS = Versions(0, 5, flexible_from=3)


class EndTxnRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    transactional_id: str = field(string)
    producer_id: int = field(int64)
    producer_epoch: int = field(int16)
    committed: bool = field(boolean)


class EndTxnResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    producer_id: int = field(int64, "5+", default=-1)
    producer_epoch: int = field(int16, "5+", default=-1)


API = Api(26, "EndTxn", EndTxnRequest, EndTxnResponse)

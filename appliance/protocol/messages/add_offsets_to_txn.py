"""AddOffsetsToTxn: a group whose offsets a transaction will commit."""

from __future__ import annotations

from typing import ClassVar

from appliance.protocol.types import Api, Message, Versions, field, int16, int32, int64, string

VERSIONS = Versions(0, 4, flexible_from=3)


class AddOffsetsToTxnRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    transactional_id: str = field(string)
    producer_id: int = field(int64)
    producer_epoch: int = field(int16)
    group_id: str = field(string)


class AddOffsetsToTxnResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)


API = Api(25, "AddOffsetsToTxn", AddOffsetsToTxnRequest, AddOffsetsToTxnResponse)

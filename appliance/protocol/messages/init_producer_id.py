"""InitProducerId: an id and epoch for an idempotent or transactional producer."""

from __future__ import annotations

from typing import ClassVar

from appliance.protocol.types import Api, Message, Versions, field, int16, int32, int64, string

VERSIONS = Versions(0, 5, flexible_from=2)


class InitProducerIdRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    transactional_id: str | None = field(string, nullable="0+")
    transaction_timeout_ms: int = field(int32)
    producer_id: int = field(int64, "3+", default=-1)
    producer_epoch: int = field(int16, "3+", default=-1)


class InitProducerIdResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    producer_id: int = field(int64, default=-1)
    producer_epoch: int = field(int16)


API = Api(22, "InitProducerId", InitProducerIdRequest, InitProducerIdResponse)

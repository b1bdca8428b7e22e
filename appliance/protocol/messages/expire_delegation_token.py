"""ExpireDelegationToken: end a delegation token, now or at a given time."""

from __future__ import annotations

from typing import ClassVar

from appliance.protocol.types import Api, Message, Versions, data, field, int16, int32, int64

VERSIONS = Versions(1, 2, flexible_from=2)


class ExpireDelegationTokenRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    hmac: bytes = field(data)
    expiry_time_period_ms: int = field(int64)


class ExpireDelegationTokenResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    error_code: int = field(int16)
    expiry_timestamp_ms: int = field(int64)
    throttle_time_ms: int = field(int32)


API = Api(40, "ExpireDelegationToken", ExpireDelegationTokenRequest, ExpireDelegationTokenResponse)

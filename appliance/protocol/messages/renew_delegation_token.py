"""RenewDelegationToken: let a delegation token live longer."""

from __future__ import annotations

from typing import ClassVar

from appliance.protocol.types import Api, Message, Versions, data, field, int16, int32, int64

VERSIONS = Versions(1, 2, flexible_from=2)


class RenewDelegationTokenRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    hmac: bytes = field(data)
    renew_period_ms: int = field(int64)


class RenewDelegationTokenResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    error_code: int = field(int16)
    expiry_timestamp_ms: int = field(int64)
    throttle_time_ms: int = field(int32)


API = Api(39, "RenewDelegationToken", RenewDelegationTokenRequest, RenewDelegationTokenResponse)

"""CreateDelegationToken: a token that stands for a principal for a while."""

from __future__ import annotations

from typing import ClassVar

from appliance.protocol.types import (
    Api,
    Message,
    Versions,
    array,
    data,
    field,
    int16,
    int32,
    int64,
    string,
)

VERSIONS = Versions(1, 3, flexible_from=2)


class CreateDelegationTokenRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class CreatableRenewers(Message):
        principal_type: str = field(string)
        principal_name: str = field(string)

    owner_principal_type: str | None = field(string, "3+", nullable="3+")
    owner_principal_name: str | None = field(string, "3+", nullable="3+")
    renewers: list[CreatableRenewers] = field(array(CreatableRenewers))
    max_lifetime_ms: int = field(int64)


class CreateDelegationTokenResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    error_code: int = field(int16)
    principal_type: str = field(string)
    principal_name: str = field(string)
    token_requester_principal_type: str = field(string, "3+")
    token_requester_principal_name: str = field(string, "3+")
    issue_timestamp_ms: int = field(int64)
    expiry_timestamp_ms: int = field(int64)
    max_timestamp_ms: int = field(int64)
    token_id: str = field(string)
    hmac: bytes = field(data)
    throttle_time_ms: int = field(int32)


API = Api(38, "CreateDelegationToken", CreateDelegationTokenRequest, CreateDelegationTokenResponse)

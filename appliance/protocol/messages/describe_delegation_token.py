"""DescribeDelegationToken: the delegation tokens of some owners."""

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


class DescribeDelegationTokenRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class DescribeDelegationTokenOwner(Message):
        principal_type: str = field(string)
        principal_name: str = field(string)

    owners: list[DescribeDelegationTokenOwner] | None = field(
        array(DescribeDelegationTokenOwner), nullable="0+"
    )


class DescribeDelegationTokenResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class DescribedDelegationTokenRenewer(Message):
        principal_type: str = field(string)
        principal_name: str = field(string)

    class DescribedDelegationToken(Message):
        principal_type: str = field(string)
        principal_name: str = field(string)
        token_requester_principal_type: str = field(string, "3+")
        token_requester_principal_name: str = field(string, "3+")
        issue_timestamp: int = field(int64)
        expiry_timestamp: int = field(int64)
        max_timestamp: int = field(int64)
        token_id: str = field(string)
        hmac: bytes = field(data)
        renewers: list[DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer] = field(
            array(lambda: DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer)
        )

    error_code: int = field(int16)
    tokens: list[DescribedDelegationToken] = field(array(DescribedDelegationToken))
    throttle_time_ms: int = field(int32)


API = Api(
    41, "DescribeDelegationToken", DescribeDelegationTokenRequest, DescribeDelegationTokenResponse
)

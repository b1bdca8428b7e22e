"""DescribeUserScramCredentials: which SCRAM mechanisms users have; never the secrets."""

from __future__ import annotations

from typing import ClassVar

from appliance.protocol.types import (
    Api,
    Message,
    Versions,
    array,
    field,
    int8,
    int16,
    int32,
    string,
)

VERSIONS = Versions(0, 0, flexible_from=0)


class DescribeUserScramCredentialsRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class UserName(Message):
        name: str = field(string)

    users: list[UserName] | None = field(array(UserName), nullable="0+")


class DescribeUserScramCredentialsResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class CredentialInfo(Message):
        mechanism: int = field(int8)
        iterations: int = field(int32)

    class DescribeUserScramCredentialsResult(Message):
        user: str = field(string)
        error_code: int = field(int16)
        error_message: str | None = field(string, nullable="0+")
        credential_infos: list[DescribeUserScramCredentialsResponse.CredentialInfo] = field(
            array(lambda: DescribeUserScramCredentialsResponse.CredentialInfo)
        )

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = field(
        array(DescribeUserScramCredentialsResult)
    )


API = Api(
    50,
    "DescribeUserScramCredentials",
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

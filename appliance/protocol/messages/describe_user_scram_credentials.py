"""DescribeUserScramCredentials: which SCRAM mechanisms users have; never the secrets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from appliance.protocol.types import Api, Versions, array, field, int8, int16, int32, string

VERSIONS = Versions(0, 0, flexible_from=0)


@dataclass(slots=True)
class DescribeUserScramCredentialsRequest:
    VERSIONS: ClassVar = VERSIONS

    @dataclass(slots=True)
    class UserName:
        name: str = field(string)

    users: list[UserName] | None = field(array(UserName), nullable="0+")


@dataclass(slots=True)
class DescribeUserScramCredentialsResponse:
    VERSIONS: ClassVar = VERSIONS

    @dataclass(slots=True)
    class CredentialInfo:
        mechanism: int = field(int8)
        iterations: int = field(int32)

    @dataclass(slots=True)
    class DescribeUserScramCredentialsResult:
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

"""AlterUserScramCredentials: set or remove the SCRAM secrets of users."""

from __future__ import annotations

from typing import ClassVar

from appliance.protocol.types import (
    Api,
    Message,
    Versions,
    array,
    data,
    field,
    int8,
    int16,
    int32,
    string,
)

VERSIONS = Versions(0, 0, flexible_from=0)


class AlterUserScramCredentialsRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class ScramCredentialDeletion(Message):
        name: str = field(string)
        mechanism: int = field(int8)

    class ScramCredentialUpsertion(Message):
        name: str = field(string)
        mechanism: int = field(int8)
        iterations: int = field(int32)
        salt: bytes = field(data)
        salted_password: bytes = field(data)

    deletions: list[ScramCredentialDeletion] = field(array(ScramCredentialDeletion))
    upsertions: list[ScramCredentialUpsertion] = field(array(ScramCredentialUpsertion))


class AlterUserScramCredentialsResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class AlterUserScramCredentialsResult(Message):
        user: str = field(string)
        error_code: int = field(int16)
        error_message: str | None = field(string, nullable="0+")

    throttle_time_ms: int = field(int32)
    results: list[AlterUserScramCredentialsResult] = field(array(AlterUserScramCredentialsResult))


API = Api(
    51,
    "AlterUserScramCredentials",
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)

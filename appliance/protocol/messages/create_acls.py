"""CreateAcls: new access rules."""

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

VERSIONS = Versions(1, 3, flexible_from=2)


class CreateAclsRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class AclCreation(Message):
        resource_type: int = field(int8)
        resource_name: str = field(string)
        resource_pattern_type: int = field(int8, default=3)
        principal: str = field(string)
        host: str = field(string)
        operation: int = field(int8)
        permission_type: int = field(int8)

    creations: list[AclCreation] = field(array(AclCreation))


class CreateAclsResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class AclCreationResult(Message):
        error_code: int = field(int16)
        error_message: str | None = field(string, nullable="0+")

    throttle_time_ms: int = field(int32)
    results: list[AclCreationResult] = field(array(AclCreationResult))


API = Api(30, "CreateAcls", CreateAclsRequest, CreateAclsResponse)

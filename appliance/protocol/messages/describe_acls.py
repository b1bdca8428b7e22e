"""DescribeAcls: access rules that match a filter."""

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


class DescribeAclsRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    resource_type_filter: int = field(int8)
    resource_name_filter: str | None = field(string, nullable="0+")
    pattern_type_filter: int = field(int8, default=3)
    principal_filter: str | None = field(string, nullable="0+")
    host_filter: str | None = field(string, nullable="0+")
    operation: int = field(int8)
    permission_type: int = field(int8)


class DescribeAclsResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class AclDescription(Message):
        principal: str = field(string)
        host: str = field(string)
        operation: int = field(int8)
        permission_type: int = field(int8)

    class DescribeAclsResource(Message):
        resource_type: int = field(int8)
        resource_name: str = field(string)
        pattern_type: int = field(int8, default=3)
        acls: list[DescribeAclsResponse.AclDescription] = field(
            array(lambda: DescribeAclsResponse.AclDescription)
        )

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+")
    resources: list[DescribeAclsResource] = field(array(DescribeAclsResource))


API = Api(29, "DescribeAcls", DescribeAclsRequest, DescribeAclsResponse)

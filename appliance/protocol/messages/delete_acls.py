"""DeleteAcls: remove the access rules that match filters."""

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


class DeleteAclsRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class DeleteAclsFilter(Message):
        resource_type_filter: int = field(int8)
        resource_name_filter: str | None = field(string, nullable="0+")
        pattern_type_filter: int = field(int8, default=3)
        principal_filter: str | None = field(string, nullable="0+")
        host_filter: str | None = field(string, nullable="0+")
        operation: int = field(int8)
        permission_type: int = field(int8)

    filters: list[DeleteAclsFilter] = field(array(DeleteAclsFilter))


class DeleteAclsResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class DeleteAclsMatchingAcl(Message):
        error_code: int = field(int16)
        error_message: str | None = field(string, nullable="0+")
        resource_type: int = field(int8)
        resource_name: str = field(string)
        pattern_type: int = field(int8, default=3)
        principal: str = field(string)
        host: str = field(string)
        operation: int = field(int8)
        permission_type: int = field(int8)

    class DeleteAclsFilterResult(Message):
        error_code: int = field(int16)
        error_message: str | None = field(string, nullable="0+")
        matching_acls: list[DeleteAclsResponse.DeleteAclsMatchingAcl] = field(
            array(lambda: DeleteAclsResponse.DeleteAclsMatchingAcl)
        )

    throttle_time_ms: int = field(int32)
    filter_results: list[DeleteAclsFilterResult] = field(array(DeleteAclsFilterResult))


API = Api(31, "DeleteAcls", DeleteAclsRequest, DeleteAclsResponse)

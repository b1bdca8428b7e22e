"""DeleteGroups: forget empty groups and their offsets."""

from __future__ import annotations

from typing import ClassVar

from appliance.protocol.types import Api, Message, Versions, array, field, int16, int32, string

VERSIONS = Versions(0, 2, flexible_from=2)


class DeleteGroupsRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    groups_names: list[str] = field(array(string))


class DeleteGroupsResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class DeletableGroupResult(Message):
        group_id: str = field(string)
        error_code: int = field(int16)

    throttle_time_ms: int = field(int32)
    results: list[DeletableGroupResult] = field(array(DeletableGroupResult))


API = Api(42, "DeleteGroups", DeleteGroupsRequest, DeleteGroupsResponse)

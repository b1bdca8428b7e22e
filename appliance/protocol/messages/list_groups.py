"""ListGroups: all groups, by state and type."""

from __future__ import annotations

from typing import ClassVar

from appliance.protocol.types import Api, Message, Versions, array, field, int16, int32, string

VERSIONS = Versions(0, 5, flexible_from=3)


class ListGroupsRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    states_filter: list[str] = field(array(string), "4+")
    types_filter: list[str] = field(array(string), "5+")


class ListGroupsResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class ListedGroup(Message):
        group_id: str = field(string)
        protocol_type: str = field(string)
        group_state: str = field(string, "4+")
        group_type: str = field(string, "5+")

    throttle_time_ms: int = field(int32, "1+")
    error_code: int = field(int16)
    groups: list[ListedGroup] = field(array(ListedGroup))


API = Api(16, "ListGroups", ListGroupsRequest, ListGroupsResponse)

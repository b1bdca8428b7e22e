"""DescribeGroups: state and members of classic groups."""

from __future__ import annotations

from typing import ClassVar

from appliance.protocol.types import (
    Api,
    Message,
    Versions,
    array,
    boolean,
    data,
    field,
    int16,
    int32,
    string,
)

VERSIONS = Versions(0, 6, flexible_from=5)


class DescribeGroupsRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    groups: list[str] = field(array(string))
    include_authorized_operations: bool = field(boolean, "3+")


class DescribeGroupsResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class DescribedGroupMember(Message):
        member_id: str = field(string)
        group_instance_id: str | None = field(string, "4+", nullable="4+", default=None)
        client_id: str = field(string)
        client_host: str = field(string)
        member_metadata: bytes = field(data)
        member_assignment: bytes = field(data)

    class DescribedGroup(Message):
        error_code: int = field(int16)
        error_message: str | None = field(string, "6+", nullable="6+", default=None)
        group_id: str = field(string)
        group_state: str = field(string)
        protocol_type: str = field(string)
        protocol_data: str = field(string)
        members: list[DescribeGroupsResponse.DescribedGroupMember] = field(
            array(lambda: DescribeGroupsResponse.DescribedGroupMember)
        )
        authorized_operations: int = field(int32, "3+", default=-(2**31))

    throttle_time_ms: int = field(int32, "1+")
    groups: list[DescribedGroup] = field(array(DescribedGroup))


API = Api(15, "DescribeGroups", DescribeGroupsRequest, DescribeGroupsResponse)

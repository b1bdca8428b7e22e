"""LeaveGroup: members leave a classic group."""

from __future__ import annotations

from typing import ClassVar

from appliance.protocol.types import Api, Message, Versions, array, field, int16, int32, string

VERSIONS = Versions(0, 5, flexible_from=4)


class LeaveGroupRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class MemberIdentity(Message):
        member_id: str = field(string, "3+")
        group_instance_id: str | None = field(string, "3+", nullable="3+", default=None)
        reason: str | None = field(string, "5+", nullable="5+", default=None)

    group_id: str = field(string)
    member_id: str = field(string, "0-2")
    members: list[MemberIdentity] = field(array(MemberIdentity), "3+")


class LeaveGroupResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class MemberResponse(Message):
        member_id: str = field(string, "3+")
        group_instance_id: str | None = field(string, "3+", nullable="3+")
        error_code: int = field(int16, "3+")

    throttle_time_ms: int = field(int32, "1+")
    error_code: int = field(int16)
    members: list[MemberResponse] = field(array(MemberResponse), "3+")


API = Api(13, "LeaveGroup", LeaveGroupRequest, LeaveGroupResponse)

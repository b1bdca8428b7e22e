"""JoinGroup: enter a classic group, and learn the generation and the leader."""

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

VERSIONS = Versions(0, 9, flexible_from=6)


class JoinGroupRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class JoinGroupRequestProtocol(Message):
        name: str = field(string)
        metadata: bytes = field(data)

    group_id: str = field(string)
    session_timeout_ms: int = field(int32)
    rebalance_timeout_ms: int = field(int32, "1+", default=-1)
    member_id: str = field(string)
    group_instance_id: str | None = field(string, "5+", nullable="5+", default=None)
    protocol_type: str = field(string)
    protocols: list[JoinGroupRequestProtocol] = field(array(JoinGroupRequestProtocol))
    reason: str | None = field(string, "8+", nullable="8+", default=None)


class JoinGroupResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class JoinGroupResponseMember(Message):
        member_id: str = field(string)
        group_instance_id: str | None = field(string, "5+", nullable="5+", default=None)
        metadata: bytes = field(data)

    throttle_time_ms: int = field(int32, "2+")
    error_code: int = field(int16)
    generation_id: int = field(int32, default=-1)
    protocol_type: str | None = field(string, "7+", nullable="7+", default=None)
    protocol_name: str | None = field(string, nullable="7+")
    leader: str = field(string)
    skip_assignment: bool = field(boolean, "9+")
    member_id: str = field(string)
    members: list[JoinGroupResponseMember] = field(array(JoinGroupResponseMember))


API = Api(11, "JoinGroup", JoinGroupRequest, JoinGroupResponse)

"""SyncGroup: the leader hands out the assignment, every member gets its own."""

from __future__ import annotations

from typing import ClassVar

from appliance.protocol.types import (
    Api,
    Message,
    Versions,
    array,
    data,
    field,
    int16,
    int32,
    string,
)

VERSIONS = Versions(0, 5, flexible_from=4)


class SyncGroupRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class SyncGroupRequestAssignment(Message):
        member_id: str = field(string)
        assignment: bytes = field(data)

    group_id: str = field(string)
    generation_id: int = field(int32)
    member_id: str = field(string)
    group_instance_id: str | None = field(string, "3+", nullable="3+", default=None)
    protocol_type: str | None = field(string, "5+", nullable="5+", default=None)
    protocol_name: str | None = field(string, "5+", nullable="5+", default=None)
    assignments: list[SyncGroupRequestAssignment] = field(array(SyncGroupRequestAssignment))


class SyncGroupResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    throttle_time_ms: int = field(int32, "1+")
    error_code: int = field(int16)
    protocol_type: str | None = field(string, "5+", nullable="5+", default=None)
    protocol_name: str | None = field(string, "5+", nullable="5+", default=None)
    assignment: bytes = field(data)


API = Api(14, "SyncGroup", SyncGroupRequest, SyncGroupResponse)

"""Heartbeat: a member of a classic group is alive; the reply may ask it to join again."""

from __future__ import annotations

from typing import ClassVar

from appliance.protocol.types import Api, Message, Versions, field, int16, int32, string

VERSIONS = Versions(0, 4, flexible_from=4)


class HeartbeatRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    group_id: str = field(string)
    generation_id: int = field(int32)
    member_id: str = field(string)
    group_instance_id: str | None = field(string, "3+", nullable="3+", default=None)


class HeartbeatResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    throttle_time_ms: int = field(int32, "1+")
    error_code: int = field(int16)


API = Api(12, "Heartbeat", HeartbeatRequest, HeartbeatResponse)

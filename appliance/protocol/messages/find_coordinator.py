"""FindCoordinator: which broker looks after a group, a transactional id or a share group."""

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

VERSIONS = Versions(0, 6, flexible_from=3)


class FindCoordinatorRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    key: str = field(string, "0-3")
    key_type: int = field(int8, "1+")
    coordinator_keys: list[str] = field(array(string), "4+")


class FindCoordinatorResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class Coordinator(Message):
        key: str = field(string, "4+")
        node_id: int = field(int32, "4+")
        host: str = field(string, "4+")
        port: int = field(int32, "4+")
        error_code: int = field(int16, "4+")
        error_message: str | None = field(string, "4+", nullable="4+")

    throttle_time_ms: int = field(int32, "1+")
    error_code: int = field(int16, "0-3")
    error_message: str | None = field(string, "1-3", nullable="1-3")
    node_id: int = field(int32, "0-3")
    host: str = field(string, "0-3")
    port: int = field(int32, "0-3")
    coordinators: list[Coordinator] = field(array(Coordinator), "4+")


API = Api(10, "FindCoordinator", FindCoordinatorRequest, FindCoordinatorResponse)

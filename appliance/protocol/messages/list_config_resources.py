"""ListConfigResources: the resources that have settings of their own."""

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

VERSIONS = Versions(0, 1, flexible_from=0)


class ListConfigResourcesRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    resource_types: list[int] = field(array(int8), "1+")


class ListConfigResourcesResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class ConfigResource(Message):
        resource_name: str = field(string)
        resource_type: int = field(int8, "1+", default=16)

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    config_resources: list[ConfigResource] = field(array(ConfigResource))


API = Api(74, "ListConfigResources", ListConfigResourcesRequest, ListConfigResourcesResponse)

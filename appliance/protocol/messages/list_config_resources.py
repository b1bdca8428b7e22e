"""ListConfigResources: the resources that have settings of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from appliance.protocol.types import Api, Versions, array, field, int8, int16, int32, string

VERSIONS = Versions(0, 1, flexible_from=0)


@dataclass(slots=True)
class ListConfigResourcesRequest:
    VERSIONS: ClassVar = VERSIONS

    resource_types: list[int] = field(array(int8), "1+")


@dataclass(slots=True)
class ListConfigResourcesResponse:
    VERSIONS: ClassVar = VERSIONS

    @dataclass(slots=True)
    class ConfigResource:
        resource_name: str = field(string)
        resource_type: int = field(int8, "1+", default=16)

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    config_resources: list[ConfigResource] = field(array(ConfigResource))


API = Api(74, "ListConfigResources", ListConfigResourcesRequest, ListConfigResourcesResponse)

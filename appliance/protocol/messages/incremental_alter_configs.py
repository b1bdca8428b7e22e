"""IncrementalAlterConfigs: set, delete, append to and subtract from single settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from appliance.protocol.types import (
    Api,
    Versions,
    array,
    boolean,
    field,
    int8,
    int16,
    int32,
    string,
)

VERSIONS = Versions(0, 1, flexible_from=1)


@dataclass(slots=True)
class IncrementalAlterConfigsRequest:
    VERSIONS: ClassVar = VERSIONS

    @dataclass(slots=True)
    class AlterableConfig:
        name: str = field(string)
        config_operation: int = field(int8)
        value: str | None = field(string, nullable="0+")

    @dataclass(slots=True)
    class AlterConfigsResource:
        resource_type: int = field(int8)
        resource_name: str = field(string)
        configs: list[IncrementalAlterConfigsRequest.AlterableConfig] = field(
            array(lambda: IncrementalAlterConfigsRequest.AlterableConfig)
        )

    resources: list[AlterConfigsResource] = field(array(AlterConfigsResource))
    validate_only: bool = field(boolean)


@dataclass(slots=True)
class IncrementalAlterConfigsResponse:
    VERSIONS: ClassVar = VERSIONS

    @dataclass(slots=True)
    class AlterConfigsResourceResponse:
        error_code: int = field(int16)
        error_message: str | None = field(string, nullable="0+")
        resource_type: int = field(int8)
        resource_name: str = field(string)

    throttle_time_ms: int = field(int32)
    responses: list[AlterConfigsResourceResponse] = field(array(AlterConfigsResourceResponse))


API = Api(
    44, "IncrementalAlterConfigs", IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
)

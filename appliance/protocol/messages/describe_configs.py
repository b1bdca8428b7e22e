"""DescribeConfigs: settings of topics and brokers, with source, default and type."""

from __future__ import annotations

from typing import ClassVar

from appliance.protocol.types import (
    Api,
    Message,
    Versions,
    array,
    boolean,
    field,
    int8,
    int16,
    int32,
    string,
)

VERSIONS = Versions(1, 4, flexible_from=4)


class DescribeConfigsRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class DescribeConfigsResource(Message):
        resource_type: int = field(int8)
        resource_name: str = field(string)
        configuration_keys: list[str] | None = field(array(string), nullable="0+")

    resources: list[DescribeConfigsResource] = field(array(DescribeConfigsResource))
    include_synonyms: bool = field(boolean)
    include_documentation: bool = field(boolean, "3+")


class DescribeConfigsResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class DescribeConfigsSynonym(Message):
        name: str = field(string)
        value: str | None = field(string, nullable="0+")
        source: int = field(int8)

    class DescribeConfigsResourceResult(Message):
        name: str = field(string)
        value: str | None = field(string, nullable="0+")
        read_only: bool = field(boolean)
        config_source: int = field(int8, default=-1)
        is_sensitive: bool = field(boolean)
        synonyms: list[DescribeConfigsResponse.DescribeConfigsSynonym] = field(
            array(lambda: DescribeConfigsResponse.DescribeConfigsSynonym)
        )
        config_type: int = field(int8, "3+")
        documentation: str | None = field(string, "3+", nullable="0+")

    class DescribeConfigsResult(Message):
        error_code: int = field(int16)
        error_message: str | None = field(string, nullable="0+")
        resource_type: int = field(int8)
        resource_name: str = field(string)
        configs: list[DescribeConfigsResponse.DescribeConfigsResourceResult] = field(
            array(lambda: DescribeConfigsResponse.DescribeConfigsResourceResult)
        )

    throttle_time_ms: int = field(int32)
    results: list[DescribeConfigsResult] = field(array(DescribeConfigsResult))


API = Api(32, "DescribeConfigs", DescribeConfigsRequest, DescribeConfigsResponse)

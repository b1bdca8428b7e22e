"""DescribeClientQuotas: quotas that match some users, client ids or addresses."""

from __future__ import annotations

from typing import ClassVar

from appliance.protocol.types import (
    Api,
    Message,
    Versions,
    array,
    boolean,
    field,
    float64,
    int8,
    int16,
    int32,
    string,
)

VERSIONS = Versions(0, 1, flexible_from=1)


class DescribeClientQuotasRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class ComponentData(Message):
        entity_type: str = field(string)
        match_type: int = field(int8)
        match: str | None = field(string, nullable="0+")

    components: list[ComponentData] = field(array(ComponentData))
    strict: bool = field(boolean)


class DescribeClientQuotasResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class EntityData(Message):
        entity_type: str = field(string)
        entity_name: str | None = field(string, nullable="0+")

    class ValueData(Message):
        key: str = field(string)
        value: float = field(float64)

    class EntryData(Message):
        entity: list[DescribeClientQuotasResponse.EntityData] = field(
            array(lambda: DescribeClientQuotasResponse.EntityData)
        )
        values: list[DescribeClientQuotasResponse.ValueData] = field(
            array(lambda: DescribeClientQuotasResponse.ValueData)
        )

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+")
    entries: list[EntryData] | None = field(array(EntryData), nullable="0+")


API = Api(48, "DescribeClientQuotas", DescribeClientQuotasRequest, DescribeClientQuotasResponse)

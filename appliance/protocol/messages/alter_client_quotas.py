"""AlterClientQuotas: set or remove quotas."""

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
    int16,
    int32,
    string,
)

VERSIONS = Versions(0, 1, flexible_from=1)


class AlterClientQuotasRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class EntityData(Message):
        entity_type: str = field(string)
        entity_name: str | None = field(string, nullable="0+")

    class OpData(Message):
        key: str = field(string)
        value: float = field(float64)
        remove: bool = field(boolean)

    class EntryData(Message):
        entity: list[AlterClientQuotasRequest.EntityData] = field(
            array(lambda: AlterClientQuotasRequest.EntityData)
        )
        ops: list[AlterClientQuotasRequest.OpData] = field(
            array(lambda: AlterClientQuotasRequest.OpData)
        )

    entries: list[EntryData] = field(array(EntryData))
    validate_only: bool = field(boolean)


class AlterClientQuotasResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class EntityData(Message):
        entity_type: str = field(string)
        entity_name: str | None = field(string, nullable="0+")

    class EntryData(Message):
        error_code: int = field(int16)
        error_message: str | None = field(string, nullable="0+")
        entity: list[AlterClientQuotasResponse.EntityData] = field(
            array(lambda: AlterClientQuotasResponse.EntityData)
        )

    throttle_time_ms: int = field(int32)
    entries: list[EntryData] = field(array(EntryData))


API = Api(49, "AlterClientQuotas", AlterClientQuotasRequest, AlterClientQuotasResponse)

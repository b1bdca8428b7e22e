"""GetTelemetrySubscriptions: which metrics a client should push, and how often (KIP-714)."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

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
    uuid,
)

VERSIONS = Versions(0, 0, flexible_from=0)


class GetTelemetrySubscriptionsRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    client_instance_id: UUID = field(uuid)


class GetTelemetrySubscriptionsResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    client_instance_id: UUID = field(uuid)
    subscription_id: int = field(int32)
    accepted_compression_types: list[int] = field(array(int8))
    push_interval_ms: int = field(int32)
    telemetry_max_bytes: int = field(int32)
    delta_temporality: bool = field(boolean)
    requested_metrics: list[str] = field(array(string))


API = Api(
    71,
    "GetTelemetrySubscriptions",
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)

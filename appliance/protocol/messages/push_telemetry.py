"""PushTelemetry: metrics of a client (KIP-714)."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from appliance.protocol.types import (
    Api,
    Message,
    Versions,
    boolean,
    data,
    field,
    int8,
    int16,
    int32,
    uuid,
)

VERSIONS = Versions(0, 0, flexible_from=0)


class PushTelemetryRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    client_instance_id: UUID = field(uuid)
    subscription_id: int = field(int32)
    terminating: bool = field(boolean)
    compression_type: int = field(int8)
    metrics: bytes = field(data)


class PushTelemetryResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)


API = Api(72, "PushTelemetry", PushTelemetryRequest, PushTelemetryResponse)

"""PushTelemetry 0: checks a push as Kafka does, and discards the metrics: nobody requested them.

The API is served, but not listed in ApiVersions; see GetTelemetrySubscriptions.

Rights: none.

Left out: a receiver of metrics; enforcement of the push interval.
"""

from __future__ import annotations

from appliance.api.handlers.call import Call
from appliance.api.handlers.telemetry import (
    CODECS,
    PUSH_MAX_BYTES,
    SUBSCRIPTION_ID,
    is_instance_id,
)
from appliance.broker.broker import Broker
from appliance.protocol import ErrorCode
from appliance.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

KEY = 72
VERSIONS = (0, 0)
IS_LISTED = False


def handle(broker: Broker, request: PushTelemetryRequest, call: Call) -> PushTelemetryResponse:
    return PushTelemetryResponse(error_code=_fault(request))


def _fault(request: PushTelemetryRequest) -> ErrorCode:
    if not is_instance_id(request.client_instance_id):
        return ErrorCode.INVALID_REQUEST
    if request.subscription_id != SUBSCRIPTION_ID:
        return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    if request.compression_type not in CODECS:
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if len(request.metrics) > PUSH_MAX_BYTES:
        return ErrorCode.TELEMETRY_TOO_LARGE
    return ErrorCode.NONE

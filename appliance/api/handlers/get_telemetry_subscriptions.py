"""GetTelemetrySubscriptions 0: no metrics are wanted; the client asks again after five minutes.

A client without an instance id gets one. The API is served, but not listed in ApiVersions: Kafka
lists it only with a plug-in for metrics, and clients do not use unlisted APIs. Subscriptions of
kafka-client-metrics are stored, and have no effect without such a plug-in.

Rights: none.

Left out: a receiver of metrics.
"""

from __future__ import annotations

from appliance.api.handlers.call import Call
from appliance.api.handlers.telemetry import (
    PUSH_INTERVAL_MS,
    PUSH_MAX_BYTES,
    SUBSCRIPTION_ID,
    is_instance_id,
)
from appliance.broker.broker import Broker
from appliance.catalog import kafka_uuid
from appliance.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)

KEY = 71
VERSIONS = (0, 0)
IS_LISTED = False


def handle(
    broker: Broker, request: GetTelemetrySubscriptionsRequest, call: Call
) -> GetTelemetrySubscriptionsResponse:
    given = request.client_instance_id
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=given if is_instance_id(given) else kafka_uuid.new(),
        subscription_id=SUBSCRIPTION_ID,
        push_interval_ms=PUSH_INTERVAL_MS,
        telemetry_max_bytes=PUSH_MAX_BYTES,
        delta_temporality=True,
    )

"""What the two telemetry APIs have in common."""

from __future__ import annotations

from uuid import UUID

from appliance.catalog.kafka_uuid import RESERVED_MAX

SUBSCRIPTION_ID = 0  # of the one subscription that there is: to nothing
PUSH_INTERVAL_MS = 300_000  # Kafka's default; clients ask again after it
PUSH_MAX_BYTES = 1 << 20  # Kafka's telemetry.max.bytes
CODECS = range(5)  # none, gzip, snappy, lz4, zstd


def is_instance_id(client_instance_id: UUID) -> bool:
    """Kafka keeps the first ids to itself."""
    return client_instance_id.int > RESERVED_MAX

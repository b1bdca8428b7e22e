"""The columns of a record, as Spark's own Kafka connector has them, in Spark's words."""

from __future__ import annotations

RECORD = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int"
)
HEADERS = "headers array<struct<key: string, value: binary>>"


def record_schema(include_headers: bool) -> str:
    return f"{RECORD}, {HEADERS}" if include_headers else RECORD

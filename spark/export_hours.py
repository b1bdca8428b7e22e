"""The hour of a record: from its timestamp, or from a field of its value."""

from __future__ import annotations

import json
import math
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from appliance_spark.export_layout import HOURS_MAX, ExportFailed

if TYPE_CHECKING:
    import pyarrow as pa

HOUR_US = 3_600_000_000
APPEND_TIME = 1  # a record's timestampType, if the broker stamped it
WAYS = "timestamp, append or field:NAME"
# The unit of a number as a time, by its size. Each limit is a date after the year 5000.
UNITS = ((10**11, 1_000_000), (10**14, 1000), (10**17, 1))


def check_way(way: str) -> None:
    if way not in ("timestamp", "append") and not way.startswith("field:"):
        raise ExportFailed(f"got partition by {way!r}, wanted {WAYS}")


def by_timestamp(batch: pa.RecordBatch, way: str) -> pa.Array:
    """The hour of each record, counted from 1970; null without a time."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if way == "append":
        _all_stamped(batch)
    moments = batch.column("timestamp").cast(pa.int64())
    hours = pc.divide(moments, HOUR_US)
    is_time = pc.and_(pc.greater_equal(moments, 0), pc.less(hours, HOURS_MAX))
    return pc.if_else(is_time, hours, pa.scalar(None, pa.int64()))


def _all_stamped(batch: pa.RecordBatch) -> None:
    import pyarrow.compute as pc

    others = pc.sum(pc.not_equal(batch.column("timestampType"), APPEND_TIME), min_count=0).as_py()
    if others:
        raise ExportFailed(
            f"{others} records from offset {batch.column('offset')[0]} have no append time: their "
            "topic keeps the producers' (message.timestamp.type=LogAppendTime changes that). "
            "Partition by timestamp"
        )


def by_field(value: bytes | None, path: list[str]) -> int:
    """The hour of one JSON value. Raises ValueError with the reason, for a dead letter."""
    if value is None:
        raise ValueError(f"field {'.'.join(path)}: the value is null")
    return hour_of(json.loads(value), path)


def hour_of(value: Any, path: list[str]) -> int:
    for name in path:
        if not isinstance(value, dict) or name not in value:
            raise ValueError(f"field {'.'.join(path)} is missing")
        value = value[name]
    hour = _microseconds(value, ".".join(path)) // HOUR_US
    if not 0 <= hour < HOURS_MAX:
        raise ValueError(f"field {'.'.join(path)}: {value!r} is not a time since 1970")
    return hour


def _microseconds(value: Any, name: str) -> int:
    if isinstance(value, datetime):
        return _of(value)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if is_number and math.isfinite(value):
        for limit, factor in UNITS:
            if abs(value) < limit:
                return int(value * factor)
        return int(value) // 1000
    if isinstance(value, str):
        try:
            return _of(datetime.fromisoformat(value.replace("Z", "+00:00")))
        except ValueError:
            pass
    raise ValueError(f"field {name}: {value!r} is not a time")


def _of(moment: datetime) -> int:
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    since = zoned - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds

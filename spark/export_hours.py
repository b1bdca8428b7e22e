"""The folder of a record: the day or the hour of its timestamp, or of a field of its value, by the
clocks of a zone.

    topic=T/date=2026-11-21/hour=08    by the hour, which is the default, in UTC
    topic=T/date=2026-11-21            by the day

Hours are counted by the zone's clocks from 1970, so an hour that clocks show twice is one folder,
and one that they skip is none.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from appliance.export.export_options import LAYOUTS, zone_fault
from appliance_spark.export_layout import ExportFailed

if TYPE_CHECKING:
    import pyarrow as pa

HOUR_US, MINUTE_US = 3_600_000_000, 60_000_000
# From 0001-01-02 to 9999-12-30: a day less than dates have, since a zone is up to a day from UTC.
HOURS_MIN, HOURS_MAX = -24 * 719_161, 24 * 2_932_896
NO_HOUR = "__HIVE_DEFAULT_PARTITION__"  # Hive's and Spark's name for a partition of null
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
UTC = "UTC"
APPEND_TIME = 1  # a record's timestampType, if the broker stamped it
WAYS = "timestamp, append or field:NAME"
# The unit of a number as a time, by its size. Each limit is a date after the year 5000.
UNITS = ((10**11, 1_000_000), (10**14, 1000), (10**17, 1))


def check_way(way: str) -> None:
    if way not in ("timestamp", "append") and not way.startswith("field:"):
        raise ExportFailed(f"got partition by {way!r}, wanted {WAYS}")


@dataclass(frozen=True)
class Layout:
    """The folders of a topic. A target keeps it: readers want the same folders everywhere."""

    per: str = "hour"
    zone: str = UTC

    @classmethod
    def of(cls, row: dict[str, str] | None) -> Layout:
        """As a manifest has it; older ones have none."""
        return cls(**row) if row else cls()

    def __post_init__(self) -> None:
        if self.per not in LAYOUTS:
            raise ExportFailed(f"got the layout {self.per!r}, wanted {' or '.join(LAYOUTS)}")
        if why := zone_fault(self.zone):
            raise ExportFailed(f"got the zone {self.zone!r}: {why}")

    def __str__(self) -> str:
        return f"by the {self.per} in {self.zone}"

    def folder(self, topic: str, hour: int | None) -> str:
        """`hour` counts from 1970 by the zone's clocks; None if a record has no time."""
        if hour is None or not HOURS_MIN <= hour < HOURS_MAX:
            words = [f"topic={topic}", f"date={NO_HOUR}", f"hour={NO_HOUR}"]
        else:
            begin = EPOCH + timedelta(hours=hour)
            words = [f"topic={topic}", f"date={begin.date()}", f"hour={begin:%H}"]
        return "/".join(words if self.per == "hour" else words[:-1])

    def end_ms(self, folder: str) -> int | None:
        """When its last moment is over by the zone's clocks; None if it has no time."""
        told = [part.split("=", 1)[1] for part in folder.split("/")[1:]]
        if NO_HOUR in told:
            return None
        begin = datetime.fromisoformat(f"{told[0]} {told[1]}:00" if told[1:] else told[0])
        last = begin + timedelta(**{f"{self.per}s": 1}, microseconds=-1)
        # where clocks are set back the last moment is there twice: the second is the end
        ends = [_since(last.replace(tzinfo=ZoneInfo(self.zone), fold=fold)) for fold in (0, 1)]
        return (max(ends) + 1) // 1000

    def slots(self, hours: pa.Array) -> pa.Array:
        """Hours of one folder become one number: that of the day's first."""
        import pyarrow.compute as pc

        return hours if self.per == "hour" else pc.multiply(_floored(hours, 24), 24)


# From a record's timestamp

def by_timestamp(batch: pa.RecordBatch, way: str, zone: str) -> pa.Array:
    """The hour of each record, counted from 1970 by the zone's clocks; null without a time. A
    record's own time is never before 1970: there -1 means none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if way == "append":
        _all_stamped(batch)
    moments = batch.column("timestamp").cast(pa.int64())
    is_time = pc.and_(
        pc.greater_equal(moments, 0), pc.less(pc.divide(moments, HOUR_US), HOURS_MAX))
    known = pc.if_else(is_time, moments, pa.scalar(None, pa.int64()))
    return _floored(known if zone == UTC else _by_clocks(known, zone), HOUR_US)


def _by_clocks(moments: pa.Array, zone: str) -> pa.Array:
    """Asked once for each minute, not for each record: since 1972 all clocks are set at whole
    minutes. Python's table of zones alone is asked, since Arrow reads another."""
    import pyarrow as pa
    import pyarrow.compute as pc

    minutes = pc.divide(moments, MINUTE_US).dictionary_encode()
    clocks = ZoneInfo(zone)
    offsets = [_offset_us(minute * MINUTE_US, clocks)
               for minute in minutes.dictionary.to_pylist()]
    return pc.add(moments, pa.array(offsets, pa.int64()).take(minutes.indices))


def _floored(numbers: pa.Array, by: int) -> pa.Array:
    """Arrow's own division goes towards zero."""
    import pyarrow.compute as pc

    cut = pc.divide(numbers, by)
    return pc.subtract(cut, pc.less(numbers, pc.multiply(cut, by)).cast("int64"))


def _all_stamped(batch: pa.RecordBatch) -> None:
    import pyarrow.compute as pc

    others = pc.sum(pc.not_equal(batch.column("timestampType"), APPEND_TIME), min_count=0).as_py()
    if others:
        raise ExportFailed(
            f"{others} records from offset {batch.column('offset')[0]} have no append time: their "
            "topic keeps the producers' (message.timestamp.type=LogAppendTime changes that). "
            "Partition by timestamp"
        )


# From a field of its value

def by_field(value: bytes | None, path: list[str], zone: str) -> int:
    """The hour of one JSON value. Raises ValueError with the reason, for a dead letter."""
    if value is None:
        raise ValueError(f"field {'.'.join(path)}: the value is null")
    return hour_of(json.loads(value), path, zone)


def hour_of(value: Any, path: list[str], zone: str) -> int:
    for name in path:
        if not isinstance(value, dict) or name not in value:
            raise ValueError(f"field {'.'.join(path)} is missing")
        value = value[name]
    try:
        hour = _clock_us(value, ".".join(path), ZoneInfo(zone)) // HOUR_US
    except OverflowError:
        hour = HOURS_MAX
    if not HOURS_MIN <= hour < HOURS_MAX:
        raise ValueError(f"field {'.'.join(path)}: {value!r} is not a time of the years 1 to 9999")
    return hour


def _clock_us(value: Any, name: str, clocks: ZoneInfo) -> int:
    """A time without an offset from UTC, and a date, are the zone's."""
    moment = _moment(value)
    if isinstance(moment, datetime) and moment.tzinfo is None:
        return _since(moment.replace(tzinfo=timezone.utc))
    instant = _since(moment) if isinstance(moment, datetime) else _microseconds(moment, name)
    return instant + _offset_us(instant, clocks)


def _moment(value: Any) -> Any:
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            pass
    return value


def _microseconds(value: Any, name: str) -> int:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if is_number and math.isfinite(value):
        for limit, factor in UNITS:
            if abs(value) < limit:
                return int(value * factor)
        return int(value) // 1000
    raise ValueError(f"field {name}: {value!r} is not a time")


def _offset_us(instant: int, clocks: ZoneInfo) -> int:
    if clocks.key == UTC:
        return 0
    offset = (EPOCH + timedelta(microseconds=instant)).astimezone(clocks).utcoffset()
    assert offset is not None
    return offset // timedelta(microseconds=1)


def _since(moment: datetime) -> int:
    since = moment - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds

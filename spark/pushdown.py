"""Applies a query's filters to the read: fewer partitions, shorter ranges of offsets.

Filters on `appliance`, `topic`, `partition` and `offset` are fully applied here. Of filters on
`timestamp` only a lower bound helps: earlier records may follow the first one that passes, so Spark
filters the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from pyspark.sql import datasource
from pyspark.sql.types import StructType

from appliance_spark.appliances import appliance_in, topic_in
from appliance_spark.batch_read import BatchReader
from appliance_spark.bounds import as_text
from appliance_spark.options import Given
from appliance_spark.planning import PlannedRange, Planner

Test = Callable[[Any], bool]

OF_A_PARTITION = (("appliance",), ("topic",), ("partition",))


@dataclass(frozen=True)
class Range:
    """A range of offsets from `start` up to `end`."""

    start: int = 0
    end: int = (1 << 63) - 1

    def narrowed(self, other: Range) -> Range:
        return Range(max(self.start, other.start), min(self.end, other.end))


def range_of(term: datasource.Filter) -> Range | None:
    value = getattr(term, "value", None)
    if type(value) is not int:
        return None
    known = {
        datasource.EqualTo: Range(value, value + 1),
        datasource.GreaterThan: Range(value + 1),
        datasource.GreaterThanOrEqual: Range(value),
        datasource.LessThan: Range(end=value),
        datasource.LessThanOrEqual: Range(end=value + 1),
    }
    return known.get(type(term))


def test_of(term: datasource.Filter) -> Test | None:
    """For a column with few values: topic and partition."""
    value = getattr(term, "value", None)
    known: dict[type, Test] = {
        datasource.EqualTo: lambda given: bool(given == value),
        datasource.In: lambda given: given in (value or ()),
        datasource.GreaterThan: lambda given: bool(given > value),
        datasource.GreaterThanOrEqual: lambda given: bool(given >= value),
        datasource.LessThan: lambda given: bool(given < value),
        datasource.LessThanOrEqual: lambda given: bool(given <= value),
    }
    return known.get(type(term)) if value is not None else None


def earliest_ms(term: datasource.Filter) -> int | None:
    """Records before this time do not pass the filter."""
    value = getattr(term, "value", None)
    lower = (datasource.EqualTo, datasource.GreaterThan, datasource.GreaterThanOrEqual)
    if not isinstance(term, lower) or not isinstance(value, datetime):
        return None
    if value.tzinfo is None:  # Spark passes the driver's local time
        value = value.astimezone()
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    return max(0, int((value - epoch).total_seconds() * 1000) - 1)  # a float may round up


class FilteringReader(BatchReader):
    def __init__(self, given: Given, schema: StructType) -> None:
        super().__init__(given, schema)
        self.terms: list[datasource.Filter] = []
        self.offsets = Range()
        self.since_ms = 0

    def pushFilters(self, filters: list[datasource.Filter]) -> Iterable[datasource.Filter]:
        """Returns the filters that Spark must still apply."""
        return [each for each in filters if not self._take(each)]

    def _take(self, term: datasource.Filter) -> bool:
        if isinstance(term, datasource.IsNotNull):
            return getattr(term, "attribute", ()) in (*OF_A_PARTITION, ("offset",))
        column = getattr(term, "attribute", ())
        if column == ("timestamp",):
            self.since_ms = max(self.since_ms, earliest_ms(term) or 0)
        elif column in OF_A_PARTITION and test_of(term):
            self.terms.append(term)
            return True
        elif column == ("offset",) and (found := range_of(term)):
            self.offsets = self.offsets.narrowed(found)
            return True
        return False

    def narrowed(self, ranges: list[PlannedRange]) -> list[PlannedRange]:
        kept = [self._cut(each) for each in ranges if self._passes(each)]
        kept = [each for each in kept if each.start < each.end]
        return [*self._later(kept)] if self.since_ms else kept

    def _passes(self, planned: PlannedRange) -> bool:
        return all(
            test(value_of(planned, attribute_of(term)))
            for term in self.terms
            if (test := test_of(term)) is not None
        )

    def _cut(self, planned: PlannedRange) -> PlannedRange:
        start, end = max(planned.start, self.offsets.start), min(planned.end, self.offsets.end)
        return replace(planned, start=start, end=max(start, end))

    def _later(self, ranges: Sequence[PlannedRange]) -> Iterator[PlannedRange]:
        planner = Planner(self.settings)
        for topic in dict.fromkeys(each.topic for each in ranges):
            of = [each for each in ranges if each.topic == topic]
            since = as_text({each.partition: f"@{self.since_ms}" for each in of})
            end = as_text({each.partition: each.end for each in of})
            plan = planner.plan(topic, since, end)
            starts = {each["partition"]: each["start"] for each in plan["partitions"]}
            for each in of:
                start = max(each.start, starts[each.partition])
                yield replace(each, start=start, end=max(start, each.end))


def attribute_of(term: datasource.Filter) -> str:
    return str(getattr(term, "attribute", ("",))[0])


def value_of(planned: PlannedRange, column: str) -> Any:
    known = {"appliance": appliance_in(planned.topic), "topic": topic_in(planned.topic)}
    return known.get(column, planned.partition)

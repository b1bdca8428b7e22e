"""Batch reads: a plan when the query is planned, and a task for each of its splits.

There are two readers, because Spark refuses one that accepts filters while its setting
`spark.sql.python.filterPushdown.enabled` is off, as it is in a session without our `register`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from appliance_spark.bounds import EARLIEST, ending, starting
from appliance_spark.columns import columns_of
from appliance_spark.fetching import Fetching, Source
from appliance_spark.options import Given
from appliance_spark.planning import PlannedRange, Planner, Settings, Split, settings_of

if TYPE_CHECKING:
    import pyarrow as pa


def source_of(settings: Settings, schema: StructType) -> Source:
    of_any, *_ = settings.endpoints.values()  # each split has its own address
    return Source(
        of_any, settings.isolation, settings.fail_on_data_loss, columns_of(schema)
    )


def read_split(source: Source, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    if isinstance(partition, Split):  # without splits Spark creates a partition of its own
        yield from Fetching(source, partition).batches()


class BatchReader(DataSourceReader):
    def __init__(self, given: Given, schema: StructType) -> None:
        self.settings = settings_of(given)
        self.source = source_of(self.settings, schema)
        self.first, self.end = starting(given, EARLIEST), ending(given)

    def partitions(self) -> list[Split]:
        planner = Planner(self.settings)
        return planner.splits(self.narrowed(planner.resolve(self.first, self.end)))

    def narrowed(self, ranges: list[PlannedRange]) -> list[PlannedRange]:
        return ranges

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_split(self.source, partition)


def takes_filters() -> bool:
    """Whether Spark will offer filters: it asks in a process of its own kind."""
    return "pyspark.sql.worker.data_source_pushdown_filters" in (
        *sys.modules,
        getattr(sys.modules["__main__"].__spec__, "name", ""),
    )

"""A stream's rows as Arrow, for PySpark 4.1 and newer. Imported only with such a PySpark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter
from pyspark.sql.types import StructType

from appliance_spark.options import Given
from appliance_spark.write import Writing, sink_of
from appliance_spark.writers import Written

if TYPE_CHECKING:
    import pyarrow as pa


class StreamArrowWriter(DataSourceStreamArrowWriter):
    def __init__(self, given: Given, schema: StructType) -> None:
        self.sink = sink_of(given, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        with Writing(self.sink) as writing:
            for rows in iterator:
                writing.write(rows)
            return Written(writing.finish())

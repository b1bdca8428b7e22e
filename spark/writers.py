"""Spark's interface for writing, in batches or streams: rows as Arrow if this PySpark has them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import datasource
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import Row, StructType

from appliance_spark.options import Given, OptionInvalid
from appliance_spark.write import Writing, sink_of

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_AT_ONCE = 10_000  # for a PySpark that passes a stream's rows one by one


@dataclass
class Written(WriterCommitMessage):
    """Acknowledged records of one task."""

    count: int


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, given: Given, schema: StructType, overwrite: bool) -> None:
        refuse_overwriting(overwrite)
        self.sink = sink_of(given, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        with Writing(self.sink) as writing:
            for rows in iterator:
                writing.write(rows)
            return Written(writing.finish())


class StreamRowWriter(DataSourceStreamWriter):
    """For PySpark 4.0."""

    def __init__(self, given: Given, schema: StructType) -> None:
        self.sink, self.schema = sink_of(given, schema), schema

    def write(self, iterator: Iterator[Row]) -> Written:
        with Writing(self.sink) as writing:
            for rows in batches_of_rows(iterator, self.schema):
                writing.write(rows)
            return Written(writing.finish())


def batches_of_rows(rows: Iterator[Row], schema: StructType) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    kind = to_arrow_schema(schema)
    while some := list(itertools.islice(rows, ROWS_AT_ONCE)):
        columns = zip(*some, strict=True)
        arrays = [pa.array(each, field.type) for each, field in zip(columns, kind, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=kind)


def refuse_overwriting(overwrite: bool) -> None:
    if overwrite:
        raise OptionInvalid("a log is appended to, got mode overwrite or complete, wanted append")


def stream_writer_of(
    given: Given, schema: StructType, overwrite: bool
) -> datasource.DataSourceStreamWriter:
    refuse_overwriting(overwrite)
    if not hasattr(datasource, "DataSourceStreamArrowWriter"):
        return StreamRowWriter(given, schema)
    from appliance_spark.stream_arrow_write import StreamArrowWriter

    return StreamArrowWriter(given, schema)

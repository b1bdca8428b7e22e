"""How others read the folder of an export. Each counts its rows; none may be there twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import polars
import pyarrow.dataset
from pyspark.sql import SparkSession


class Doubled(AssertionError):
    """A record was read twice."""


def by_duckdb(folder: Path) -> int:
    with duckdb.connect() as duck:
        found = duck.execute(
            'select count(*), count(distinct (partition, "offset")) from '
            f"read_parquet('{folder}/**/*.parquet', hive_partitioning=true)").fetchone()
    assert found is not None
    return _once(*found)


def by_pyarrow(folder: Path) -> int:
    data = pyarrow.dataset.dataset(folder, format="parquet", partitioning="hive")
    table = data.to_table(columns=["partition", "offset"])
    groups = table.group_by(["partition", "offset"]).aggregate([])
    return _once(table.num_rows, groups.num_rows)


def by_polars(folder: Path) -> int:
    frame = polars.scan_parquet(f"{folder}/**/*.parquet", hive_partitioning=True)
    rows = frame.select("partition", "offset").collect()
    return _once(rows.height, rows.unique().height)


def by_spark(spark: SparkSession, folder: Path) -> int:
    rows = spark.read.parquet(str(folder)).selectExpr(
        "count(*)", "count(distinct `partition`, `offset`)").collect()
    return _once(*rows[0])


def _once(rows: int, distinct: int) -> int:
    if rows != distinct:
        raise Doubled(f"{rows} rows of {distinct} records")
    return rows


READERS: dict[str, Callable[[Path], int]] = {
    "duckdb": by_duckdb, "pyarrow": by_pyarrow, "polars": by_polars,
}

"""The tables that follow an export, opened and read as their users do."""

from __future__ import annotations

from collections import Counter

import polars
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from tests.support.duck import a_duck
from tests.support.exporting import Export, places
from tests.support.spark_data import Place


def table_of(export: Export) -> Table:
    """The table as users open it, by the documentation."""
    root = export.target.root
    with load_catalog(
        "appliance", type="sql", uri=f"sqlite:///{root}/_iceberg/catalog.db",
        warehouse=f"file://{root}/_iceberg",
    ) as catalog:
        return catalog.load_table(f"lake.{export.topic}")


def by_pyiceberg(export: Export) -> Counter[Place]:
    return places(table_of(export).scan().to_arrow().to_pylist())


def by_duckdb(export: Export) -> Counter[Place]:
    folder = export.target.root / "_iceberg" / "lake" / export.topic
    with a_duck("avro", "iceberg") as duck:
        return places(duck.execute(f"select * from iceberg_scan('{folder}')").to_arrow_table()
                      .to_pylist())


def delta_of(export: Export) -> DeltaTable:
    return DeltaTable(str(export.target.root / "_delta" / export.topic))


def by_deltalake(export: Export) -> Counter[Place]:
    return places(delta_of(export).to_pyarrow_table().to_pylist())


def by_polars(export: Export) -> Counter[Place]:
    return places(polars.read_delta(delta_of(export).table_uri).to_dicts())


def delta_by_duckdb(export: Export) -> Counter[Place]:
    folder = export.target.root / "_delta" / export.topic
    with a_duck("delta") as duck:
        return places(duck.execute(f"select * from delta_scan('{folder}')").to_arrow_table()
                      .to_pylist())

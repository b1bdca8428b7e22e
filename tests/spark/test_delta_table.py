"""The Delta table of an export, read by deltalake, DuckDB and Polars: it has exactly the records
that a foreign consumer reads from the log, wherever a run was stopped between the commits of the
manifest and of the table."""

from __future__ import annotations

import pytest

from appliance_spark import export_compact, export_delta, export_iceberg, export_manifest
from appliance_spark.export_layout import ExportFailed
from tests.support.export_tables import (
    by_deltalake,
    by_polars,
    by_pyiceberg,
    delta_by_duckdb,
    delta_of,
)
from tests.support.exporting import Killed, Make, killed_at, send


def test_a_delta_table_beside_an_iceberg_table_follows_every_kill_and_compaction(
    make: Make,
) -> None:
    export = make("deltaed")
    send(export, 300)
    export.run(export_iceberg.settings(None, None), has_delta=True, layout="day",
               zone="Europe/Berlin")
    log = export.topics.log_of(export.topic)
    assert by_deltalake(export) == delta_by_duckdb(export) == by_polars(export) == log
    for number, (owner, name, after) in enumerate([
        (export_manifest, "save", True),
        (export_delta, "_commit", False),
        (export_delta, "_commit", True),
    ]):
        send(export, 100, 300 + number * 100)
        export.run_killed(lambda patch, at=(owner, name, after): killed_at(patch, *at))
    export.run()
    log = export.topics.log_of(export.topic)
    assert log.total() == 600
    assert by_deltalake(export) == by_pyiceberg(export) == log == export.rows()
    assert export.verify() == []

    with pytest.MonkeyPatch.context() as patch:
        killed_at(patch, export_delta, "_commit", False)
        with pytest.raises(Killed):
            export_compact.compact(export.target, lambda: export.spark, 1000, grace_ms=500)
    assert by_deltalake(export) == log  # unchanged: nothing is deleted yet
    assert any("which the manifest has not" in problem for problem in export.verify())
    done = export_compact.compact(export.target, lambda: export.spark, 1500, grace_ms=500)
    assert done["deleted"] > 0
    assert by_deltalake(export) == delta_by_duckdb(export) == by_polars(export) == log
    assert export.verify() == []
    delta_of(export).delete("partition = 0")
    assert any("by somebody else" in problem for problem in export.verify())
    with pytest.raises(ExportFailed, match="the table again from the existing files"):
        export.run()

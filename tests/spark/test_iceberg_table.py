"""The Iceberg table of an export, read by pyiceberg and by DuckDB: it has exactly the records that
a foreign consumer reads from the log, wherever a run was stopped between the commits of the
manifest and of the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation

from appliance_spark import export_compact, export_iceberg, export_manifest
from tests.support.duck import a_duck
from tests.support.export_tables import by_duckdb, by_pyiceberg, table_of
from tests.support.exporting import Killed, Make, killed_at, send

TABLE = export_iceberg.settings(None, None)


def told(table: Table) -> list[dict[str, Any]]:
    """The offsets of its snapshots: from and to by partition."""
    return [json.loads(each.summary.additional_properties["appliance.offsets"])
            for each in table.snapshots() if each.summary]


def test_a_table_follows_whatever_is_killed_between_its_commit_and_the_manifests(
    make: Make,
) -> None:
    export = make("iced")
    send(export, 300)
    export.run(TABLE)
    log = export.topics.log_of(export.topic)
    assert by_pyiceberg(export) == by_duckdb(export) == log
    for number, (owner, name, after) in enumerate([
        (export_manifest, "save", True),
        (export_iceberg, "_commit", False),
        (export_iceberg, "_commit", True),
    ]):
        send(export, 200, 300 + number * 200)
        export.run_killed(lambda patch, at=(owner, name, after): killed_at(patch, *at))
        if number % 2:
            export.run()  # otherwise the next kill starts with the files of this one
    export.run()
    log = export.topics.log_of(export.topic)
    assert sum(log.values()) == 900
    assert by_pyiceberg(export) == by_duckdb(export) == log == export.rows()
    assert export.verify() == []
    ends = [{number: end for number, (_, end) in each.items()} for each in told(table_of(export))]
    begins = [{number: first for number, (first, _) in each.items()}
              for each in told(table_of(export))]
    assert begins[1:] == ends[:-1]
    assert begins[0] == {"0": 0, "1": 0}
    assert ends[-1] == {"0": 450, "1": 450}


def test_compaction_swaps_the_files_of_a_table_and_forgets_what_it_deletes(make: Make) -> None:
    export = make("squeezed")
    for number in range(2):
        send(export, 100, number * 100)
        export.run(TABLE)
    log = export.topics.log_of(export.topic)
    with pytest.MonkeyPatch.context() as patch:
        killed_at(patch, export_iceberg, "_commit", False)
        with pytest.raises(Killed):
            export_compact.compact(export.target, lambda: export.spark, 1000, grace_ms=500)
    assert by_pyiceberg(export) == log  # unchanged: nothing is deleted yet
    assert any("which the manifest has not" in problem for problem in export.verify())
    done = export_compact.compact(export.target, lambda: export.spark, 1500, grace_ms=500)
    assert done["deleted"] > 0
    assert by_pyiceberg(export) == by_duckdb(export) == log == export.rows()
    assert export.verify() == []
    table = table_of(export)
    (snapshot,) = table.snapshots()
    assert snapshot.summary is not None
    assert snapshot.summary.operation is Operation.OVERWRITE
    held = {each.name for each in Path(table.metadata_location[7:]).parent.glob("*.avro")}
    assert len(held) == 1 + len(snapshot.manifests(table.io))


def test_fields_that_come_later_are_columns_of_the_table(make: Make) -> None:
    export = make("grown", 1)
    export.topics.send(export.topic, [b'{"id": 1, "a": {"x": 1}, "a.b": true}', b"not json"])
    export.run(TABLE, schema={"mode": "json"})
    export.topics.send(export.topic, [b'{"id": 2, "a": {"x": 2, "y": ["z"]}, "more": 1.5}'])
    export.run(schema={"mode": "json"})
    rows = sorted(table_of(export).scan().to_arrow().to_pylist(), key=lambda row: row["_offset"])
    assert [(row["id"], row["a"], row["a.b"], row["more"]) for row in rows] == [
        (1, {"x": 1, "y": None}, True, None), (2, {"x": 2, "y": ["z"]}, None, 1.5)]
    folder = export.target.root / "_iceberg" / "lake" / export.topic
    with a_duck("avro", "iceberg") as duck:
        found = duck.execute(f"select id, a.y, more from iceberg_scan('{folder}') order by id")
        assert found.fetchall() == [(1, None, None), (2, ["z"], 1.5)]
    assert export.verify() == []

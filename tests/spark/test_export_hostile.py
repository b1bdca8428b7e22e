"""Records from an attacker who wants to break a table: the run ends, every reader can read the
table, and a wrong schema can be replaced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner

from appliance.cli.main import main
from appliance_spark import (
    export_compact,
    export_iceberg,
    export_manifest,
    export_publish,
    export_run,
)
from appliance_spark.export_layout import ExportFailed
from tests.spark.test_export_schema import GOOD, GOOD_TYPE, HOSTILE
from tests.support.duck import a_duck
from tests.support.exporting import Export, Killed, Make, killed_at

JSON = {"mode": "json"}
TEXT, NUMBER = {"fields": {"id": "string"}}, {"fields": {"id": "long"}}


def test_hostile_records_spoil_no_table(make: Make) -> None:
    export = make("hostile", 2, max_message_bytes="4000000")
    export.topics.send(export.topic, [each for values in HOSTILE.values() for each in values], 0)
    for partition in (0, 1):
        export.topics.send(export.topic, [*GOOD] * 3, partition)
    done = export.run(export_iceberg.settings(None, None), schema=JSON)
    (schema,) = [each["schema"] for each in export_manifest.load(export.target)["topics"].values()]
    assert (schema["type"], schema["sampled"] > 600) == (GOOD_TYPE, True)
    assert done["rows"] + done["dead_letters"] == 600 + sum(map(len, HOSTILE.values()))
    assert export.verify() == []
    folder = (export.target.root / "topic=hostile").resolve()
    wanted = done["rows"]
    assert ds.dataset(folder, format="parquet", partitioning="hive").count_rows() == wanted
    frame = export.spark.read.parquet(str(folder))
    assert (frame.count(), frame.where("box.tags[0] = 'a'").count()) == (wanted, 600)
    with a_duck("avro", "iceberg") as duck:
        query = f"select count(*) from '{folder}/**/*.parquet' where box.x is not null"
        assert duck.execute(query).fetchone() == (600,)
        table = f"{export.target.root}/_iceberg/lake/hostile"
        query = f"select count(*) from iceberg_scan('{table}')"
        assert duck.execute(query).fetchone() == (wanted,)


def test_a_later_hostile_run_adds_no_column(make: Make) -> None:
    export = make("later", 1)
    export.topics.send(export.topic, [*GOOD])
    export.run(schema=JSON)
    export.topics.send(export.topic, [
        *HOSTILE["1,900 keys in one record"], *HOSTILE["a list 31 deep"], *GOOD])
    export.said.clear()
    export.run(schema=JSON)
    assert (pinned(export)["type"], export.said) == (GOOD_TYPE, [])


def pinned(export: Export) -> Any:
    return export_manifest.load(export.target)["topics"][export.topic]["schema"]


def told(export: Export, *words: str, code: int = 0) -> Any:
    given = ["--target", str(export.target.root), "--admin", export.topics.broker.admin, "--json"]
    done = CliRunner().invoke(main, ["export", "schema", export.topic, *words, *given])
    assert done.exit_code == code, done.output
    return json.loads(done.stdout) if code == 0 else done.output


@pytest.fixture
def spoiled(make: Make, tmp_path: Path) -> Export:
    """Half of the first records were invalid, so the column is text."""
    export = make(f"spoiled-{tmp_path.name.strip('_')}", 1)
    export.topics.send(export.topic, [b'{"id": "x"}', b'{"id": 1}'])
    export.run(schema=JSON)
    assert pinned(export)["type"] == TEXT
    export.topics.send(export.topic, [b'{"id": %d}' % i for i in range(2, 10)])
    return export


def test_a_schema_is_inferred_again_from_the_present_log(spoiled: Export) -> None:
    assert told(spoiled)["decided_by"] == "inference"
    refused = told(spoiled, "--infer-again", code=1)
    assert "1 files with 2 rows have other types: id is string, wanted long" in refused
    assert pinned(spoiled)["type"] == TEXT
    found = told(spoiled, "--infer-again", "--keep-old-files")
    assert (found["type"], found["version"], found["sampled"]) == (NUMBER, 1, 10)
    old_files = {*spoiled.target.data_files()}
    assert spoiled.run(schema=JSON)["rows"] == 8
    assert [(each["version"], each["rows"]) for each in told(spoiled)["files"]] == [(0, 2), (1, 8)]
    assert spoiled.verify() == []
    with duckdb.connect() as duck:
        files = f"'{spoiled.target.root}/topic=*/**/*.parquet'"
        query = f"select typeof(id) from read_parquet({files}, union_by_name=true)"
        assert duck.execute(query).fetchall() == [("VARCHAR",)] * 10
    (lost,) = old_files  # restored with its old types, not with today's
    wanted = (spoiled.target.root / lost).read_bytes()
    (spoiled.target.root / lost).unlink()
    reading = export_run.reading_of(spoiled.broker, 3, "read_committed")
    made = export_compact.repair(spoiled.target, lambda: spoiled.spark, lambda: reading, 0)
    assert (made, (spoiled.target.root / lost).read_bytes()) == ([lost], wanted)
    assert [(each["version"], each["rows"]) for each in told(spoiled)["files"]] == [(0, 2), (1, 8)]


def test_a_schema_that_a_person_sets_stays(spoiled: Export, tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text(json.dumps({"fields": {"id": "string", "more": "double"}}))
    assert told(spoiled, "--set", str(file))["decided_by"] == "person"
    spoiled.topics.send(spoiled.topic, [b'{"id": "a", "new": 1}'] * 20)
    spoiled.said.clear()
    assert spoiled.run(schema=JSON)["rows"] == 28
    assert (pinned(spoiled)["by"], spoiled.said) == ("person", [])
    assert pinned(spoiled)["type"] == {"fields": {"id": "string", "more": "double"}}
    file.write_text('{"fields": {"id": "int"}}')
    assert "field id: got int, wanted one of boolean" in told(spoiled, "--set", str(file), code=1)


def test_a_stopped_run_does_not_bring_the_old_schema_back(
    spoiled: Export, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        killed_at(patch, export_publish, "move_durably", False)
        with pytest.raises(Killed):
            spoiled.run(schema=JSON)
    told(spoiled, "--infer-again", "--keep-old-files")
    spoiled.run(schema=JSON)
    assert pinned(spoiled)["type"] == NUMBER


def test_a_schema_file_with_another_type_is_refused_beside_old_files(spoiled: Export) -> None:
    schema = {"mode": "json", "type": NUMBER, "given": NUMBER}
    with pytest.raises(ExportFailed, match=r"other types: id is string, wanted long.*new target"):
        spoiled.run(schema=schema)
    told(spoiled, "--infer-again", "--keep-old-files")
    assert spoiled.run(schema=schema)["rows"] == 8

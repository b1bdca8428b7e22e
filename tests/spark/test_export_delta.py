"""A Delta table beside a manifest, without Spark: kills between its steps, foreign commits, files
that were moved, lost or made again, and no deltalake."""

from __future__ import annotations

import sys
from pathlib import Path

import polars
import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable

from appliance_spark import export_delta, export_tables
from appliance_spark.export import export
from appliance_spark.export_layout import ExportFailed, Target
from appliance_spark.export_store_target import StoreTarget
from tests.support.duck import a_duck
from tests.support.exported_target import Exported


class Deltaed(Exported):
    def __init__(self, root: Path) -> None:
        super().__init__(root, None, has_delta=True)

    @property
    def folder(self) -> Path:
        return self.target.root / "_delta" / "t"

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(str(self.folder))

    def offsets(self) -> list[int]:
        """As three readers have them."""
        found = sorted(self.table.to_pyarrow_table()["offset"].to_pylist())
        with a_duck("delta") as duck:
            rows = duck.execute(f"select \"offset\" from delta_scan('{self.folder}')").fetchall()
        assert sorted(offset for (offset,) in rows) == found
        assert sorted(polars.read_delta(str(self.folder))["offset"].to_list()) == found
        return found


@pytest.fixture
def exported(tmp_path: Path) -> Deltaed:
    return Deltaed(tmp_path / "lake")


def test_commits_that_were_missed_become_one_version(exported: Deltaed) -> None:
    exported.add()
    exported.add()
    assert exported.problems() == ["Delta table t is missing. The next run makes it equal"]
    exported.follow()
    exported.follow()
    assert exported.said == ["Delta table t: 2 files added, 0 removed"]
    assert (exported.offsets(), exported.problems()) == (list(range(20)), [])
    assert exported.table.version() == 1
    exported.add()
    (lacks,) = exported.problems()
    assert lacks.startswith("Delta table t lacks _topic/date=2026-11-21/hour=08/")


def test_a_version_tells_the_commit_and_the_run_and_is_not_made_twice(exported: Deltaed) -> None:
    exported.add()
    exported.manifest["runs"] = [{"id": "run-1"}]
    exported.follow()
    (last, *_) = exported.table.history()
    assert (last["appliance.commit"], last["appliance.run"]) == ("1", "run-1")
    app = f"appliance-export-{exported.manifest['id']}"
    assert exported.table.transaction_version(app) == 1
    exported.manifest["sequence"] += 1  # a run without files
    exported.follow()
    exported.follow()
    assert (exported.table.transaction_version(app), exported.table.version()) == (2, 2)
    assert exported.offsets() == list(range(10))


def test_a_file_that_was_made_again_under_its_name_is_swapped(exported: Deltaed) -> None:
    path = exported.add()
    exported.follow()
    size = exported.write(path, 0, more=pa.array(["x"] * 10))
    exported.manifest["sequence"] += 1
    exported.manifest["files"][0].update(bytes=size, sequence=exported.manifest["sequence"])
    exported.follow()
    assert (exported.offsets(), exported.problems()) == (list(range(10)), [])
    assert exported.table.to_pyarrow_table()["more"].to_pylist() == ["x"] * 10


def test_new_fields_are_columns_also_within_structs(exported: Deltaed) -> None:
    exported.add(user=pa.array([{"a": 1}] * 10))
    exported.follow()
    exported.add(user=pa.array([{"a": 1, "b": ["x"]}] * 10), late=pa.array([1.5] * 10))
    exported.add(user=pa.array([{"c": True}] * 10))
    exported.follow()
    assert exported.offsets() == list(range(30))
    rows = {row["offset"]: row for row in exported.table.to_pyarrow_table().to_pylist()}
    assert rows[0] == {"offset": 0, "user": {"a": 1, "b": None, "c": None}, "late": None}
    assert rows[10] == {"offset": 10, "user": {"a": 1, "b": ["x"], "c": None}, "late": 1.5}
    assert rows[20]["user"] == {"a": None, "b": None, "c": True}


def test_a_version_of_somebody_elses_stops_it_until_the_table_is_made_again(
    exported: Deltaed,
) -> None:
    exported.add()
    exported.follow()
    exported.add()
    exported.table.delete("offset = 3")
    with pytest.raises(ExportFailed, match="was written by somebody else"):
        exported.follow()
    (problem,) = exported.problems()
    assert "export table --again" in problem
    done = CliRunner().invoke(export, ["table", "--target", str(exported.target.root), "--again"])
    assert done.output == "Delta table t: 2 files added, 0 removed\n"
    assert (exported.offsets(), exported.problems()) == (list(range(20)), [])


def test_a_file_that_the_manifest_has_not_is_found_and_removed(exported: Deltaed) -> None:
    exported.add()
    exported.add()
    exported.follow()
    gone = exported.manifest["files"].pop()
    exported.manifest["sequence"] += 1
    (problem,) = exported.problems()
    assert f"has _topic/{gone['path'][8:]}, which the manifest has not" in problem
    exported.follow()
    assert (exported.offsets(), exported.problems()) == (list(range(10)), [])


def test_a_moved_target_takes_its_table_along(exported: Deltaed) -> None:
    exported.add()
    exported.follow()
    moved = exported.target.root.with_name("moved")
    exported.target.root.rename(moved)
    exported.target = Target(moved)
    exported.add()
    exported.follow()
    assert (exported.offsets(), exported.problems()) == (list(range(20)), [])


def test_a_vacuum_leaves_the_files_of_the_target_alone(exported: Deltaed) -> None:
    exported.add()
    exported.add()
    exported.follow()
    other = exported.target.root / "topic=other" / "x.parquet"
    other.parent.mkdir()
    other.write_bytes(b"another topic's")
    doomed = exported.table.vacuum(
        retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
    assert (doomed, other.exists()) == ([], True)
    assert len(list(exported.target.root.glob("topic=t/**/*.parquet"))) == 2


def test_a_manifest_from_a_copy_or_of_another_target_is_refused(exported: Deltaed) -> None:
    exported.add()
    exported.add()
    exported.follow()
    exported.manifest["sequence"] -= 1
    with pytest.raises(ExportFailed, match="at commit 2, its manifest at 1: was the manifest"):
        exported.follow()
    exported.manifest.update(sequence=2, id="another")
    with pytest.raises(ExportFailed, match="is of another target"):
        exported.follow()


def test_a_log_that_cannot_be_read_is_told_and_built_again(exported: Deltaed) -> None:
    """As after a power cut, on a disk that lost what was synced."""
    exported.add()
    exported.follow()
    (exported.folder / "_delta_log" / "00000000000000000001.json").write_bytes(b"{")
    with pytest.raises(ExportFailed, match=r"their Delta table did not follow: .*--again"):
        exported.follow()
    export_tables.drop(exported.target, exported.manifest)
    exported.follow()
    assert exported.offsets() == list(range(10))


def test_without_deltalake_a_run_says_what_to_install(
    exported: Deltaed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(ExportFailed, match=r"pip install 'appliance-log\[delta\]'"):
        export_delta.check(exported.target, exported.manifest)


def test_in_an_object_store_there_is_none_before_anything_is_written(exported: Deltaed) -> None:
    with pytest.raises(ExportFailed, match=r"s3://lake/x: got a Delta table .* wanted one of a fo"):
        export_tables.keep(StoreTarget("s3://lake/x"), exported.manifest, None, has_delta=True)

"""An Iceberg table beside a manifest, without Spark: foreign commits, files that were moved, lost
or restored, and no pyiceberg."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyiceberg.catalog import Catalog, load_catalog

from appliance_spark import export_iceberg
from appliance_spark.export import export
from appliance_spark.export_iceberg import follow, problems
from appliance_spark.export_layout import ExportFailed, Target
from tests.support.exported_target import Exported


class Iced(Exported):
    def __init__(self, root: Path) -> None:
        super().__init__(root, export_iceberg.settings(None, None), has_delta=False)

    def offsets(self) -> list[int]:
        with self.catalog() as catalog:
            table = catalog.load_table("lake.t").scan().to_arrow()
        return sorted(table["offset"].to_pylist())

    def catalog(self) -> Catalog:
        folder = self.target.root / "_iceberg"
        return load_catalog("appliance", type="sql", uri=f"sqlite:///{folder}/catalog.db",
                            warehouse=f"file://{folder}")


@pytest.fixture
def exported(tmp_path: Path) -> Iced:
    return Iced(tmp_path / "lake")


def test_commits_that_were_missed_become_one_snapshot(exported: Iced) -> None:
    exported.add()
    exported.add()
    assert exported.problems() == ["table lake.t is missing. The next run makes it equal"]
    exported.follow()
    exported.follow()
    assert exported.said == ["table lake.t: 2 files added, 0 removed"]
    assert (exported.offsets(), exported.problems()) == (list(range(20)), [])
    exported.add()
    (lacks, position) = exported.problems()
    assert lacks.startswith("table lake.t lacks file:///")
    assert "is at {0: 20}, the manifest at {0: 30}" in position


def test_a_position_without_files_is_a_snapshot_too(exported: Iced) -> None:
    exported.add()
    exported.follow()
    exported.manifest["topics"]["t"]["position"] = {"0": 15, "1": 7}  # markers, dead letters
    exported.manifest["topics"]["t"]["begin"]["1"] = 5
    exported.manifest["sequence"] += 1
    exported.follow()
    assert exported.problems() == []
    with exported.catalog() as catalog:
        snapshot = catalog.load_table("lake.t").current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    told = snapshot.summary.additional_properties
    assert told["appliance.offsets"] == '{"0": [10, 15], "1": [5, 7]}'


def test_a_file_that_was_made_again_under_its_name_is_swapped(exported: Iced) -> None:
    path = exported.add()
    exported.follow()
    size = exported.write(path, 0, more=pa.array(["x"] * 10))
    exported.manifest["sequence"] += 1
    exported.manifest["files"][0].update(bytes=size, sequence=exported.manifest["sequence"])
    assert any("the manifest has not" in each for each in exported.problems())
    exported.follow()
    assert exported.said[-1] == "table lake.t: 1 files added, 1 removed"
    assert (exported.offsets(), exported.problems()) == (list(range(10)), [])


def test_a_snapshot_of_somebody_elses_stops_it_until_the_table_is_made_again(
    exported: Iced,
) -> None:
    exported.add()
    exported.follow()
    exported.add()
    with exported.catalog() as catalog:
        catalog.load_table("lake.t").delete("offset = 3")
    with pytest.raises(ExportFailed, match="was written by somebody else"):
        exported.follow()
    (problem,) = exported.problems()
    assert "export table --again" in problem
    done = CliRunner().invoke(export, ["table", "--target", str(exported.target.root), "--again"])
    assert done.output == "table lake.t: 2 files added, 0 removed\n"
    assert (exported.offsets(), exported.problems()) == (list(range(20)), [])


def test_a_planted_duplicate_and_a_lost_file_are_detected(exported: Iced) -> None:
    first, second = exported.add(), exported.add()
    exported.follow()
    other = exported.target.root / "other.parquet"
    other.write_bytes((exported.target.root / first).read_bytes())
    with exported.catalog() as catalog:
        table = catalog.load_table("lake.t")
        assert table.current_snapshot()
        told = table.current_snapshot().summary.additional_properties  # type: ignore[union-attr]
        ours = {name: text for name, text in told.items() if name.startswith("appliance.")}
        table.add_files([f"file://{other}"], snapshot_properties=ours)
        table.add_files([f"file://{exported.target.root}/{first}"], ours, False)
    assert [each.split("lake.t")[1].split("file://")[0] for each in exported.problems()] == [
        ": ", " lacks ", " has ", " has "]
    exported.follow()  # corrects snapshots that claim to be ours
    assert (exported.offsets(), exported.problems()) == (list(range(20)), [])
    exported.manifest["files"] = [each for each in exported.manifest["files"]
                                  if each["path"] == second]
    (problem,) = exported.problems()
    assert f"has file://{exported.target.root}/{first}, which the manifest has not" in problem


def test_another_tables_name_and_a_moved_folder_are_refused(exported: Iced) -> None:
    exported.add()
    (exported.target.root / "_iceberg").mkdir()
    with exported.catalog() as catalog:
        catalog.create_namespace("lake")
        catalog.create_table("lake.t", pa.schema([("offset", pa.int64())]))
    with pytest.raises(ExportFailed, match="is there already, and was not made by an export"):
        exported.follow()
    export_iceberg.drop(exported.target, exported.manifest)
    exported.follow()
    moved = exported.target.root.with_name("moved")
    exported.target.root.rename(moved)
    with pytest.raises(ExportFailed, match="table did not follow: FileNotFoundError"):
        follow(Target(moved), exported.manifest, exported.said.append)
    done = CliRunner().invoke(export, ["table", "--target", str(moved), "--again"])
    assert done.exit_code == 0, done.output
    assert problems(Target(moved), exported.manifest) == []


def test_a_manifest_from_a_copy_is_refused(exported: Iced) -> None:
    exported.add()
    exported.add()
    exported.follow()
    exported.manifest["files"].pop()
    exported.manifest["sequence"] -= 1
    with pytest.raises(ExportFailed, match="at commit 2, its manifest at 1: was the manifest"):
        exported.follow()


def test_old_snapshots_are_forgotten_with_their_metadata(
    exported: Iced, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_iceberg, "SNAPSHOTS_KEPT", 2)
    monkeypatch.setattr(export_iceberg, "SNAPSHOTS_MAX", 4)
    counts = []
    for _ in range(6):
        exported.add()
        exported.follow()
        with exported.catalog() as catalog:
            counts.append(len(catalog.load_table("lake.t").snapshots()))
    assert counts == [1, 2, 3, 4, 2, 3]
    assert (exported.offsets(), exported.problems()) == (list(range(60)), [])
    lists = list(exported.target.root.glob("_iceberg/lake/t/metadata/snap-*.avro"))
    assert len(lists) == 3


def test_without_pyiceberg_a_run_says_what_to_install(
    exported: Iced, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog.sql", None)
    with pytest.raises(ExportFailed, match=r"pip install 'appliance-log\[iceberg\]'"):
        export_iceberg.check(exported.target, exported.manifest)


@pytest.mark.parametrize("name", ["clicks", ".clicks", "lake."])
def test_a_table_name_without_a_namespace_is_refused(name: str) -> None:
    with pytest.raises(ExportFailed, match=r"wanted NAMESPACE\.NAME"):
        export_iceberg.settings(name, None)

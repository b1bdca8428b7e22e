"""Readers of an export's folder (DuckDB, pyarrow, Polars, Spark) count each record once while a
compaction runs or is killed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow.dataset
import pytest
from pyspark.sql import SparkSession

from appliance_spark import (
    export_compact,
    export_generation,
    export_manifest,
    export_run,
)
from appliance_spark.export_layout import ExportFailed
from tests.support.exporting import DISK_STEPS, Export, Killed, Make, rows_in, send
from tests.support.folder_readers import READERS, Doubled, by_spark

COUNT = 240


class Kill:
    """Ends a compaction before its nth step on the disk."""

    def __init__(self, at: int) -> None:
        self.left = at

    def plant(self, patch: pytest.MonkeyPatch) -> None:
        for name in DISK_STEPS:
            patch.setattr(os, name, self._counted(getattr(os, name)))
        clear = export_run.export_tasks.clear
        patch.setattr(export_run.export_tasks, "clear",
                      lambda folder: clear(folder) if self.left >= 0 else None)

    def _counted(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*given: Any, **named: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise Killed(step.__name__)
            return step(*given, **named)

        return stepped


def a_target(make: Make, topic: str) -> Export:
    export = make(topic)
    for number in range(2):
        send(export, COUNT // 2, number * COUNT // 2)
        export.run()
    return export


def compact(export: Export, now_ms: int = 1000) -> dict[str, int]:
    return export_compact.compact(export.target, lambda: export.spark, now_ms, grace_ms=500)


def counts(folder: Path, spark: SparkSession | None = None) -> set[int]:
    found = {read(folder) for read in READERS.values()}
    return found | {by_spark(spark, folder)} if spark else found


def test_each_record_is_counted_once_before_and_after_a_compaction(make: Make) -> None:
    export = make_and_open(make, "once")
    folder = export.target.root / "topic=once"
    pinned = folder.resolve()
    done = compact(export)
    assert done["merged"] > done["into"] > 0
    assert counts(folder, export.spark) == {COUNT}
    assert counts(pinned, export.spark) == {COUNT}  # unchanged for readers that listed it before
    assert export.verify() == []
    assert compact(export, 1500)["deleted"] == done["merged"]
    assert not pinned.exists()
    assert counts(folder, export.spark) == {COUNT}
    assert export.rows() == export.topics.log_of("once")


def make_and_open(make: Make, topic: str) -> Export:
    export = a_target(make, topic)
    assert counts(export.target.root / f"topic={topic}", export.spark) == {COUNT}
    return export


def test_a_compaction_killed_at_any_step_on_the_disk_shows_each_record_once(make: Make) -> None:
    export = a_target(make, "steps")
    folder = export.target.root / "topic=steps"
    first = folder.resolve()
    merging = kills_of(export, 1000)
    assert counts(first, export.spark) == {COUNT}
    deleting = kills_of(export, 1500)
    assert not first.exists()
    assert min(merging, deleting) > 5
    assert counts(folder, export.spark) == {COUNT}
    assert export.verify() == []
    assert list(export.target.staging.glob("*")) == []


def kills_of(export: Export, now_ms: int) -> int:
    """Kills at each step until no step is left, and checks the readers after each kill."""
    folder = export.target.root / f"topic={export.topic}"
    at = 0
    while True:
        kill = Kill(at)
        with pytest.MonkeyPatch.context() as patch:
            kill.plant(patch)
            with suppress(Killed):
                compact(export, now_ms)
        assert counts(folder) == {COUNT}, f"killed at step {at}"
        if kill.left >= 0:
            return at
        at += 1


def test_verify_counts_as_readers_do_and_finds_doubles(make: Make) -> None:
    export = a_target(make, "doubled")
    paths = list(export.target.data_files())
    folder = export.target.root / os.path.dirname(paths[0])
    manifest = export_manifest.load(export.target)
    rows = next(file["rows"] for file in manifest["files"] if file["path"] == paths[0])
    copied = folder / "_hidden.parquet"  # from Spark, not from DuckDB
    os.link(export.target.root / paths[0], copied)
    problems = export.verify()
    assert f"readers of topic=doubled count {COUNT + rows} rows, exported were {COUNT}" in problems
    assert any("_hidden.parquet is not in the manifest" in each for each in problems)
    copied.unlink()
    assert export.verify() == []


def as_older_versions_had_it(export: Export) -> None:
    """A plain folder with replaced files beside the files that have their rows."""
    compact(export)
    target, topic = export.target, f"topic={export.topic}"
    manifest = export_manifest.load(target)
    (old,) = manifest.pop("replaced")
    before = export_generation.tree(target, topic, old["generation"])
    now = (target.root / topic).resolve()
    for path in before.rglob("*.parquet"):
        other = now / path.relative_to(before)
        if not other.exists():
            os.link(path, other)
            manifest["retired"].append({"path": f"{topic}/{path.relative_to(before)}",
                                        "since_ms": 1000, "sequence": manifest["sequence"]})
    (target.root / topic).unlink()
    now.rename(target.root / topic)
    shutil.rmtree(target.generations)
    del manifest["generations"]
    export_manifest.save(target, manifest)


def test_duplicates_of_an_older_version_are_detected_and_hidden(make: Make) -> None:
    export = a_target(make, "older")
    as_older_versions_had_it(export)
    folder = export.target.root / "topic=older"
    with pytest.raises(Doubled, match=f"{2 * COUNT} rows of {COUNT} records"):
        counts(folder)
    (told,) = (each for each in export.verify() if each.startswith("readers of"))
    assert told == f"readers of topic=older count {2 * COUNT} rows, exported were {COUNT}"
    compact(export)
    assert counts(folder, export.spark) == {COUNT}
    assert export.verify() == []


def test_a_file_system_that_cannot_exchange_says_what_to_do(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = a_target(make, "plain")
    as_older_versions_had_it(export)
    monkeypatch.setattr(export_generation, "_renameat2", lambda one, other: False)
    send(export, 2, COUNT)
    export.run()  # continues
    with pytest.raises(ExportFailed, match=r"While nobody reads it: mv '.*' && ln -s '") as told:
        compact(export)
    assert os.system(str(told.value).split("reads it: ")[1]) == 0
    compact(export)
    assert counts(export.target.root / "topic=plain") == {COUNT + 2}
    assert sum(rows_in(export.target.root).values()) == COUNT + 2


def test_repair_shows_another_generation_too(make: Make) -> None:
    export = a_target(make, "mended")
    compact(export)
    folder = export.target.root / "topic=mended"
    pinned = folder.resolve()
    lost = next(export.target.data_files())
    (export.target.root / lost).unlink()
    reading = export_run.reading_of(export.broker, 3, "read_committed")
    export_compact.repair(export.target, lambda: export.spark, lambda: reading, 0)
    assert folder.resolve() != pinned
    assert counts(folder, export.spark) == {COUNT}
    assert export.verify() == []


def test_readers_leave_out_what_the_documents_say(tmp_path: Path) -> None:
    """DuckDB and Polars do not ignore `_` and `.`: a topic's folder must not have other files."""
    table = pyarrow.table({"partition": [0], "offset": [1]})
    for name in ("a", "_b", ".c"):
        pyarrow.parquet.write_table(table, tmp_path / f"{name}.parquet")
    with duckdb.connect() as duck:
        found = duck.execute(f"select count(*) from read_parquet('{tmp_path}/**/*.parquet')")
        assert found.fetchone() == (3,)
    assert polars.read_parquet(f"{tmp_path}/**/*.parquet").height == 3
    assert pyarrow.dataset.dataset(tmp_path, format="parquet").count_rows() == 1


def test_readers_leave_out_in_silence_what_they_listed_and_is_gone(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A broken link is listed and cannot be opened, like a file that was deleted in between. So the
    documents warn that reads through the link may count too few rows."""
    pyarrow.parquet.write_table(
        pyarrow.table({"partition": [0], "offset": [1]}), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").symlink_to("gone.parquet")
    assert by_spark(spark, tmp_path) == 1
    assert (READERS["duckdb"](tmp_path), READERS["pyarrow"](tmp_path)) == (1, 1)
    with pytest.raises(FileNotFoundError):
        READERS["polars"](tmp_path)

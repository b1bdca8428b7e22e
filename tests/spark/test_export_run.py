"""Runs of an export on Spark: the Parquet files have exactly the records that a foreign consumer
reads from the log, wherever a run was stopped; and `verify` detects planted faults."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import confluent_kafka as ck
import duckdb
import pyarrow.parquet as pq
import pyspark
import pytest
from click.testing import CliRunner
from packaging.version import Version
from pyspark.sql import SparkSession

from appliance.cli.main import main
from appliance_spark import (
    export_compact,
    export_definition,
    export_manifest,
    export_publish,
    export_run,
    export_tasks,
)
from appliance_spark.export_layout import ExportFailed, Target
from appliance_spark.export_session import RESULTS_BY_FILE, Sessions
from tests.support.exporting import Killed, Make, killed_at, send
from tests.support.spark_data import DEADLINE_S


def half_moved(patch: pytest.MonkeyPatch) -> None:
    def move(moves: list[tuple[Path, Path]]) -> None:
        for source, to in moves[: len(moves) // 2]:
            to.parent.mkdir(parents=True, exist_ok=True)
            source.replace(to)
        raise Killed("half of the files are moved")

    patch.setattr(export_publish, "move_durably", move)
    patch.setattr(export_run.export_tasks, "clear", lambda folder: None)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="this Python cannot leave it out")
def test_workers_leave_the_current_directory_out_and_other_processes_do_not(
    spark: SparkSession,
) -> None:
    """The session of all tests is an export's as far as this goes: `import_as_installed` makes both
    so. That an export hands it to Spark is seen at the session that it finds."""
    setting = "spark.executorEnv.PYTHONSAFEPATH"
    one = spark.sparkContext.parallelize([1], 1)
    (found,) = one.map(lambda _: (sys.flags.safe_path, "" in sys.path, os.getcwd())).collect()
    assert found[:2] == (True, False)
    assert "PYTHONSAFEPATH" not in os.environ
    spark.conf.unset(setting)
    assert Sessions("local[2]")().conf.get(setting) == "1"


@pytest.mark.skipif(
    Version(version("pyspark")) < Version("4.1"), reason="this PySpark has only the port"
)
def test_no_stranger_gets_at_the_results_of_a_run(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    connect = pyspark.util.local_connect_and_auth

    def noted(place: str | int | None, secret: str | None) -> tuple[object, ...]:
        asked.append(place)
        return connect(place, secret)

    monkeypatch.setattr(pyspark.util, "local_connect_and_auth", noted)
    export = make("alone")
    send(export, 10)
    export.run()
    assert asked
    assert [each for each in asked if not Path(str(each)).is_absolute()] == []


@pytest.mark.parametrize(("master", "wanted"), [("local[2]", "true"), ("spark://other:7077", None)])
def test_only_a_local_session_is_asked_for_results_by_file(
    master: str, wanted: str | None, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    asked: dict[str, str] = {}
    builder = SparkSession.Builder()
    monkeypatch.setattr(builder, "getOrCreate", lambda: asked.update(builder._options) or spark)
    monkeypatch.setattr(SparkSession, "builder", builder)
    Sessions(master)()
    assert asked.get(RESULTS_BY_FILE.split("=")[0]) == wanted


def test_a_run_killed_at_any_step_neither_loses_nor_repeats_a_record(make: Make) -> None:
    export = make("killed")
    kills: list[Callable[[pytest.MonkeyPatch], None]] = [
        lambda patch: killed_at(patch, Target, "store_plan", True),
        lambda patch: killed_at(patch, export_tasks, "spread", True),
        half_moved,
        lambda patch: killed_at(patch, export_manifest, "save", False),
        lambda patch: killed_at(patch, export_manifest, "save", True),
    ]
    for number, kill in enumerate(kills):
        send(export, 300, number * 300)
        export_run.opened(export.target)
        export.run_killed(kill)
        if number % 2:
            export.run()  # otherwise the next kill starts with the files of this one
    export.run()
    assert export.rows() == export.topics.log_of(export.topic)
    assert export.verify() == []
    assert any("swept" in line for line in export.said)
    assert list(export.target.staging.glob("*")) == []


def test_a_stopped_run_gives_the_files_it_had_planned_and_then_what_came_since(make: Make) -> None:
    export = make("again")
    send(export, 300)
    export.run_killed(lambda patch: killed_at(patch, export_publish, "move_durably", True))
    paths = list(export.target.data_files())
    before = {path: (export.target.root / path).read_bytes() for path in paths}
    send(export, 10, 300)  # is not in the plan
    summary = export.run(due_ms=5)
    assert {p: (export.target.root / p).read_bytes() for p in paths} == before
    runs = export_manifest.load(export.target)["runs"]
    assert [(run["rows"], run["due_ms"]) for run in runs] == [(300, None), (10, 5)]
    assert summary["rows"] == 310
    assert any("is completed: 300 rows" in line for line in export.said)
    assert export.rows() == export.topics.log_of(export.topic)


def test_verify_finds_what_is_planted_and_lost_files_are_made_again(make: Make) -> None:
    export = make("planted")
    send(export, 300)
    export.run()
    first, second, third = list(export.target.data_files())[:3]
    root = export.target.root
    wanted = (root / first).read_bytes()
    (root / first).unlink()
    shutil.copy(root / second, (root / second).with_name("copy.parquet"))
    table = pq.ParquetFile(root / third).read()
    pq.write_table(table.slice(1), root / third)
    problems = export.verify()
    assert len(problems) == 4, problems
    assert problems[1].startswith("readers of topic=planted count ")
    assert "copy.parquet is not in the manifest" in problems[0]
    assert any(text == f"{first} is missing" for text in problems)
    assert any(text.startswith(f"{third} has changed") for text in problems)
    reading = export_run.reading_of(export.broker, 3, "read_committed")
    made = export_compact.repair(export.target, lambda: export.spark, lambda: reading, 0)
    assert made == sorted([first, third])
    assert (root / first).read_bytes() == wanted
    assert export.verify() == []
    assert export.rows() == export.topics.log_of(export.topic)


def test_a_manifest_that_contradicts_the_log_is_detected(make: Make) -> None:
    export = make("lies")
    send(export, 100)
    export.run()
    manifest = export_manifest.load(export.target)
    lost = manifest["files"].pop()
    export_manifest.save(export.target, manifest)
    (export.target.root / lost["path"]).unlink()
    (problem,) = export.verify()
    assert "records with hash" in problem
    assert "the log has" in problem


def test_small_files_are_merged_and_others_read_them(make: Make) -> None:
    export = make("merged")
    for number in range(3):
        send(export, 100, number * 100)
        export.run()
    log = export.topics.log_of(export.topic)
    count = len(list(export.target.data_files()))
    done = export_compact.compact(export.target, lambda: export.spark, 1000, grace_ms=500)
    assert done["merged"] == count > done["into"]
    assert export.verify() == []
    done = export_compact.compact(export.target, lambda: export.spark, 1500, grace_ms=500)
    assert done == {"merged": 0, "into": 0, "deleted": count}
    assert export.rows() == log
    folder = f"{export.target.root}/topic=merged/**/*.parquet"
    with duckdb.connect() as duck:
        query = "select count(*), count(distinct (partition, \"offset\")), min(topic) from "
        found = duck.execute(f"{query} read_parquet('{folder}', hive_partitioning=true)")
        assert found.fetchone() == (300, 300, "merged")
    table = pq.read_table(export.target.root / "topic=merged")
    assert (table.num_rows, {"date", "hour"} <= set(table.schema.names)) == (300, True)
    assert export.spark.read.parquet(str(export.target.root)).count() == 300


def test_markers_aborted_records_and_what_was_compacted_away_are_accounted_for(make: Make) -> None:
    export = make("gone", 1)
    producer = ck.Producer(
        {"bootstrap.servers": export.topics.broker.kafka, "transactional.id": "gone"})
    producer.init_transactions(DEADLINE_S)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for i in range(10):
            producer.produce(export.topic, b"%d" % i)
        assert producer.flush(DEADLINE_S) == 0
        end(DEADLINE_S)
    (part,) = export.run()["partitions"]
    assert (part["rows"], part["gone"], part["to"]) == (
        10, {"markers": 2, "aborted": 10, "compacted": 0, "damaged": 0}, 22)
    assert export.rows() == export.topics.log_of(export.topic)
    assert export.verify() == []


def test_a_run_that_reads_too_little_fails(make: Make) -> None:
    export = make("short", 1)
    export.topics.send(export.topic, [b"v"] * 10)
    task = {"topic": export.topic, "topic_id": "", "partition": 0, "from": 0, "to": 10}
    reading = export_run.reading_of(export.broker, 0, "read_committed")
    with pytest.raises(ExportFailed, match="the log has 3 records, 0 markers and 0 aborted ones"):
        export_tasks.explained(reading, task, [[2, 5, 0]])


def test_offsets_that_retention_took_stop_the_run_until_the_loss_is_accepted(make: Make) -> None:
    export = make("lost", 1)
    export.topics.send(export.topic, [b"v"] * 10)
    export.run()
    export.topics.send(export.topic, [b"v"] * 10)
    export.topics.delete_before(export.topic, 15)
    with pytest.raises(ExportFailed, match=r"offsets 10 to 14 \(5\) were deleted before they"):
        export.run()
    assert export.run(accept_loss=True)["rows"] == 5
    (loss,) = export_manifest.load(export.target)["topics"][export.topic]["losses"]
    assert (loss["lost"], loss["from"]) == (5, 15)
    assert export.verify() == []


def test_json_is_inferred_pinned_and_grows(make: Make) -> None:
    export = make("json", 1)
    export.topics.send(export.topic, [b'{"id": 1, "name": "a"}', b"not json"])
    assert export.run(schema={"mode": "json"})["dead_letters"] == 1
    export.topics.send(export.topic, [b'{"id": 2, "more": {"x": 1.5}}', b'{"id": "x"}'])
    assert export.run(schema={"mode": "json"})["dead_letters"] == 1
    assert export.said[-1] == 'json: field more added, {"fields": {"x": "double"}}'
    with duckdb.connect() as duck:
        found = duck.execute(
            "select id, name, more.x from read_parquet("
            f"'{export.target.root}/topic=json/**/*.parquet', union_by_name=true) order by id")
        assert found.fetchall() == [(1, "a", None), (2, None, 1.5)]
    assert export.verify() == []
    done = export_compact.compact(export.target, lambda: export.spark, 0)
    assert (done["merged"], export.verify()) == (2, [])  # only the dead letters are equal


def test_a_target_that_lost_its_manifest_is_left_alone(make: Make) -> None:
    export = make("bare", 1)
    export.topics.send(export.topic, [b"v"])
    export.run()
    export.target.manifest.unlink()
    with pytest.raises(ExportFailed, match=r"has files such as .*, but no .*manifest\.json"):
        export.run()
    assert len(list(export.target.data_files())) == 1


def test_the_broker_knows_an_export_and_hears_of_its_runs(make: Make) -> None:
    export = make("known", 1)
    export.topics.send(export.topic, [b"v"] * 10)
    body = {"pattern": "know.", "target": str(export.target.root),
            "options": {"hold_bytes": 1_000_000, "split_bytes": 1000}}
    export.broker.ask("PUT", "/api/v1/exports/daily", body)
    job = export_definition.job_of(export.broker.definition("daily"), export.broker)
    export_run.run(job, lambda: export.spark, export.said.append)
    assert export.said == []
    (run,) = export.broker.ask("GET", "/api/v1/exports/daily/runs")["runs"]
    assert (run["state"], run["partitions"][0]["rows"], run["files"]) == ("succeeded", 10, 1)
    (hold,) = export.broker.ask("GET", "/export/v1/holds")["holds"]
    assert (hold["name"], hold["offsets"]) == ("daily-known", {"0": 10})
    (row,) = export.broker.definitions()
    assert row["status"]["behind_records"] == 0


def test_an_empty_folder_instead_of_the_target_is_refused(make: Make) -> None:
    export = make("mounted", 1)
    export.topics.send(export.topic, [b"v"] * 10)
    root = export.target.root
    export.broker.ask("PUT", "/api/v1/exports/mounts", {"topics": [export.topic],
                                                        "target": str(root)})
    job = export_definition.job_of(export.broker.definition("mounts"), export.broker)
    export_run.run(job, lambda: export.spark, export.said.append)
    root.rename(root.with_name("unmounted"))
    root.mkdir()
    with pytest.raises(ExportFailed, match=r"there is no export now\. Is its file system mounted"):
        export_run.run(job, lambda: export.spark, export.said.append)
    assert list(root.iterdir()) == []
    root.rmdir()
    root.with_name("unmounted").rename(root)
    export.topics.send(export.topic, [b"v"] * 5)
    assert export_run.run(job, lambda: export.spark, export.said.append)["rows"] == 5
    assert export.rows() == export.topics.log_of(export.topic)


def test_dead_letters_are_told_read_and_written_again(make: Make) -> None:
    export = make("letters", 1)
    ask = export.broker.ask
    ask("PUT", "/api/v1/exports/letters", {
        "topics": ["letters"], "target": str(export.target.root), "schema": "json"})

    def told() -> tuple[str, list[tuple[int, bool]]]:
        (run, *_) = ask("GET", "/api/v1/exports/letters/runs")["runs"]
        found = ask("GET", f"/api/v1/exports/letters/runs/{run['id']}/dead-letters")["letters"]
        assert all(each["why"].startswith("not JSON: Expecting value") for each in found)
        return run["state"], [(each["offset"], each["is_in_log"]) for each in found]

    def run() -> None:
        job = export_definition.job_of(export.broker.definition("letters"), export.broker)
        export_run.run(job, lambda: export.spark, export.said.append)

    export.topics.send("letters", [b'{"id": 1}', b"not json", b'{"id": 2}'])
    run()
    assert told() == ("succeeded", [(1, True)])
    assert "letters" not in export_manifest.load(export.target)["runs"][0]
    words = ["export", "dead-letters", "letters", "--target", str(export.target.root)]
    shown = CliRunner().invoke(main, words).stdout.splitlines()
    assert [line.split()[:3] for line in shown] == [["TOPIC", "PARTITION", "OFFSET"],
                                                    ["letters", "0", "1"]]
    assert "not JSON: Expecting value" in shown[1]
    lines = CliRunner().invoke(main, [*words, "--json"]).stdout
    assert json.loads(lines)["reason"].startswith("not JSON: Expecting value")
    again = ["produce", "letters", "--json-lines", "--admin", export.broker.address]
    assert CliRunner().invoke(main, again, input=lines).exit_code == 0
    with pytest.raises(ExportFailed, match="1 of 1 records are dead letters"):
        run()
    assert told() == ("failed", [(3, True)])
    export.topics.delete_before("letters", 4)
    assert told() == ("failed", [(3, False)])
    export.topics.delete("letters")
    export.topics.send(export.topics.create("letters"), [b"other"] * 4)
    assert told() == ("failed", [(3, False)])  # the record of that offset is of another topic


def test_a_run_of_dead_letters_alone_commits_nothing_until_a_schema_takes_them(make: Make) -> None:
    export = make("dead", 1)
    export.topics.send(export.topic, [b"not json"] * 10)
    with pytest.raises(ExportFailed, match="10 of 10 records are dead letters"):
        export.run(schema={"mode": "json"})
    assert export_manifest.load(export.target)["topics"] == {}
    assert list(export.target.data_files()) == []
    assert export.run(schema={"mode": "raw"})["rows"] == 10  # not with the plan of the stopped run
    assert export.rows() == export.topics.log_of(export.topic)
    assert export.verify() == []

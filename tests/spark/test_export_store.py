"""Exports into an object store, over HTTP to servers of S3, GCS, Azure and HDFS: wherever a run is
stopped, the files that its manifest lists have exactly the log's records, for readers of the list
and of the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import pytest
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from appliance_spark import (
    export_compact,
    export_files,
    export_iceberg,
    export_manifest,
    export_publish,
    export_run,
    export_tasks,
)
from appliance_spark.export_layout import ExportFailed
from appliance_spark.export_store_target import StoreTarget
from tests.spark.test_export_days import BEGIN_MS, MIB, WANTED, days_of_log
from tests.spark.test_export_days import send as send_days
from tests.support import azure_server, s3_server
from tests.support.duck import a_duck
from tests.support.exporting import Export, Killed, Make, killed_at, send
from tests.support.hdfs_server import USER
from tests.support.object_stores import OF_HDFS, OF_STORES, SERVICES, Service, store_service
from tests.support.spark_data import Topics

BUCKET = "lake"
pytestmark = [
    pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning"),  # aiohttp of gcsfs
    pytest.mark.filterwarnings("ignore:GCS project not set:UserWarning"),  # gcsfs of pyiceberg
]
of_stores = pytest.mark.parametrize("service", OF_STORES, indirect=True)


@pytest.fixture(scope="module", params=SERVICES)
def service(
    request: Any, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """The session is older than the service, so its workers are told of it."""
    with (
        store_service(request.param, tmp_path_factory.mktemp("store"), BUCKET) as found,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in found.settings.items():
            patch.setitem(spark.sparkContext.environment, name, value)
        yield found


@pytest.fixture
def make(service: Service, spark: SparkSession, topics: Topics, tmp_path: Path) -> Iterator[Make]:
    made: list[str] = []

    def make(topic: str, partitions: int = 2, **config: str) -> Export:
        made.append(topics.create(topic, partitions, **config))
        return Export(spark, topics, f"{service.url(BUCKET)}/{tmp_path.name}/{topic}", topic)

    yield make
    for topic in made:  # the next service has a test of its name
        topics.delete(topic)


def duck(service: Service) -> duckdb.DuckDBPyConnection:
    address = service.address.removeprefix("http://")
    if service.url("").startswith("abfs"):
        found = a_duck("azure", "avro", "iceberg")
        told = azure_server.settings_of(service.address)["AZURE_STORAGE_CONNECTION_STRING"]
        found.execute(f"create secret (type azure, connection_string '{told}')")
        return found
    found = a_duck("httpfs", "avro", "iceberg")
    kind, key, secret = "s3", s3_server.KEY, s3_server.SECRET
    if service.url("").startswith("gs"):
        kind, key, secret = "gcs", "any", "any"
    found.execute(f"create secret (type {kind}, key_id '{key}', secret '{secret}', region "
                  f"'us-east-1', endpoint '{address}', url_style 'path', use_ssl false)")
    return found


def test_a_run_killed_at_any_step_neither_loses_nor_repeats_a_record(
    make: Make, service: Service
) -> None:
    export = make("killed")
    kills: list[Callable[[pytest.MonkeyPatch], None]] = [
        lambda patch: killed_at(patch, StoreTarget, "store_plan", True),
        lambda patch: killed_at(patch, export_tasks, "spread", True),
        lambda patch: killed_at(patch, StoreTarget, "save_manifest", False),
        lambda patch: killed_at(patch, export_manifest, "save", True),
    ]
    for number, kill in enumerate(kills):
        send(export, 100, number * 100)
        if number == 0:
            with export.target.locked():
                export_run.opened(export.target)
        export.run_killed(kill)
        if number % 2:
            export.run()  # otherwise the next kill starts with the files of this one
    export.run()
    assert export.rows() == export.topics.log_of(export.topic)
    assert export.verify() == []
    assert any("swept" in line for line in export.said)
    listed = {file["path"] for file in export_manifest.load(export.target)["files"]}
    assert set(export.target.data_files()) == listed
    told = [*export.said, export.target.manifest_text()]
    told += [export.target.files.read(name).decode()
             for name in export.target.files.names("_export/runs")]
    assert not any(secret in each for secret in service.speech.secrets for each in told)


@of_stores
def test_readers_take_the_listed_files_and_compaction_and_repair_count_nothing_twice(
    make: Make, service: Service
) -> None:
    export = make("listed")
    for number in range(3):
        send(export, 60, number * 60)
        export.run()
    log = export.topics.log_of(export.topic)
    before = set(export.target.data_files())
    done = export_compact.compact(export.target, lambda: export.spark, 1000, grace_ms=10)
    assert done["merged"] == len(before)
    assert before < set(export.target.data_files())  # a reader of before goes on
    assert export.rows() == log
    assert export.verify() == []
    victim = export_manifest.load(export.target)["files"][0]["path"]
    service.spoil(f"{export.target.where}/{victim}")
    assert any(victim in problem for problem in export.verify())
    reading = export_run.reading_of(export.broker, 3, "read_committed")
    made = export_compact.repair(export.target, lambda: export.spark, lambda: reading, 1000)
    assert len(made) > 1  # of the merged file
    assert victim not in made
    assert export.verify() == []
    gone = export_compact.compact(export.target, lambda: export.spark, 2000, grace_ms=10)
    assert gone["deleted"] == len(before) + 1
    assert victim not in set(export.target.data_files())
    assert export.rows() == log
    with duck(service) as reader:
        found = list(export_files.rows(export.target, (), False))
        reader.execute(export_files.views(found))
        offsets = reader.execute('select partition, "offset" from listed').fetchall()
        place = export_files.duckdb_url(export.target.where)
        reader.execute(BY_MANIFEST.replace("TARGET", place))
        by_manifest = reader.execute("select count(*) from listed_by_manifest").fetchone()
    assert Counter(offsets) == Counter((place[0], place[1]) for place in log.elements())
    assert by_manifest == (len(offsets),)


BY_MANIFEST = """
set variable manifest = (select max(file) from glob('TARGET/_export/manifests/*.json'));
set variable files = (
    select list('TARGET/' || file.path)
    from (select unnest(files) as file from read_json(getvariable('manifest')))
    where file.topic = 'listed' and not file.is_dead_letter);
create view listed_by_manifest as
    select * from read_parquet(getvariable('files'), hive_partitioning = true);
"""


def days_by_duckdb(export: Export, service: Service) -> Counter[str]:
    with duck(service) as reader:
        reader.execute(export_files.views(list(export_files.rows(export.target, (), False))))
        return Counter(dict(reader.execute(
            f"select date::varchar, count(*) from {export.topic} group by 1").fetchall()))


@of_stores
def test_days_of_a_zone_in_files_of_a_size_are_in_a_store_once(
    make: Make, service: Service
) -> None:
    export = make("days", retention_ms="-1")
    send_days(export, 1200)
    with pytest.MonkeyPatch.context() as patch:
        killed_at(patch, export_publish, "place", False)
        with pytest.raises(Killed):
            export.run(**WANTED)
    torn = set(export.target.data_files())
    assert any("+part" in name for name in torn)
    export.run(**WANTED)
    send_days(export, 100, 1200)
    export.run(file_bytes=MIB)  # goes on by the day in Berlin
    log = export.topics.log_of(export.topic)
    assert (log.total(), export.rows(), export.verify()) == (1300, log, [])
    assert torn.isdisjoint(export.target.data_files())
    assert days_by_duckdb(export, service) == days_of_log(export)
    parts = [file["path"] for file in export_manifest.load(export.target)["files"]
             if "+part" in file["path"]]
    assert parts

    service.spoil(f"{export.target.where}/{parts[0]}")
    reading = export_run.reading_of(export.broker, 3, "read_committed")
    export_compact.repair(export.target, lambda: export.spark, lambda: reading, BEGIN_MS)
    done = export_compact.compact(export.target, lambda: export.spark, BEGIN_MS)
    assert done["merged"] > done["into"] > 0
    assert (export.rows(), export.verify()) == (log, [])
    assert days_by_duckdb(export, service) == days_of_log(export)
    with pytest.raises(ExportFailed, match="by the day in Europe/Berlin in this target, wanted"):
        export.run(layout="hour")


@of_stores
def test_an_iceberg_table_of_a_store_has_each_record_once_after_a_kill(
    make: Make, service: Service, tmp_path: Path
) -> None:
    export = make("tabled")
    uri = f"sqlite:///{tmp_path}/catalog.db"
    send(export, 60)
    with pytest.raises(ExportFailed, match="in an object store needs a catalog"):
        export.run(table=export_iceberg.settings(None, None))
    table = export_iceberg.settings(None, {"type": "sql", "uri": uri})
    export.run(table=table)
    send(export, 60, 60)
    export.run_killed(lambda patch: killed_at(patch, export_iceberg, "follow", False))
    assert any("lacks" in problem for problem in export.verify())
    export.run()
    assert export.verify() == []
    wanted = Counter((place[0], place[1]) for place in export.topics.log_of("tabled").elements())
    with load_catalog("appliance", type="sql", uri=uri,
                      **{"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"}) as catalog:
        rows = catalog.load_table("lake.tabled").scan().to_arrow().to_pydict()
    assert Counter(zip(rows["partition"], rows["offset"], strict=True)) == wanted
    if service.url("").startswith("abfs"):
        return  # DuckDB asks the host in the table's names of files, which only Azure itself has
    place = f"{export.target.where}/_iceberg/lake/tabled"
    with duck(service) as reader:
        found = reader.execute(f"select count(*) from iceberg_scan('{place}')").fetchone()
    assert found == (wanted.total(),)


def test_a_run_that_was_overtaken_commits_nothing_and_says_so(make: Make) -> None:
    export = make("overtaken")
    send(export, 60)
    export.run()
    send(export, 60, 60)

    def overtake(*given: Any) -> Any:
        other = StoreTarget(export.target.where)
        other._claim()  # as a run that took the lock of a driver that slept
        return spread(*given)

    spread = export_tasks.spread
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export_tasks, "spread", overtake)
        with pytest.raises(ExportFailed, match="another run, compaction or repair has begun"):
            export.run()
    assert export.rows().total() == 60
    export.run()
    assert export.rows() == export.topics.log_of(export.topic)


@pytest.mark.parametrize("service", OF_HDFS, indirect=True)
def test_spark_reads_what_counts_in_hdfs_after_a_compaction_and_a_repair(
    make: Make, service: Service
) -> None:
    export, hdfs = make("in_hdfs"), service.client
    for number in range(3):
        send(export, 60, number * 60)
        export.run()
    before = set(export.target.data_files())
    export_compact.compact(export.target, lambda: export.spark, 1000, grace_ms=10)
    victim = export_manifest.load(export.target)["files"][0]["path"]
    with fsspec.open(f"{export.target.where}/{victim}", "wb", user=USER) as spoiled:
        spoiled.write(b"spoiled")
    assert any(victim in problem for problem in export.verify())
    reading = export_run.reading_of(export.broker, 3, "read_committed")
    assert export_compact.repair(export.target, lambda: export.spark, lambda: reading, 1000)
    assert before < set(export.target.data_files())
    export_compact.compact(export.target, lambda: export.spark, 2000, grace_ms=10)
    assert not before & set(export.target.data_files())
    log = export.topics.log_of(export.topic)
    assert (export.rows(), export.verify()) == (log, [])
    files = [row["file"] for row in export_files.rows(export.target, (), False)]
    by_rpc = (each.replace(hdfs.url, f"hdfs://127.0.0.1:{hdfs.rpc}") for each in files)
    rows = export.spark.read.parquet(*by_rpc).select("partition", "offset").collect()
    assert Counter(map(tuple, rows)) == Counter((place[0], place[1]) for place in log.elements())
    with a_duck() as reader, pytest.raises(duckdb.Error):
        reader.execute(f"select * from read_parquet('{files[0]}')")
    with pytest.raises(ExportFailed, match="got an Iceberg table of files in HDFS"):
        export.run(table=export_iceberg.settings(None, {"name": "main"}))

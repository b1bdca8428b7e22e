"""An export by the day of a zone, in files that are cut: killed, repaired, merged and followed by
a table, it has each record once, in the folder of its day."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import duckdb
import pytest

from appliance_spark import export_compact, export_iceberg, export_manifest, export_run
from appliance_spark.export_layout import ExportFailed
from tests.support.export_tables import by_pyiceberg
from tests.support.exporting import Export, Killed, Make, killed_at

ZONE, MIB = "Europe/Berlin", 1 << 20
BEGIN_MS = 1_761_350_400_000  # 2025-10-25 00:00 UTC: the next day has 25 hours in Berlin
WANTED = {"layout": "day", "zone": ZONE, "file_bytes": MIB, "split_bytes": 8 * MIB}


def send(export: Export, count: int, first: int = 0) -> None:
    dice = random.Random(first)
    for i in range(first, first + count):
        moment = BEGIN_MS + i * 3_600_000 % (2 * 86_400_000)
        export.topics.send_later(export.topic, i % 2, moment, dice.randbytes(10_000))
    export.topics.flush()


def days_of_log(export: Export) -> Counter[str]:
    found = Counter[str]()
    for (_, _, ms, *_), count in export.topics.log_of(export.topic).items():
        moment = datetime.fromtimestamp(ms / 1000, timezone.utc)
        found[f"{moment.astimezone(ZoneInfo(ZONE)).date()}"] += count
    return found


def days_by_duckdb(export: Export) -> Counter[str]:
    folder = Path(export.target.root / f"topic={export.topic}").resolve()
    with duckdb.connect() as duck:
        rows = duck.execute(
            f"select date::varchar, count(*) from read_parquet('{folder}/**/*.parquet', "
            "hive_partitioning=true) group by 1").fetchall()
    return Counter(dict(rows))


def test_days_of_a_zone_in_files_of_a_size_are_exported_once(make: Make) -> None:
    export = make("days", retention_ms="-1")
    send(export, 1200)
    with pytest.MonkeyPatch.context() as patch:
        killed_at(patch, export_manifest, "save", False)
        with pytest.raises(Killed):
            export.run(export_iceberg.settings(None, None), **WANTED)
    export.run(export_iceberg.settings(None, None), **WANTED)
    send(export, 100, 1200)
    export.run(file_bytes=MIB)  # goes on by the day in Berlin
    assert export.verify() == []
    log = export.topics.log_of(export.topic)
    assert (log.total(), export.rows(), by_pyiceberg(export)) == (1300, log, log)
    assert days_by_duckdb(export) == days_of_log(export)
    files = export_manifest.load(export.target)["files"]
    parts = [file["path"] for file in files if "+part" in file["path"]]
    assert parts

    (export.target.root / parts[0]).write_bytes(b"")
    assert any(parts[0] in problem for problem in export.verify())
    made = export_compact.repair(
        export.target, lambda: export.spark,
        lambda: export_run.reading_of(export.broker, 3, "read_committed"), BEGIN_MS)
    assert parts[0] in made
    done = export_compact.compact(export.target, lambda: export.spark, BEGIN_MS)
    assert done["merged"] > done["into"] > 0
    assert export.verify() == []
    assert (export.rows(), by_pyiceberg(export)) == (log, log)
    assert days_by_duckdb(export) == days_of_log(export)
    with pytest.raises(ExportFailed, match="by the day in Europe/Berlin in this target, wanted"):
        export.run(layout="hour")

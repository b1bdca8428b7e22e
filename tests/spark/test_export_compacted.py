"""Exports of topics that compaction has thinned since: `verify` compares remaining records."""

from __future__ import annotations

import time
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import admin

from appliance_spark import export_compact, export_hash, export_manifest, export_write
from tests.support.exporting import Export, Make
from tests.support.spark_data import DEADLINE_S

KEYS = 50
ROUNDS = 6


def set_policy(export: Export, policy: str) -> None:
    entry = admin.ConfigEntry(
        "cleanup.policy", policy, incremental_operation=admin.AlterConfigOpType.SET)
    resource = admin.ConfigResource(
        admin.ConfigResource.Type.TOPIC, export.topic, incremental_configs=[entry])
    client = admin.AdminClient({"bootstrap.servers": export.topics.broker.kafka})
    client.incremental_alter_configs([resource])[resource].result(DEADLINE_S)


def send_round(export: Export, number: int) -> None:
    now = round(time.time() * 1000)
    for key in range(KEYS):
        value = b'{"round": %d, "key": %d}' % (number, key)
        export.topics.send_later(export.topic, 0, now, value, key=b"%d" % key)
    export.topics.flush()


def thin(export: Export, last: int) -> set[int]:
    """Produces until compaction has removed some exported records, but not all: a key without a
    later record stays. Returns the remaining offsets."""
    set_policy(export, "compact")
    deadline = time.monotonic() + DEADLINE_S
    while len(found := offsets_below(export, last)) == last:
        assert time.monotonic() < deadline
        send_round(export, ROUNDS + 1)
    return found


def offsets_below(export: Export, end: int) -> set[int]:
    return {offset for _, offset, *_ in export.topics.log_of(export.topic) if offset < end}


def exported(make: Make, topic: str, **wanted: Any) -> tuple[Export, int]:
    export = make(topic, 1)
    for number in range(ROUNDS):
        send_round(export, number)
    export.topics.send(topic, [b'{"round": 0, "key": -1}'], key=b"stays")
    export.run(**wanted)
    return export, ROUNDS * KEYS + 1


def merged_with_another(export: Export, count: int, **wanted: Any) -> int:
    """Merges the files of two runs into one, which then covers two ranges."""
    send_round(export, ROUNDS)
    export.run(**wanted)
    export_compact.compact(export.target, lambda: export.spark, 1000)
    return count + KEYS


@pytest.mark.parametrize("mode", ["raw", "json"])
def test_what_was_compacted_away_is_counted_and_no_problem(make: Make, mode: str) -> None:
    export, count = exported(make, f"thinned-{mode}", schema={"mode": mode})
    assert export.verdict().rows_compacted == 0
    count = merged_with_another(export, count, schema={"mode": mode})
    left = thin(export, count)
    verdict = export.verdict()
    assert verdict.problems == []
    assert verdict.rows_compared + verdict.rows_compacted == count
    assert 0 < verdict.rows_compared <= len(left)  # compaction may have continued
    assert verdict.rows_not_in_log == 0


def test_without_compaction_a_log_that_has_less_is_a_problem(make: Make) -> None:
    export, count = exported(make, "thinned-before")
    left = thin(export, count)
    set_policy(export, "delete")
    (problem,) = export.verify()
    assert f"{count} records with hash" in problem
    assert len(left) < count


def rewritten(export: Export, change: Callable[[pa.Table], pa.Table]) -> None:
    """Replaces the content of the only file of an export, with a matching manifest."""
    manifest = export_manifest.load(export.target)
    (file,) = manifest["files"]
    path = export.target.root / file["path"]
    table = change(pq.ParquetFile(path).read())
    pq.write_table(table, path)
    (batch,) = table.combine_chunks().to_batches()
    words = export_hash.sum_of(export_hash.hashes(batch, 0))
    (part,) = file["ranges"]
    part |= {"rows": len(table), "hash": f"{words:016x}"}
    file |= {"rows": len(table), "digest": export_write.digest_of(BytesIO(path.read_bytes()))}
    export_manifest.save(export.target, manifest)


def other_key(table: pa.Table) -> pa.Table:
    """Changes the key of the last record."""
    keys = [*table["key"].to_pylist()[:-1], b"other"]
    index = table.schema.get_field_index("key")
    return table.set_column(index, table.schema.field(index), pa.array(keys, pa.binary()))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda table: table.slice(0, len(table) - 1), "1 records that were not exported"),
        (other_key, "1 records that were exported otherwise"),
    ],
    ids=["missing", "different"],
)
def test_a_remaining_record_that_differs_from_its_export_is_detected(
    make: Make, request: pytest.FixtureRequest, change: Any, told: str
) -> None:
    export, count = exported(make, f"thinned-{request.node.callspec.id}")
    assert count - 1 in thin(export, count)
    rewritten(export, change)
    (problem,) = export.verify()
    assert problem.endswith(f"the log has {told}, the first at offset {count - 1}")


def test_a_range_whose_file_is_broken_is_not_compared(make: Make) -> None:
    export, count = exported(make, "thinned-broken")
    thin(export, count)
    (file,) = export_manifest.load(export.target)["files"]
    (export.target.root / file["path"]).unlink()
    _, missing, told = export.verify()  # the first check: readers count fewer rows
    assert missing == f"{file['path']} is missing"
    assert f"records in the log, which are not compared: {file['path']} is not whole" in told

"""The parts of an export that need no Spark and no broker: hours, schemas, files, manifest."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from appliance_spark import (
    export_balance,
    export_compact,
    export_hash,
    export_infer,
    export_layout,
    export_manifest,
    export_plan,
    export_tasks,
)
from appliance_spark.export_layout import ExportFailed, FolderStaging, Target
from appliance_spark.export_write import Writing, write_split

HOUR_MS = 3_600_000
BEGIN_MS = 1_763_712_000_000  # 2025-11-21 08:00 UTC
HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
SHAPE = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(HEADER)),
    ]
)
Timed = tuple[int, bytes | None, int]  # offset, value, timestamp in ms


def batch_of(records: list[Timed], stamped: int = 0) -> pa.RecordBatch:
    rows = [
        {"key": None, "value": value, "topic": "t", "partition": 3, "offset": offset,
         "timestamp": ms * 1000, "timestampType": stamped, "headers": None}
        for offset, value, ms in records
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SHAPE)


def split_of(start: int, end: int) -> dict[str, Any]:
    return {"topic": "t", "partition": 3, "from": start, "to": end}


def written(
    folder: Path, records: list[Timed], schema: dict[str, Any] | None = None,
    way: str = "timestamp", step: int = 7, stamped: int = 0,
    layout: dict[str, str] | None = None, file_bytes: int | None = None,
) -> dict[str, Any]:
    whole = batch_of(records, stamped)
    parts = [whole.slice(i, step) for i in range(0, len(records), step)]
    split = split_of(records[0][0], records[-1][0] + 1)
    split |= {"layout": layout}
    staging, writing = FolderStaging(str(folder)), Writing(way, file_bytes)
    return write_split(staging, split, schema or {"mode": "raw"}, writing, iter(parts))


def rows_of(done: dict[str, Any], is_dead: bool = False) -> list[dict[str, Any]]:
    files = [each for each in done["files"] if each["is_dead_letter"] == is_dead]
    return [row for each in files for row in pq.read_table(each["staged"]).to_pylist()]


# Files

def test_each_hour_has_its_file_and_the_tally_is_that_of_the_records(tmp_path: Path) -> None:
    source = random.Random(1)
    records = [(i, b"%d" % i, BEGIN_MS + source.randrange(3) * HOUR_MS) for i in range(100, 200)]
    done = written(tmp_path, records)
    assert [each["path"] for each in done["files"]] == [
        f"topic=t/date=2025-11-21/hour={hour}/t+0003+0000000000100+0000000000200.parquet"
        for hour in ("08", "09", "10")
    ]
    assert (done["rows"], done["dead_letters"], done["holes"]) == (100, 0, [])
    for file in done["files"]:
        found = pq.read_table(file["staged"])
        hour = int(file["folder"][-2:])
        assert found["offset"].to_pylist() == [
            i for i, _, ms in records if ms == BEGIN_MS + (hour - 8) * HOUR_MS]
        assert found.schema.names == [n for n in SHAPE.names if n != "topic"]
        data = Path(file["staged"]).read_bytes()
        assert file["digest"] == hashlib.blake2b(data, digest_size=16).hexdigest()
        assert file["bytes"] == len(data)
    words = export_hash.hashes(batch_of(records), 3)
    assert done["hash"] == f"{export_hash.sum_of(words):016x}"
    parts = [part for file in done["files"] for part in file["ranges"]]
    assert export_manifest.hash_of(parts) == done["hash"]


def test_a_second_attempt_writes_the_same_bytes_elsewhere(tmp_path: Path) -> None:
    records = [(i, b"%d" % i, BEGIN_MS + i % 2 * HOUR_MS) for i in range(50)]
    first, second = written(tmp_path, records), written(tmp_path, records)
    assert [f["digest"] for f in first["files"]] == [f["digest"] for f in second["files"]]
    assert not {f["staged"] for f in first["files"]} & {f["staged"] for f in second["files"]}


def test_a_record_without_a_time_goes_where_hive_puts_null(tmp_path: Path) -> None:
    done = written(tmp_path, [(0, b"a", -1), (1, b"b", 10**15), (2, b"c", BEGIN_MS)])
    none = "topic=t/date=__HIVE_DEFAULT_PARTITION__/hour=__HIVE_DEFAULT_PARTITION__"
    assert {each["folder"]: each["rows"] for each in done["files"]} == {
        none: 2, "topic=t/date=2025-11-21/hour=08": 1}


def test_offsets_left_out_are_holes_and_offsets_in_disorder_end_the_task(tmp_path: Path) -> None:
    staging = FolderStaging(str(tmp_path))
    done = write_split(staging, split_of(10, 30), {"mode": "raw"}, Writing("timestamp"), iter(
        [batch_of([(12, b"", 0), (13, b"", 0), (17, b"", 0)]), batch_of([(20, b"", 0)])]))
    assert done["holes"] == [[10, 12, 0], [14, 17, 0], [18, 20, 0], [21, 30, 0]]
    for bad in ([(5, b"", 0), (5, b"", 0)], [(6, b"", 0), (5, b"", 0)], [(30, b"", 0)]):
        with pytest.raises(ExportFailed, match="out of order"):
            write_split(staging, split_of(0, 30), {"mode": "raw"}, Writing("timestamp"),
                        iter([batch_of(bad)]))


def test_append_time_wants_the_brokers_stamp(tmp_path: Path) -> None:
    records = [(0, b"a", BEGIN_MS)]
    assert written(tmp_path, records, way="append", stamped=1)["rows"] == 1
    with pytest.raises(ExportFailed, match="1 records from offset 0 have no append time"):
        written(tmp_path, records, way="append")


@pytest.mark.parametrize(
    ("text", "hour"),
    [
        ('{"at": {"t": "2025-11-21T09:30:00Z"}}', "09"),
        ('{"at": {"t": "2025-11-21T09:30:00+01:00"}}', "08"),
        ('{"at": {"t": "2025-11-21T09:30:00"}}', "09"),
        ('{"at": {"t": 1763715600}}', "09"),
        ('{"at": {"t": 1763715600000}}', "09"),
        ('{"at": {"t": 1763715600000000}}', "09"),
        ('{"at": {"t": 1763715600000000000}}', "09"),
    ],
)
def test_a_field_may_say_the_hour(tmp_path: Path, text: str, hour: str) -> None:
    for schema in ({"mode": "raw"}, {"mode": "json", "type": {"fields": {}}}):
        done = written(tmp_path, [(0, text.encode(), 0)], schema, "field:at.t")
        (file,) = done["files"]
        assert file["folder"] == f"topic=t/date=2025-11-21/hour={hour}"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'{"at": 1}', "field at: 1 is not"),
        (b'{"at": "soon"}', "field at: 'soon' is not a time"),
        (b'{"at": true}', "field at: True is not a time"),
        (b"{}", "field at is missing"),
        (None, "field at: the value is null"),
        (b"[", "Expecting"),
        (b"[" * 100_000, "recursion"),
    ],
)
def test_a_record_without_its_field_is_a_dead_letter(
    tmp_path: Path, value: bytes | None, reason: str
) -> None:
    records = [(0, value, BEGIN_MS), (1, b'{"at": 1763715600}', BEGIN_MS)]
    done = written(tmp_path, records, way="field:at")
    if value == b'{"at": 1}':  # a second after 1970 is a time
        assert done["rows"] == 2
        return
    assert (done["rows"], done["dead_letters"]) == (1, 1)
    (row,) = rows_of(done, is_dead=True)
    assert (row["offset"], row["value"]) == (0, value)
    assert reason in row["reason"]
    dead = next(each for each in done["files"] if each["is_dead_letter"])
    assert dead["path"].startswith("_dead_letter/topic=t/date=2025-11-21/hour=08/")


# JSON

def typed(*values: Any) -> Any:
    return export_infer.tally_of([json.dumps(each).encode() for each in values])


def test_the_type_of_many_values_does_not_depend_on_their_order() -> None:
    values = [{"a": 1}, {"a": 2.5, "b": [1, None]}, {"b": []}, {"c": {"d": True}}, {"c": None},
              {"c": {"e": "x", "d": False}}, {"f": 1}, {"f": "one"}, {"b": [{}]}]
    wanted = {"fields": {
        "a": "double", "b": {"list": "string"},
        "c": {"fields": {"d": "boolean", "e": "string"}}, "f": "string"}}
    for order in itertools.islice(itertools.permutations(values), 0, 40_000, 997):
        assert export_infer.extended(None, typed(*order))[0] == wanted


def test_a_pinned_schema_grows_and_what_is_pinned_stays() -> None:
    first, changes, _ = export_infer.extended(None, typed({"a": 1, "n": None, "l": ["x"]}))
    assert first == {"fields": {"a": "long", "l": {"list": "string"}}}
    assert [each["field"] for each in changes] == ["a", "l"]
    second, changes, _ = export_infer.extended(
        first, typed({"a": "x", "b": {"c": 1.5}, "n": True}))
    assert second["fields"] == {
        "a": "long", "l": {"list": "string"}, "b": {"fields": {"c": "double"}}, "n": "boolean"}
    assert changes == [
        {"field": "b", "change": "added", "type": '{"fields": {"c": "double"}}'},
        {"field": "n", "change": "added", "type": "boolean"}]
    assert export_infer.extended(second, typed({"b": {"c": 1}}))[1] == []
    more, changes, _ = export_infer.extended(second, typed({"b": {"d": True}}))
    assert more["fields"]["b"] == {"fields": {"c": "double", "d": "boolean"}}
    assert changes == [{"field": "b.d", "change": "added", "type": "boolean"}]


def test_json_becomes_columns_and_the_rest_dead_letters(tmp_path: Path) -> None:
    kind = export_infer.extended(None, typed(
        {"id": 1, "name": "x", "price": 1.5, "tags": ["a"], "deep": {"ok": True}}))[0]
    values = [
        b'{"id": 7, "name": "\xc3\xa4", "price": 2, "tags": ["b", 5], "deep": {"ok": false}}',
        b'{"id": "seven"}', b"not json", b"[1]", b'{"id": NaN}', b'{"name": {"first": "y"}}',
        None, b'{"id": 99999999999999999999}', b'{"name": "\\ud800"}', b'{"new": [1, 2], "id": 8}',
        b'{"deep": {"more": 1}}', b'{"id": true}', b"\xff", b'{"price": 1e999}',
    ]
    records = [(i, value, BEGIN_MS) for i, value in enumerate(values)]
    done = written(tmp_path, records, {"mode": "json", "type": kind})
    rows = {row["_offset"]: row for row in rows_of(done)}
    assert {n: rows[0][n] for n in ("id", "name", "price", "tags", "deep", "_rest")} == {
        "id": 7, "name": "ä", "price": 2.0, "tags": ["b", "5"], "deep": {"ok": False},
        "_rest": None}
    assert rows[5]["name"] == '{"first":"y"}'
    assert (rows[6]["_tombstone"], rows[6]["id"], rows[0]["_tombstone"]) == (True, None, False)
    assert (rows[9]["_rest"], rows[9]["id"]) == ('{"new":[1,2]}', 8)
    reasons = {row["offset"]: row["reason"] for row in rows_of(done, is_dead=True)}
    assert reasons[1] == "field id: wanted long, got string seven"
    assert reasons[3] == "wanted a JSON object, got a list"
    assert (rows[10]["_rest"], rows[10]["deep"]) == ('{"deep":{"more":1}}', {"ok": None})
    assert reasons[13] == "field price: inf is not a number that a double can be"
    assert sorted(reasons) + sorted(rows) == [1, 2, 3, 4, 7, 8, 11, 12, 13, 0, 5, 6, 9, 10]


def test_what_columns_below_the_top_have_no_place_for_is_in_the_rest(tmp_path: Path) -> None:
    value = {"deep": {"ok": True, "x": None, "l": [{"a": 1}, {}, {"a": 2, "b": [3]}, None]}}
    kind = {"fields": {"deep": {"fields": {
        "ok": "boolean", "l": {"list": {"fields": {"a": "long"}}}}}}}
    done = written(tmp_path, [(0, json.dumps(value).encode(), 0)], {"mode": "json", "type": kind})
    (row,) = rows_of(done)
    assert row["deep"] == {"ok": True, "l": [{"a": 1}, {"a": None}, {"a": 2}, None]}
    assert json.loads(row["_rest"]) == {
        "deep": {"x": None, "l": [None, None, {"b": [3]}, None]}}


def test_a_time_without_end_is_a_dead_letter(tmp_path: Path) -> None:
    records = [(0, b'{"t": 1e400}', 0), (1, b'{"t": NaN}', 0), (2, b'{"t": -1e400}', 0)]
    assert written(tmp_path, records, way="field:t")["dead_letters"] == 3


# Avro

AVRO = {
    "type": "record", "name": "Order", "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {
            "type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "parts", "type": {"type": "array", "items": {
            "type": "record", "name": "Part", "fields": [{"name": "n", "type": "int"}]}}},
        {"name": "more", "type": {"type": "map", "values": "double"}},
        {"name": "other", "type": ["null", "Part"]},
    ],
}


def avro_value(header: bytes = b"\0\0\0\0\7", **fields: Any) -> bytes:
    stream = io.BytesIO()
    whole = {"id": 1, "note": None, "at": BEGIN_MS, "price": Decimal("1.00"),
             "kind": "A", "parts": [{"n": 5}],
             "more": {"x": 1.5}, "other": {"n": 6}, **fields}
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(json.dumps(AVRO))), whole)
    return header + stream.getvalue()


def test_avro_becomes_columns_and_confluents_header_is_skipped(tmp_path: Path) -> None:
    values = [avro_value(id=5), avro_value(b""), avro_value()[:-3], avro_value() + b"x", None]
    records = [(i, value, BEGIN_MS) for i, value in enumerate(values)]
    done = written(tmp_path, records, {"mode": "avro", "type": AVRO}, "timestamp")
    first, second = rows_of(done)
    assert (first["id"], first["note"], first["kind"], first["parts"]) == (5, None, "A", [{"n": 5}])
    assert (str(first["price"]), first["at"].timestamp() * 1000) == ("1.00", BEGIN_MS)
    assert (first["more"], first["other"]) == ([("x", 1.5)], {"n": 6})
    assert (second["_tombstone"], second["id"], second["_offset"]) == (True, None, 4)
    reasons = [row["reason"] for row in rows_of(done, is_dead=True)]
    assert "no Confluent header" in reasons[0]
    assert "1 bytes are left over" in reasons[2]
    plain = written(tmp_path, [(0, avro_value(b""), 0)],
                    {"mode": "avro", "type": AVRO, "framing": "none"}, "field:at")
    assert plain["files"][0]["folder"] == "topic=t/date=2025-11-21/hour=08"


def test_an_avro_union_that_is_no_column_is_refused() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "u", "type": ["int", "string"]}]}
    with pytest.raises(ExportFailed, match="a union of 2 types cannot be a column"):
        written(Path(), [(0, b"", 0)], {"mode": "avro", "type": schema})


# The target

def test_a_path_is_a_target(tmp_path: Path) -> None:
    assert export_layout.target_path(f"file://{tmp_path}/a%20b") == tmp_path / "a b"
    assert export_layout.target_path(str(tmp_path)) == tmp_path


def test_one_run_at_a_time_and_a_dead_one_holds_nothing(tmp_path: Path) -> None:
    target = Target(tmp_path)
    with (
        target.locked(),
        pytest.raises(ExportFailed, match=r"is being written by process \d+"),
        Target(tmp_path).locked(),
    ):
        pass
    with target.locked():
        pass


# Plan and manifest

def plan_of(start: int, end: int, sequence: int, created_ms: int = BEGIN_MS) -> dict[str, Any]:
    part = {"partition": 3, "from": start, "to": end, "end_offset": end, "lost": 0}
    return {
        "id": f"run-{sequence}", "sequence": sequence, "created_ms": created_ms, "reason": "test",
        "partition_by": "timestamp", "splits": [{"topic": "t", **part}],
        "topics": [{"topic": "t", "topic_id": "i", "cluster_id": "c", "isolation": "read_committed",
                    "schema": {"mode": "raw"}, "partitions": [part]}],
    }


def done_of(start: int, end: int, rows: int, dead: int = 0, **gone: int) -> dict[str, Any]:
    return {"topic": "t", "partition": 3, "from": start, "to": end, "rows": rows,
            "dead_letters": dead, "gone": gone, "hash": "ff", "min_offset": start,
            "max_offset": end - 1}


def test_a_run_that_does_not_balance_fails_with_the_numbers() -> None:
    plan = plan_of(0, 100, 1)
    (row,) = export_balance.balance(plan, [done_of(0, 100, 90, 5, markers=3, compacted=2)])
    assert (row["missing"], row["hash"]) == (5, "00000000000000ff")
    for done in ([done_of(0, 100, 99)], [done_of(0, 100, 100), done_of(0, 100, 100)], []):
        with pytest.raises(ExportFailed, match="100 offsets from 0 to 100, but"):
            export_balance.balance(plan, done)


def test_splits_that_leave_out_or_repeat_an_offset_are_found() -> None:
    plan = plan_of(0, 100, 1)
    for bounds in ([(0, 100)], [(50, 100), (0, 50)]):
        export_plan.check_splits({**plan, "splits": [{**plan["splits"][0], "from": a, "to": b}
                                                     for a, b in bounds]})
    for bounds in ([(0, 99)], [(0, 50), (51, 100)], [(0, 51), (50, 100)], []):
        with pytest.raises(ExportFailed, match="the plan"):
            export_plan.check_splits({**plan, "splits": [
                {**plan["splits"][0], "from": a, "to": b} for a, b in bounds]})


def file_of(start: int, end: int, rows: int, words: int, name: str = "") -> dict[str, Any]:
    folder = "topic=t/date=2025-11-21/hour=08"
    part = {"partition": 3, "from": start, "to": end, "rows": rows, "hash": f"{words:016x}"}
    return {"path": f"{folder}/{name or start}.parquet", "topic": "t", "folder": folder,
            "is_dead_letter": False, "rows": rows, "bytes": 10, "digest": "d", "ranges": [part]}


def test_data_and_position_are_in_one_manifest(tmp_path: Path) -> None:
    target = Target(tmp_path)
    with target.locked():
        old = export_manifest.load(target)
        new = export_manifest.committed(old, plan_of(0, 100, 1), [file_of(0, 100, 100, 5)], [], 9)
        export_manifest.save(target, new)
    found = export_manifest.load(target)
    assert export_manifest.position(found, "t") == {3: 100}
    assert [file["sequence"] for file in found["files"]] == [1]
    assert old == export_manifest.empty()
    with pytest.raises(ExportFailed, match="commit 1 cannot follow commit 1"):
        export_manifest.committed(found, plan_of(0, 100, 1), [], [], 9)


def test_an_hour_is_finished_after_its_grace_and_opened_by_late_records() -> None:
    first = export_manifest.committed(
        export_manifest.empty(), plan_of(0, 100, 1), [file_of(0, 100, 100, 5)], [], 9)
    folder = "topic=t/date=2025-11-21/hour=08"
    end = BEGIN_MS + HOUR_MS
    for created, found in ((end + 999, []), (end + 1000, [folder])):
        plan = plan_of(100, 100, 2, created)
        assert export_manifest.finished_hours(first, plan, 1000) == found
    behind = plan_of(100, 100, 2, end + 1000)
    behind["topics"][0]["partitions"][0]["end_offset"] = 101
    assert export_manifest.finished_hours(first, behind, 1000) == []
    first["hours"][folder] = 1
    second = export_manifest.committed(
        first, plan_of(100, 110, 2), [file_of(100, 110, 10, 5)], [], 9)
    assert (second["hours"], second["reopened"]) == ({}, [{"folder": folder, "run": "run-2"}])


def test_files_are_replaced_by_files_of_the_same_records_only() -> None:
    first = export_manifest.committed(
        export_manifest.empty(), plan_of(0, 100, 1),
        [file_of(0, 50, 50, 5), file_of(50, 100, 50, 6)], [], 9)
    old = {file["path"] for file in first["files"]}
    merged = {**file_of(0, 50, 100, 5, "merged"),
              "ranges": [file_of(0, 50, 50, 5)["ranges"][0], file_of(50, 100, 50, 6)["ranges"][0]]}
    second = export_manifest.replaced(first, old, [merged])
    assert [file["path"] for file in second["files"]] == [merged["path"]]
    assert second["sequence"] == 2
    for wrong in ([file_of(0, 50, 50, 5)], [merged, file_of(50, 100, 50, 6, "twice")]):
        with pytest.raises(ExportFailed, match="do not hold what the old ones held"):
            export_manifest.replaced(first, old, wrong)


JAVA = "\n\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:572)"
FULL = "OSError: [Errno 28] No space"
WORKER = f'Traceback (most recent call last):\n  File "x.py", line 1\n{FULL}'


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (f"An exception was thrown from the Python worker:\n{WORKER}", FULL),
        (f"An error occurred while calling z:X.\n: org.apache.spark.Y: {WORKER}{JAVA}", FULL),
        ("Job aborted due to stage failure: Lost task 0.0 in stage 0.0 (TID 0) (127.0.0.1 executor "
         f"driver): org.apache.spark.SparkException: Python worker exited unexpectedly{JAVA}",
         "Python worker exited unexpectedly"),
    ],
    ids=["as PySpark says it now", "as Py4J says it", "a worker that was killed"],
)
def test_what_a_task_ended_with_is_told_without_the_stacks(text: str, cause: str) -> None:
    assert export_tasks.cause_in(text) == cause


def test_dead_letters_of_two_schemas_stay_in_two_files() -> None:
    """They look alike, and a repair of both under the first one's would make rows of some."""
    files = [
        {"path": f"{number}.parquet", "topic": "t", "folder": "t/d/h", "is_dead_letter": True,
         "bytes": 10, "ranges": [{"partition": 0, "from": number, "min_offset": number}],
         **({"schema_version": version} if version else {})}
        for number, version in enumerate([0, 0, 1, 1])
    ]
    tasks = export_compact._tasks({"sequence": 3, "files": files}, 1 << 20)
    assert [[file["path"] for file in task["files"]] for task in tasks] == [
        ["0.parquet", "1.parquet"], ["2.parquet", "3.parquet"]]
    assert len({task["path"] for task in tasks}) == 2

"""The columns of JSON: most records decide, not hostile ones; and how to replace a schema."""

from __future__ import annotations

import itertools
import json
import random
import tracemalloc
from pathlib import Path
from typing import Any

import duckdb
import pytest

from appliance.testing import RunningBroker
from appliance_spark import (
    export_infer,
    export_json,
    export_layout,
    export_manifest,
    export_run,
    export_schema,
)
from appliance_spark.export_broker import AdminPort
from appliance_spark.export_layout import ExportFailed
from tests.export.test_export_parts import BEGIN_MS, rows_of, written
from tests.support.rest import Rest

GOOD = [json.dumps({"id": i, "name": f"n{i}", "box": {"x": i / 2, "tags": ["a"]}}).encode()
        for i in range(100)]
GOOD_TYPE = {"fields": {
    "id": "long", "name": "string",
    "box": {"fields": {"x": "double", "tags": {"list": "string"}}}}}


def bytes_of(*values: Any) -> list[bytes]:
    return [json.dumps(each).encode() for each in values]


def inferred(values: list[bytes | None], pinned: Any = None) -> Any:
    return export_infer.extended(pinned, export_infer.tally_of(values))[0]


def table_of(folder: Path, values: list[bytes | None], kind: Any) -> tuple[Any, dict[int, str]]:
    """The rows as DuckDB reads them, and the reasons of the dead letters."""
    done = written(folder, [(i, value, BEGIN_MS) for i, value in enumerate(values)],
                   {"mode": "json", "type": kind}, step=50)
    reasons = {row["offset"]: row["reason"] for row in rows_of(done, is_dead=True)}
    files = [each["staged"] for each in done["files"] if not each["is_dead_letter"]]
    assert done["rows"] + len(reasons) == len(values)
    return (duckdb.read_parquet(files) if files else None), reasons


def nested(depth: int, one: str = "[", last: str = "1") -> bytes:
    other = {"[": "]", '{"a":': "}"}[one]
    return b'{"deep": ' + (one * depth + last + other * depth).encode() + b"}"


HOSTILE: dict[str, list[bytes | None]] = {
    "a list 31 deep": [nested(31)],
    "a list 31 deep where others have a number": [b'{"id": ' + b"[" * 31 + b"]" * 31 + b"}"],
    "objects 31 deep": [nested(31, '{"a":')],
    "a list 10,000 deep": [nested(10_000)],
    "objects 10,000 deep": [nested(10_000, '{"a":')],
    "half of a bomb": [b'{"deep": ' + b"[" * 100_000],
    "300 deep, within text": [b'{"deep": "' + b"[" * 300 + b'"}'],
    "100,000 keys in one record": [json.dumps({f"k{i}": i for i in range(100_000)}).encode()],
    "1,900 keys in one record": [json.dumps({f"k{i}": i for i in range(1900)}).encode()],
    "100,000 keys in one object": [
        json.dumps({"box": {f"k{i}": i for i in range(100_000)}}).encode()],
    "an empty name": [b'{"": 1}', b'{"box": {"": 1}}', b'{" ": 1}'],
    "names that differ in capitals": [b'{"ID": "x", "Id": 7}', b'{"box": {"X": 1}}'],
    "names with dots": [b'{"box.x": 1, "a.b": 2, "a": {"b": 3}}'],
    "names with line ends": [b'{"a\\nb": 1, "a\\u0000": 2, "a\\tb": 3}'],
    "half of a surrogate pair in a name": [b'{"\\ud800": 1}'],
    "half of a surrogate pair for a number": [b'{"id": "\\ud800"}'],
    "a key twice": [b'{"id": 1, "id": "x"}', b'{"box": {"x": 1, "x": 2}}'],
    "names of a megabyte": [json.dumps({"n" * 1_000_000: 1}).encode()],
    "names of the record's own columns": [b'{"_offset": 1, "_Partition": 2, "_REST": 3}'],
    "a string for a number": [b'{"id": "one"}'],
    "a number for text": [b'{"name": 7}'],
    "an object for a number": [b'{"id": {"a": 1}}'],
    "a broken number for a whole one": [b'{"id": 1.5}'],
    "null": [b"null"],
    "no value": [None],
    "a number beyond 64 bits": [b'{"id": 18446744073709551616}', b'{"id": -9223372036854775809}'],
    "a number that no double has": [b'{"box": {"x": 9007199254740993}}'],
    "a number of 5,000 digits": [b'{"id": ' + b"9" * 5000 + b"}"],
    "not a number": [
        b'{"id": NaN}', b'{"id": Infinity}', b'{"box": {"x": 1e999}}', b'{"y": 1e999}'],
    "no JSON": [b"\xff\xfe", b"", b"[1]", b'"text"', b"{"],
    "60,000 deep in UTF-16": [
        ('{"a": "∀", "b": ' + "[" * 60_000 + "]" * 60_000 + "}").encode(code)
        for code in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-16", "utf-8-sig")],
    "half of a surrogate pair in UTF-8": [b'{"name": "\xed\xa0\x80"}'],
}


@pytest.mark.parametrize("place", ["first", "among others"])
@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_record_decides_nothing(what: str, place: str, tmp_path: Path) -> None:
    at = 0 if place == "first" else 50
    values = [*GOOD[:at], *HOSTILE[what], *GOOD[at:]]
    kind = inferred(values)
    assert kind == GOOD_TYPE
    table, reasons = table_of(tmp_path, values, kind)
    good = table.filter("name like 'n%' and id is not null and box.tags[1] = 'a'")
    assert good.count("*").fetchone() == (100,)
    places = range(at, at + len(HOSTILE[what]))
    assert set(reasons) <= set(places)
    rows = {row[0]: row[1] for row in table.project("_offset, _rest").fetchall()}
    for i in places:  # a record is a whole dead letter, or its row has all of its fields
        assert (i in reasons) != (i in rows), (i, reasons.get(i))


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_record_alone_ends_in_a_table_or_a_reason(what: str, tmp_path: Path) -> None:
    values = HOSTILE[what]
    kind = inferred(values)
    table, reasons = table_of(tmp_path, values, kind)
    (count,) = table.count("*").fetchone() if table else (0,)
    assert count + len(reasons) == len(values)
    assert export_json.count_of(kind) <= export_json.FIELDS_MAX
    assert all(reasons.values())


class Counted(str):
    """A name that counts its hashes and comparisons."""

    __slots__ = ()
    steps = 0

    def __eq__(self, other: object) -> bool:
        Counted.steps += 1
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        Counted.steps += 1
        return str.__hash__(self)


def test_a_duplicate_name_is_detected_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [(Counted(f"k{i}"), i) for i in range(2000)] + [(Counted("x"), 1), (Counted("x"), 2)]
    monkeypatch.setattr(Counted, "steps", 0)
    with pytest.raises(ValueError, match="field 'x' is there twice"):
        export_json._object(pairs)
    assert Counted.steps < 10 * len(pairs)


def test_the_type_of_a_list_of_objects_takes_a_step_per_name(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [{Counted(f"k{i}"): 1} for i in range(2000)]
    monkeypatch.setattr(Counted, "steps", 0)
    assert export_json.count_of(export_json.type_of(values)) == 2000
    assert Counted.steps < 20 * len(values)


@pytest.mark.parametrize("letters", [b"x" * 1_000_000, b"\\n" * 500_000], ids=["plain", "escaped"])
def test_measuring_the_depth_takes_no_memory_per_letter(letters: bytes) -> None:
    brackets = b"[" * 150 + b"]" * 150
    value = b'{"a": "' + letters + b'", "b": ' + brackets + b', "c": ' + brackets + b"}"
    tracemalloc.start()
    try:
        assert export_json.load(value).keys() == {"a", "b", "c"}
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10 * len(value)


def test_brackets_in_text_are_no_depth_and_those_behind_it_are() -> None:
    many = "[" * 300
    assert export_json.load(json.dumps({"a": f'\\"{many}\\', "b": many}).encode())["b"] == many
    with pytest.raises(ValueError, match="nested deeper than 200 levels"):
        export_json.load(b'{"a": "\\\\\\"", "b": ' + many.encode())


def test_a_stack_without_room_makes_a_dead_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_json, "VALUE_DEPTH_MAX", 1_000_000)
    with pytest.raises(ValueError, match="nested too deep for the stack"):
        export_json.load(nested(100_000))


def test_a_key_for_each_record_does_not_become_a_column_for_each(tmp_path: Path) -> None:
    values = [json.dumps({"id": i, f"user-{i}": 1}).encode() for i in range(10_000)]
    assert inferred(values) == {"fields": {"id": "long"}}
    table, reasons = table_of(tmp_path, values[:200], {"fields": {"id": "long"}})
    assert reasons == {}
    found = table.filter("_offset = 7").project("id, _rest").fetchone()
    assert found == (7, '{"user-7":1}')


def test_deeper_values_stay_as_text(tmp_path: Path) -> None:
    values = [nested(31)] * 3
    kind = inferred(values)
    depth = 0
    while isinstance(kind, dict):
        depth += 1
        kind = kind["list"] if "list" in kind else kind["fields"]["deep"]
    assert (kind, depth) == ("string", export_json.DEPTH_MAX)
    table, _ = table_of(tmp_path, values, inferred(values))
    (found,) = table.project("deep").limit(1).fetchone()
    for _ in range(export_json.DEPTH_MAX - 1):
        (found,) = found
    assert json.loads(found) == json.loads(b"[" * 24 + b"1" + b"]" * 24)


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([1] * 99 + ["x"], "long"),
        (["x"] + [1] * 3, "long"),
        (["x"] + [1] * 2, "string"),
        ([1] * 50 + ["x"] * 50, "string"),
        ([1] * 90 + [1.5] * 10, "double"),
        ([1] * 999 + [1.5], "long"),
        ([1, 2.5], "double"),
        ([True] * 9 + [1], "boolean"),
        ([None] * 99 + [1], "long"),
        ([{"a": 1}] * 9 + [[1]], {"fields": {"a": "long"}}),
        ([{}] * 50 + [{"a": 1}] * 50, {"fields": {"a": "long"}}),
        ([{}] * 3, "string"),
        ([[]] * 5 + [[1, None]] * 5, {"list": "long"}),
        ([[1, "x"]] * 5, {"list": "string"}),
        ([[1]] * 9 + [["x"]], {"list": "long"}),
        ([2**64] * 5, "string"),
        ([{f"k{i}": 1 for i in range(501)}] * 5, "string"),
    ],
    ids=str,
)
def test_what_three_quarters_of_the_values_have(values: list[Any], wanted: Any) -> None:
    records = bytes_of(*({"f": each} for each in values))
    for seed in range(3):
        random.Random(seed).shuffle(records)
        assert inferred(records) == {"fields": {"f": wanted}}


@pytest.mark.parametrize("values", [[None] * 5, [[]] * 5, [[None]] * 5], ids=str)
def test_what_nothing_is_known_of_becomes_a_column_when_it_is(values: list[Any]) -> None:
    first = inferred(bytes_of(*({"id": 1, "f": each} for each in values)))
    assert first == {"fields": {"id": "long"}}
    wanted = {"fields": {"id": "long", "f": {"list": "long"}}}
    assert inferred(bytes_of({"f": [7]}), first) == wanted


def test_the_order_of_splits_does_not_matter() -> None:
    parts = [GOOD[i * 10:i * 10 + 10] for i in range(10)]
    parts[3] = [*parts[3], b'{"id": "x", "new": 1}', b'{"Name": 2}']
    found = []
    for order in itertools.islice(itertools.permutations(parts), 0, 3_000_000, 700_001):
        tally = export_infer.joined(map(export_infer.tally_of, order))
        found.append(export_infer.extended(None, tally))
    assert found[0][0] == GOOD_TYPE
    assert all(each == found[0] for each in found)


def test_a_tally_is_bounded_and_forgets_the_rarest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_infer, "TALLY_NAMES_MAX", 100)
    values = bytes_of(*({"id": i, f"k{i}": 1, "box": {f"j{i}": 1}} for i in range(5000)))
    tally = export_infer.joined([export_infer.tally_of(values)] * 3)
    assert export_infer._names(tally) <= 100
    assert export_infer.extended(None, tally)[0]["fields"].keys() == {"id", "box"}


def test_there_is_room_for_so_many_columns_and_the_most_seen_have_it() -> None:
    wide = [{f"a{i}": 1 for i in range(1500)}] * 5 + [{f"b{i}": 1 for i in range(1500)}] * 4
    kind, _, left_out = export_infer.extended(None, export_infer.tally_of(bytes_of(*wide)))
    assert len(kind["fields"]) == export_json.FIELDS_MAX
    assert sum(name.startswith("a") for name in kind["fields"]) == 1500
    assert len(left_out) == 1000
    assert inferred(bytes_of({"new": 1}), kind) == kind


def test_names_that_readers_cannot_tell_apart_are_one_column() -> None:
    values = bytes_of(*[{"Id": 1, "a": {"b": 1}, "x.y": 1}] * 9, *[{"id": 1, "a.b": 2}] * 3)
    kind, _, left_out = export_infer.extended(None, export_infer.tally_of(values))
    assert kind["fields"].keys() == {"Id", "a", "x.y"}
    assert left_out == ["a.b", "id"]
    assert inferred(bytes_of(*[{"ID": 1}] * 20), kind) == kind


# The sample

def test_the_sample_is_spread_over_partitions_and_over_each() -> None:
    splits = [{"topic": "t", "partition": n, "from": 100, "to": 1_000_100} for n in range(4)]
    for task in export_schema.tasks_of([*splits, {**splits[0], "topic": "other"}], 1000)[:4]:
        found = export_schema.pieces(task)
        assert sum(each["to"] - each["from"] for each in found) == 250
        assert [each["from"] for each in found] == list(range(100, 1_000_100, 100_000))
    few = export_schema.tasks_of([{"topic": "t", "partition": 0, "from": 5, "to": 900}])
    assert export_schema.pieces(few[0]) == few


# Replacing a schema

def manifest_of(kind: Any, rows: int = 3) -> Any:
    schema = {"mode": "json", "type": kind, "by": "inference", "sampled": 3}
    return after_run(export_manifest.empty(), schema, rows)


def after_run(manifest: Any, schema: Any, rows: int = 3) -> Any:
    number = manifest["sequence"] + 1
    part = {"partition": 0, "from": 0, "to": rows, "end_offset": rows, "lost": 0}
    plan = {"id": f"r{number}", "sequence": number, "created_ms": 0, "reason": "test", "splits": [],
            "partition_by": "timestamp",
            "topics": [{"topic": "t", "topic_id": "i", "cluster_id": "c", "isolation": "x",
                        "schema": schema, "partitions": [part]}]}
    file = {"path": f"f{number}", "topic": "t", "folder": "t/d/h", "is_dead_letter": False,
            "ranges": [], "rows": rows, "bytes": 1}
    counted = [{**part, "topic": "t", "rows": rows, "dead_letters": 0}]
    return export_manifest.committed(manifest, plan, [file], counted, 5)


TEXT = {"fields": {"id": "string", "name": "string"}}
RIGHT = {"fields": {"id": "long", "name": "string"}}


def test_a_schema_is_shown_with_who_decided_it() -> None:
    found = export_schema.shown(manifest_of(TEXT), "t")
    assert (found["type"], found["decided_by"], found["sampled"]) == (TEXT, "inference", 3)
    assert found["files"] == [{"version": 0, "files": 1, "rows": 3, "type": TEXT}]
    assert "decided by inference, by 3 records last time" in export_schema.as_text(found)
    with pytest.raises(ExportFailed, match=r"has no topic other, it has \['t'\]"):
        export_schema.shown(manifest_of(TEXT), "other")


def test_another_type_is_refused_beside_files_with_the_old_one_unless_they_may_stay() -> None:
    manifest = manifest_of(TEXT)
    told = r'1 files with 3 rows have other types: id is string, wanted long\. .*--target NEW'
    with pytest.raises(ExportFailed, match=told):
        export_schema.put(manifest, "t", {"type": RIGHT}, False)
    new = export_schema.put(manifest, "t", {"type": RIGHT}, True)
    assert (manifest["sequence"], new["sequence"]) == (1, 2)
    found = export_schema.shown(new, "t")
    assert (found["type"], found["decided_by"], found["version"]) == (RIGHT, "person", 1)
    assert found["files"] == [{"version": 0, "files": 1, "rows": 3, "type": TEXT}]
    with pytest.raises(ExportFailed, match="The Iceberg table of this target cannot follow"):
        export_schema.put({**manifest, "table": {"name": "n"}}, "t", {"type": RIGHT}, True)


def test_fields_may_be_added_and_left_out() -> None:
    more = {"fields": {"name": "string", "more": {"list": "long"}}}
    new = export_schema.put(manifest_of(TEXT), "t", {"type": more}, False)
    assert new["topics"]["t"]["schema"] == {"mode": "json", "type": more, "by": "person"}
    assert export_manifest.schema_of(new["topics"]["t"], 0)["type"] == TEXT  # for repairs


def test_a_run_without_records_leaves_the_schema_as_it_is() -> None:
    for by in ("person", "inference"):
        schema = {"mode": "json", "type": TEXT, "by": by}
        manifest = after_run(after_run(export_manifest.empty(), schema), {"mode": "json"}, rows=0)
        of = manifest["topics"]["t"]
        assert (of["schema"], of.get("schema_version", 0)) == (schema, 0)


def test_another_type_is_refused_also_in_two_steps() -> None:
    less = {"fields": {"name": "string"}}
    step = export_schema.put(manifest_of(TEXT), "t", {"type": less}, False)
    with pytest.raises(ExportFailed, match="1 files with 3 rows have other types: id is string"):
        export_schema.put(step, "t", {"type": RIGHT}, False)
    with pytest.raises(ExportFailed, match="Iceberg"):
        export_schema.put({**step, "table": {"name": "n"}}, "t", {"type": RIGHT}, True)
    kept = export_schema.put(step, "t", {"type": RIGHT}, True)
    more = {"fields": {**RIGHT["fields"], "more": "long"}}
    export_schema.put(kept, "t", {"type": more}, False)  # an accepted mismatch stays accepted
    with pytest.raises(ExportFailed, match="have other types: name is string, wanted long"):
        export_schema.put(kept, "t", {"type": {"fields": {"id": "long", "name": "long"}}}, False)


def test_raw_files_and_json_do_not_lie_in_one_folder() -> None:
    with pytest.raises(ExportFailed, match="hold it as json, wanted raw"):
        export_schema.check_change(manifest_of(TEXT), "t", {"mode": "raw"})
    raw = after_run(export_manifest.empty(), {"mode": "raw"})
    with pytest.raises(ExportFailed, match="hold it as raw, wanted json"):
        export_schema.check_change(raw, "t", {"mode": "json"})


def test_a_schema_that_the_next_run_would_set_again_is_not_put() -> None:
    given = {"mode": "json", "type": TEXT, "given": json.dumps(TEXT)}
    manifest = after_run(export_manifest.empty(), given)
    more = {"fields": {**TEXT["fields"], "more": "long"}}
    for found, keeps in (({"type": more}, False), ({"type": more, "by": "inference"}, True)):
        with pytest.raises(ExportFailed, match="that of a schema file"):
            export_schema.put(manifest, "t", found, keeps)
    new = export_schema.put(manifest, "t", {"type": RIGHT}, True)
    assert new["topics"]["t"]["schema"]["type"] == RIGHT


def test_nothing_is_inferred_of_a_log_without_records(appliance_broker: RunningBroker) -> None:
    Rest(appliance_broker.admin).post("/topics", {"name": "t"})
    port = AdminPort(appliance_broker.admin)
    manifest = manifest_of(TEXT)
    manifest["topics"]["t"]["isolation"] = "read_committed"
    with pytest.raises(ExportFailed, match="has no record now"):
        export_run.inferred(manifest, "t", port, 0)


def test_files_of_avro_keep_the_schema_that_they_were_written_with() -> None:
    old = {"mode": "avro", "framing": "none",
           "type": {"type": "record", "name": "v", "fields": [{"name": "a", "type": "long"}]}}
    more = {**old, "type": {**old["type"], "fields": [{"name": "b", "type": "string"}]}}
    manifest = after_run(after_run(export_manifest.empty(), old), old)
    assert manifest["topics"]["t"].get("schema_version", 0) == 0
    new = after_run(manifest, more)
    assert [each.get("schema_version", 0) for each in new["files"]] == [0, 0, 1]
    of = new["topics"]["t"]
    assert [export_manifest.schema_of(of, each) for each in (0, 1)] == [old, more]
    union = {"mode": "avro", "type": ["null", "int"]}
    assert after_run(after_run(export_manifest.empty(), union), union)["sequence"] == 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "the schema is not JSON"),
        ("[" * 100_000, "the schema is not JSON"),
        ('"string"', "a schema begins with"),
        ('{"id": "long"}', "a schema begins with"),
        ('{"fields": {"id": "int"}}', "field id: got int, wanted one of boolean, long"),
        ('{"fields": {"a": {"list": {"fields": {"b": null}}}}}', r"field a\[\]\.b: got None"),
        ('{"fields": {"a": {"list": "long", "fields": {}}}}', "field a: got"),
        ('{"fields": {"\\ud800": "long"}}', "surrogate"),
        ('{"fields": {"o": {"fields": {"A": "long", "a": "long"}}}}', "A and a within o are one"),
        ('{"fields": {"_rest": "string"}}', "_rest: every export has that column already"),
        ('{"fields": {"_Key": "string"}}', "_Key: every export has that column already"),
        ('{"fields": {"a": {"list": {"fields": {}}}}}', r"a\[\]: an object without fields"),
        ('{"fields": {"a": ' + '{"list": ' * 300 + '"long"' + "}" * 302, "wanted one of"),
    ],
)  # fmt: skip
def test_a_schema_that_a_person_gives_is_checked(text: str, why: str) -> None:
    with pytest.raises(ExportFailed, match=why):
        export_run.given_schema("json", text)


def test_a_topic_without_a_schema_says_so() -> None:
    found = export_schema.shown(after_run(export_manifest.empty(), {"mode": "raw"}), "t")
    assert (found["decided_by"], export_schema.as_text(found)) == (None, "t: raw, no schema")


def test_a_file_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_bytes(b'\xff{"fields": {}}')
    with pytest.raises(ExportFailed, match=r"schema\.json is not UTF-8: .*0xff in position 0"):
        export_layout.text_of(file)

"""Proposals of schemas, from the log of a broker. No Spark runs."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from appliance.cli.main import main
from appliance_spark import export_json, export_propose
from tests.support.spark_data import Sending
from tests.support.warm_broker import WarmBroker as Broker


@pytest.fixture(scope="module")
def sending(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sending]:
    with Broker(tmp_path_factory.mktemp("propose") / "data") as broker:
        yield Sending(broker)


def invoked(sending: Sending, topic: str, *words: str) -> Any:
    return CliRunner().invoke(
        main, ["export", "schema", topic, "--propose", "--admin", sending.broker.admin, *words])


def proposed(sending: Sending, topic: str, *words: str) -> dict[str, Any]:
    done = invoked(sending, topic, *words, "--json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def by_name(found: dict[str, Any]) -> dict[str, Any]:
    return {each.pop("field"): each for each in found["fields"]}


@pytest.fixture(scope="module")
def mixed(sending: Sending) -> str:
    """90 whole numbers and ten texts in `id`, three fractions in `amount`, objects, a list."""
    sending.create("mixed", 2)
    for i in range(100):
        row = {"id": f"x{i}" if i % 10 == 3 else i, "amount": i + 0.5 if i % 40 == 7 else i,
               "user": {"name": "n", "tags": [{"k": 1}]}, "flag": None if i % 2 else True}
        if i == 50:
            row["once"] = 1
        sending.send("mixed", [json.dumps(row).encode()], partition=i % 2)
    sending.send("mixed", [None, b"no json", b"[1]"])
    return "mixed"


def test_each_field_is_told_with_its_records_and_types(sending: Sending, mixed: str) -> None:
    found = proposed(sending, mixed)
    assert found["schema"] == {"fields": {
        "amount": "double", "flag": "boolean", "id": "long",
        "user": {"fields": {"name": "string", "tags": {"list": {"fields": {"k": "long"}}}}}}}
    assert found["sample"] | {"bytes": 0} == {
        "records": 103, "bytes": 0, "objects": 100, "nulls": 1, "others": 2,
        "ended_by": "the end of the log"}
    fields = by_name(found)
    assert [*fields] == [
        "amount", "flag", "id", "user", "user.name", "user.tags", "user.tags[].k", "once"]
    assert fields["id"] == {"records": 100, "types": {"long": 90, "string": 10}, "column": "long",
                            "misfits": 10, "note": "10 would be dead letters"}
    assert fields["amount"]["types"] == {"double": 3, "long": 97}
    assert (fields["flag"]["types"], fields["flag"]["misfits"]) == ({"boolean": 50, "null": 50}, 0)
    assert (fields["user.tags"]["column"], fields["user.tags[].k"]["records"]) == (
        "list of object", 100)
    assert (fields["once"]["column"], fields["once"]["note"]) == (
        None, "in too few records, or only null: into _rest")


@pytest.mark.parametrize(("conflicts", "kind", "note"), [
    ("text", "string", "values of other types as text"),
    ("dead-letters", "long", "10 would be dead letters"),
])  # fmt: skip
def test_a_person_says_what_becomes_of_conflicts(
    sending: Sending, mixed: str, conflicts: str, kind: str, note: str, tmp_path: Path
) -> None:
    file = tmp_path / "schema.json"
    found = proposed(sending, mixed, "--conflicts", conflicts, "--write", str(file))
    fields = by_name(found)
    assert (fields["id"]["column"], fields["id"]["note"]) == (kind, note)
    assert fields["amount"]["column"] == "double"  # numbers are no conflict
    written = json.loads(file.read_text())
    assert export_json.checked(written) == written == found["schema"]


def test_a_person_reads_a_table(sending: Sending, mixed: str) -> None:
    done = invoked(sending, mixed)
    assert done.exit_code == 0, done.output
    schema, heads, *_ = done.stdout.splitlines()
    assert json.loads(schema)["fields"]["id"] == "long"
    assert heads.split() == ["FIELD", "RECORDS", "COLUMN", "TYPES", "NOTE"]
    assert "long 90, string 10" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("100 objects of 103 records, ")


def test_a_hostile_first_record_makes_no_column(sending: Sending) -> None:
    sending.create("hostile")
    many = {f"f{i}": i for i in range(5000)}
    deep: Any = 1
    for _ in range(150):
        deep = {"d": deep}
    names = {"n" * 500: 1, "\u202eevil": 1, "line\nend": 1, "": 1}
    sending.send("hostile", [json.dumps(each).encode() for each in (
        many, {f"g{i}": i for i in range(1500)}, {"deep": deep}, names)])
    sending.send("hostile", [b'{"id": %d}' % i for i in range(50)])
    found = proposed(sending, "hostile")
    assert found["schema"] == {"fields": {"id": "long"}}
    assert found["sample"]["others"] == 1  # more fields than a file may have columns
    assert len(found["fields"]) == 1 + export_propose.LEFT_OUT_SHOWN
    assert found["without_column"] > 1000
    assert all(name.isprintable() and len(name) < 200 for name in by_name(found))


@pytest.mark.parametrize(("words", "end"), [
    (("--records", "20"), "20 records"), (("--bytes", "1KiB"), "1024 bytes"),
    (("--seconds", "0.1"), "0.1 seconds"),
])  # fmt: skip
def test_a_sample_ends_at_its_bounds(
    sending: Sending, mixed: str, words: tuple[str, str], end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "seconds" in words[0]:  # the clock has gone on by a second whenever it is read
        ticks = itertools.count()
        clock = SimpleNamespace(monotonic=lambda: next(ticks))
        monkeypatch.setattr(export_propose, "time", clock)
    found = proposed(sending, mixed, *words)
    assert found["sample"]["ended_by"] == end
    assert found["sample"]["records"] <= 30


def test_what_has_no_objects_and_what_goes_together_is_told(
    sending: Sending, mixed: str, tmp_path: Path
) -> None:
    sending.create("texts")
    sending.send("texts", [b"no json", None])
    done = invoked(sending, "texts")
    assert done.exit_code == 1
    assert "none of 2 records is an object (with 1 without a value)" in done.output
    assert invoked(sending, "nowhere").exit_code == 3
    assert invoked(sending, mixed, "--target", str(tmp_path)).exit_code == 2
    done = CliRunner().invoke(main, ["export", "schema", mixed, "--admin", sending.broker.admin])
    assert (done.exit_code, "wanted --target, or --propose" in done.output) == (2, True)

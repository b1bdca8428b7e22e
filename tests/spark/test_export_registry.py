"""Exports of values by the schemas of a registry: by what real ones answered, and with one that is
away, refuses, or is none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from appliance.cli.main import main
from appliance_spark import export_infer, export_registry, export_run, export_schema
from appliance_spark.export_layout import ExportFailed, FolderStaging
from appliance_spark.export_plan import Wanted
from appliance_spark.export_registry import Place
from appliance_spark.export_write import Writing, write_split
from tests.admin.test_admin_topic_schemas import avro, order
from tests.admin.test_schema_registry import ROW, WHOLE_ORDER, head
from tests.export.test_export_parts import BEGIN_MS, SHAPE, batch_of, rows_of, split_of
from tests.support.exporting import Make
from tests.support.registry_schemas import UNKNOWN_ID, Recording, recorded
from tests.support.registry_servers import RepeatingRegistry, tell

PAID = b"\x0a\x04\x08\x80\xf1\x04" + b"\x12\x08\x0a\x01a\x12\x03\x0a\x01n" + b"\x28\x00"
OWN = {"_key", "_partition", "_offset", "_timestamp", "_headers", "_tombstone", "_rest"}


@pytest.fixture
def registry() -> Iterator[RepeatingRegistry]:
    server = RepeatingRegistry(recorded("apicurio"))
    server.answers["/schemas/types"] = (200, ["AVRO", "JSON", "PROTOBUF"])
    yield server
    server.close()


@pytest.fixture(autouse=True)
def _tries_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_registry, "pause", lambda attempt: None)


def exported(folder: Path, place: Place, *values: bytes | None) -> dict[str, Any]:
    """By the schema that a run would infer of these values."""
    batch = batch_of([(i, value, BEGIN_MS) for i, value in enumerate(values)])
    load = export_registry.loader(place)
    tally = export_infer.tally_of(export_registry.items(batch), load)
    kind = export_schema.settled(None, [tally])[0]
    schema = {"mode": "registry", **kind}
    split = split_of(0, len(values))
    staging = FolderStaging(str(folder))
    return write_split(staging, split, schema, Writing("timestamp"), iter([batch]), place)


def fields_of(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in OWN}


def test_avro_becomes_columns_and_what_cannot_be_decoded_a_dead_letter(
    registry: RepeatingRegistry, tmp_path: Path
) -> None:
    value = head(registry.ids["orders-value"]) + avro(WHOLE_ORDER, ROW)
    done = exported(tmp_path, Place(registry.url), value, None, value + b"x", b"plain",
                    head(UNKNOWN_ID) + b"x", head(UNKNOWN_ID) + b"y")
    assert (done["rows"], done["dead_letters"]) == (2, 4)
    first, second = rows_of(done)
    assert fields_of(first) == ROW  # a number of 54 bits is exact
    assert (second["id"], second["_tombstone"]) == (None, True)
    reasons = {row["offset"]: row["reason"] for row in rows_of(done, is_dead=True)}
    assert "1 bytes are left behind the record" in reasons[2]
    assert reasons[3] == "names no schema of a registry: it begins with 706c61696e"
    assert f"schema {UNKNOWN_ID}: " in reasons[4]
    assert "(404)" in reasons[5]
    asked = [path for path in registry.asked if str(UNKNOWN_ID) in path]
    assert len(asked) == 1, "what is known, also that there is none, is not asked for again"


def test_protobuf_becomes_columns_with_numbers_and_defaults(
    registry: RepeatingRegistry, tmp_path: Path
) -> None:
    number = head(registry.ids["paid-value"])
    done = exported(
        tmp_path, Place(registry.url),
        number + b"\0" + order(id=2**60, who_is="Ada", lines=[{"what": "tea"}]),
        number + b"\0" + order(id=0, who_is="", lines=[]))
    assert (done["rows"], done["dead_letters"]) == (2, 0)
    first, second = rows_of(done)
    assert fields_of(first) == {"id": 2**60, "who_is": "Ada", "lines": [{"what": "tea"}]}
    assert fields_of(second) == {"id": 0, "who_is": "", "lines": []}
    paid = exported(tmp_path, Place(registry.url), number + b"\x02\x02" + PAID)
    assert fields_of(rows_of(paid)[0]) == {
        "at": "1970-01-01T22:13:20Z", "notes": {"a": {"text": "n"}}, "cents": 0}


def test_a_header_may_name_the_schema(registry: RepeatingRegistry, tmp_path: Path) -> None:
    batch = batch_of([(0, avro(WHOLE_ORDER, ROW), BEGIN_MS)])
    named = [{"key": "__value_schema_id", "value": head(registry.ids["orders-value"])}]
    headers = pa.array([named], SHAPE.field(7).type)
    batch = batch.set_column(7, SHAPE.field(7), headers)
    load = export_registry.loader(Place(registry.url))
    assert [load(item) for item in export_registry.items(batch)] == [ROW]


def test_columns_of_a_schema_of_thousands_are_bounded(
    registry: RepeatingRegistry, tmp_path: Path
) -> None:
    wide = {"type": "record", "name": "Wide", "fields": [
        {"name": f"f{i}", "type": "int"} for i in range(3000)]}
    registry.answers["/schemas/ids/99"] = (200, {"schema": json.dumps(wide)})
    value = head(registry.ids["orders-value"]) + avro(WHOLE_ORDER, ROW)
    hostile = head(99) + avro(wide, {f"f{i}": i for i in range(3000)})
    done = exported(tmp_path, Place(registry.url), hostile, *[value] * 20)
    assert (done["rows"], done["dead_letters"]) == (21, 0)
    names = set(pq.read_schema(done["files"][0]["staged"]).names)
    assert names == {"id", "lines", *OWN}
    assert json.loads(rows_of(done)[0]["_rest"])["f2999"] == 2999


def refuses(handler: BaseHTTPRequestHandler) -> bool:
    tell(handler, 403, {"error_code": 40301})
    return True


def shows_a_page(handler: BaseHTTPRequestHandler) -> bool:
    tell(handler, 200, b"<html>Log in</html>")
    return True


def knows_no_path(handler: BaseHTTPRequestHandler) -> bool:
    tell(handler, 404, b"<html>Not found</html>")
    return True


def is_overloaded(handler: BaseHTTPRequestHandler) -> bool:
    tell(handler, 503, b"")
    return True


@pytest.mark.parametrize(("wrong", "reason"), [
    (refuses, "answered 403"), (shows_a_page, "answered no JSON"),
    (knows_no_path, "is it a registry\\?"), (is_overloaded, "answered 503"),
])  # fmt: skip
def test_a_registry_that_cannot_be_asked_ends_the_task(
    registry: RepeatingRegistry, tmp_path: Path, wrong: Any, reason: str
) -> None:
    registry.wrong = wrong
    value = head(registry.ids["orders-value"]) + avro(WHOLE_ORDER, ROW)
    with pytest.raises(ExportFailed, match=f"cannot be asked, so nothing is exported.*{reason}"):
        exported(tmp_path, Place(registry.url), value)
    registry.wrong = lambda _: False  # it is asked again
    assert exported(tmp_path, Place(registry.url), value)["rows"] == 1


def test_a_registry_that_is_away_ends_the_task(tmp_path: Path) -> None:
    server = RepeatingRegistry(Recording({}, {}))
    server.close()
    with pytest.raises(ExportFailed, match="cannot be asked, so nothing is exported"):
        exported(tmp_path, Place(server.url), head(1) + b"x")


def test_the_login_comes_from_a_file_of_its_owner(
    registry: RepeatingRegistry, tmp_path: Path
) -> None:
    file = tmp_path / "password"
    file.write_text("secret\n")
    file.chmod(0o600)
    place = export_registry.place_of(registry.url, "job", file, None)
    assert place is not None
    assert "secret" not in repr(place)
    value = head(registry.ids["orders-value"]) + avro(WHOLE_ORDER, ROW)
    exported(tmp_path, place, value)
    assert registry.headers[-1]["Authorization"] == "Basic am9iOnNlY3JldA=="
    file.chmod(0o644)
    with pytest.raises(ExportFailed, match="--registry-password-file"):
        export_registry.place_of(registry.url, "job", file, None)
    with pytest.raises(ExportFailed, match="wants --registry-password-file"):
        export_registry.place_of(registry.url, "job", None, None)


def test_a_run_fails_while_the_registry_refuses_and_the_next_has_every_record(
    make: Make, registry: RepeatingRegistry
) -> None:
    export = make("framed", 1)
    value = head(registry.ids["orders-value"]) + avro(WHOLE_ORDER, ROW)
    export.topics.send(export.topic, [value] * 20 + [head(UNKNOWN_ID) + b"x"])

    def run(place: Place | None) -> dict[str, Any]:
        wanted = Wanted((export.topic,), schema={"mode": "registry"})
        job = export_run.Job(export.target, export.broker, wanted, registry=place,
                             begins=not export.target.exists())
        return export_run.run(job, lambda: export.spark, export.said.append)

    with pytest.raises(ExportFailed, match="wants the address of the registry"):
        run(None)
    registry.wrong = refuses
    with pytest.raises(ExportFailed, match=r"cannot be asked, so nothing is exported: .* 403"):
        run(Place(registry.url))
    assert not list(export.target.data_files())
    registry.wrong = lambda _: False
    summary = run(Place(registry.url))
    assert (summary["rows"], summary["dead_letters"]) == (20, 1)
    assert export.verify() == []
    words = ("export", "schema", export.topic, "--admin", export.broker.address)
    done = CliRunner().invoke(main, [*words, "--propose", "--registry", registry.url])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output.splitlines()[0]) == {"fields": {"id": "long", "lines": {
        "list": {"fields": {"count": "long", "what": "string"}}}}}

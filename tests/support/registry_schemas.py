"""What the tests have in a schema registry, and how it gets there; and what a real registry
answered then, for tests that have none.

    python -m tests.support.registry_schemas http://127.0.0.1:8081 karapace

registers it all there, and writes what it answers to `tests/data/registries/karapace.json`.
"""

from __future__ import annotations

import base64
import json
import sys
import urllib.error
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from google.protobuf import descriptor_pb2

HERE = Path(__file__).parents[1] / "data" / "registries"
UNKNOWN_ID = 424_242
ASK_S = 60.0

LINE = {"type": "record", "name": "Line", "namespace": "shop", "fields": [
    {"name": "what", "type": "string"}, {"name": "count", "type": "int"}]}  # fmt: skip
ORDER = {"type": "record", "name": "Order", "namespace": "shop", "fields": [
    {"name": "id", "type": "long"},
    {"name": "lines", "type": {"type": "array", "items": "shop.Line"}}]}  # fmt: skip
LINE_PROTO = 'syntax = "proto3";\npackage shop;\nmessage Line {\n  string what = 1;\n}\n'
ORDER_PROTO = """syntax = "proto3";
package shop;

import "shop/line.proto";
import "google/protobuf/timestamp.proto";

message Order {
  int64 id = 1;
  string who_is = 2;
  repeated Line lines = 3;
  Order next = 4;
  message Note {
    string text = 1;
  }
}
message Paid {
  google.protobuf.Timestamp at = 1;
  map<string, Order.Note> notes = 2;
  oneof by {
    string card = 3;
    string invoice = 4;
  }
  optional int32 cents = 5;
}
"""
# As confluent-kafka's serializer for Python registers it: a FileDescriptorProto, here protoc's
OUTER = base64.b64encode(
    descriptor_pb2.FileDescriptorSet.FromString((HERE / "third.desc").read_bytes())
    .file[-1]
    .SerializeToString()
).decode()
PERSON = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Person",
          "type": "object", "properties": {"name": {"type": "string"}}}  # fmt: skip


@dataclass(frozen=True)
class Registered:
    subject: str
    form: str
    text: str
    references: tuple[tuple[str, str], ...] = ()  # by which name, which subject


ALL = (
    Registered("line", "AVRO", json.dumps(LINE)),
    Registered("orders-value", "AVRO", json.dumps(ORDER), (("shop.Line", "line"),)),
    Registered("orders-key", "AVRO", '"string"'),
    Registered("shop/line.proto", "PROTOBUF", LINE_PROTO),
    Registered("paid-value", "PROTOBUF", ORDER_PROTO, (("shop/line.proto", "shop/line.proto"),)),
    Registered("outer-value", "PROTOBUF", OUTER),
    Registered("people-value", "JSON", json.dumps(PERSON)),
)


def ask(url: str, body: Any = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, data, headers), timeout=ASK_S
        ) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read() or b"null")


def register(url: str) -> dict[str, int]:
    """The ids by subject."""
    ids = {}
    for each in ALL:
        body = {"schemaType": each.form, "schema": each.text, "references": [
            {"name": name, "subject": subject, "version": 1} for name, subject in each.references]}
        status, answer = ask(f"{url}/subjects/{quote(each.subject, safe='')}/versions", body)
        assert status == 200, (each, status, answer)
        ids[each.subject] = answer["id"]
    return ids


@dataclass(frozen=True)
class Recording:
    ids: dict[str, int]
    answers: dict[str, tuple[int, Any]]  # by path


def record(url: str) -> Recording:
    ids = register(url)
    paths = [f"/schemas/ids/{UNKNOWN_ID}"]
    paths += [f"/schemas/ids/{each}{more}" for each in ids.values() for more in ("", "/versions")]
    paths += [f"/subjects/{quote(subject, safe='')}/versions/1" for each in ALL
              for _, subject in each.references]  # fmt: skip
    return Recording(ids, {path: ask(url + path) for path in paths})


def recorded(name: str) -> Recording:
    table = json.loads((HERE / f"{name}.json").read_text())
    answers = {path: (status, answer) for path, (status, answer) in table["answers"].items()}
    return Recording(table["ids"], answers)


if __name__ == "__main__":
    made = asdict(record(sys.argv[1].rstrip("/")))
    (HERE / f"{sys.argv[2]}.json").write_text(json.dumps(made, indent=1) + "\n")

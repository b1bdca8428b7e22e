"""The field tables of `appliance/protocol/messages/`, made from the JSON that Kafka publishes with
its client.

    python -m tests.protocol.message_tables DescribeTopicPartitions    writes that API's module
    python -m tests.protocol.message_tables                            writes all modules again

The head of a module, which says what the API is for, is written by hand and kept. `OURS` has the
fields that Kafka does not know.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import textwrap
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from appliance import protocol
from appliance.protocol import messages
from tests.interop import kafka_jars

FOLDER = Path(messages.__file__).parent
ROOT = Path(__file__).parents[2]

# Fields that Kafka does not have, by the struct at whose end they stand.
OURS = {
    "TopicProduceData": (
        "# ours: the sender is the mirror of this topic, and the batches keep their offsets",
        'mirror_source: str = field(string, "9+", tag=10_000)',
    )
}

# Kafka's types: ours, and Python's.
TYPES = {
    "bool": ("boolean", "bool"), "int8": ("int8", "int"), "int16": ("int16", "int"),
    "int32": ("int32", "int"), "int64": ("int64", "int"), "uint16": ("uint16", "int"),
    "uint32": ("uint32", "int"), "float64": ("float64", "float"), "string": ("string", "str"),
    "uuid": ("uuid", "UUID"), "bytes": ("data", "bytes"), "records": ("records", "bytes | None"),
}  # fmt: skip

COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*')
WORD = re.compile(r"[A-Z]\d+|[A-Z]+(?=[A-Z][a-z]|$)|[A-Z]?[a-z0-9]+|[A-Z]+")
KINDS = re.compile(r"\b(?:array|boolean|data|field|float64|u?int\d+|records|string|uuid)(?=[(),])")
BOUNDS = {2**31 - 1: "2**31 - 1", 2**63 - 1: "2**63 - 1", -(2**31): "-(2**31)"}


@cache
def published() -> Mapping[str, Any]:
    """Each message by its name, as in `ProduceRequest`."""
    with zipfile.ZipFile(kafka_jars.sources()) as sources:
        names = [name for name in sources.namelist() if name.startswith("common/message/")]
        texts = [COMMENT.sub(lambda match: match[1] or "", sources.read(name).decode())
                 for name in names if name.endswith(".json")]
    tables = [json.loads(text) for text in texts]
    return {table["name"]: table for table in tables}


class Versions(NamedTuple):
    first: int
    last: int

    @classmethod
    def of(cls, message: Mapping[str, Any]) -> Versions:
        first, _, last = message["validVersions"].partition("-")
        newest = int(last or first)
        return cls(int(first), newest - bool(message.get("latestVersionUnstable")))

    def cut(self, text: str) -> str:
        """As a row says it: empty for a field in none of them, `0+` for one in all."""
        if text == "none":
            return ""
        first, _, last = text.partition("-")
        begin = int(first.rstrip("+"))
        end = self.last if text.endswith("+") else int(last or first)
        if begin > self.last or end < self.first:
            return ""
        if begin <= self.first:
            return "0+" if end >= self.last else f"0-{end}" if end else "0"
        return f"{begin}+" if end >= self.last else f"{begin}-{end}" if end > begin else str(end)


def snake(name: str) -> str:
    return "_".join(WORD.findall(name)).lower()


class Message:
    """A request or a response: structs within structs, written before those that contain them."""

    def __init__(self, table: Mapping[str, Any], versions: Versions) -> None:
        self.table = table
        self.versions = versions
        self.name: str = table["name"]
        self.common = {each["name"]: each for each in table.get("commonStructs", ())}
        self.written: set[str] = set()

    def text(self) -> str:
        structs = "\n".join(self._structs(self.table["fields"]))
        rows = "\n".join(self._rows(self.table["fields"], is_top=True))
        body = f"VERSIONS: ClassVar = VERSIONS\n\n{structs}\n{rows}".rstrip()
        return f"class {self.name}(Message):\n{textwrap.indent(body, '    ')}\n"

    def _structs(self, fields: list[Any]) -> Iterator[str]:
        for field in fields:
            name = field["type"].removeprefix("[]")
            if name in TYPES or name in self.written or not self._spans(field):
                continue
            inner = field.get("fields") or self.common[name]["fields"]
            self.written.add(name)
            yield from self._structs(inner)
            rows = [*self._rows(inner, is_top=False), *OURS.get(name, ())]
            body = textwrap.indent("\n".join(rows) or "pass", "    ")
            yield f"class {name}(Message):\n{body}\n"

    def _spans(self, field: Mapping[str, Any]) -> str:
        return self.versions.cut(field.get("taggedVersions") or field["versions"])

    def _rows(self, fields: list[Any], *, is_top: bool) -> Iterator[str]:
        for field in fields:
            if self._spans(field):
                yield self._row(field, is_top)

    def _row(self, field: Mapping[str, Any], is_top: bool) -> str:
        name, spans = field["type"].removeprefix("[]"), self._spans(field)
        is_list = field["type"].startswith("[]")
        nullable = self.versions.cut(field.get("nullableVersions", "none"))
        kind, python = TYPES.get(name, (self._named(name, is_top), self._named(name, is_top)))
        if name not in TYPES and not is_top:
            kind = f"lambda: {kind}"
        if is_list:
            kind, python = f"array({kind})", f"list[{python}]"
        words = [kind, *([f'"{spans}"'] if spans != "0+" else [])]
        words += [f'nullable="{nullable}"'] if nullable else []
        words += [f"default={self._default(field)}"] if self._default(field) else []
        words += [f"tag={field['tag']}"] if "tag" in field else []
        null = " | None" if nullable and not python.endswith("None") else ""
        return f"{snake(field['name'])}: {python}{null} = field({', '.join(words)})"

    def _named(self, name: str, is_top: bool) -> str:
        return name if is_top else f"{self.name}.{name}"

    def _default(self, field: Mapping[str, Any]) -> str:
        """Where it is not the one of its type."""
        given = field.get("default")
        if given is None or (field["type"] == "string" and given == ""):
            return ""
        if given == "null":
            return "None"
        if field["type"] == "bool":
            return "True" if str(given).lower() == "true" else ""
        if field["type"] == "string":
            return repr(given).replace("'", '"')
        number = float(given) if field["type"] == "float64" else int(str(given), 0)
        return BOUNDS.get(number, str(number)) if number else ""


def module(name: str, head: str) -> str:
    """The text of an API's module."""
    tables = [published()[f"{name}{which}"] for which in ("Request", "Response")]
    versions = first, last = Versions.of(tables[0])
    request, response = (Message(table, versions) for table in tables)
    flexible = str(request.table["flexibleVersions"]).rstrip("+")
    span = f"{first}, {last}" + (f", flexible_from={flexible}" if flexible != "none" else "")
    classes = f"{request.text()}\n\n{response.text()}"
    names = {"Api", "Message", "Versions", *KINDS.findall(classes)}
    uuid = "from uuid import UUID\n" if "UUID" in classes else ""
    return (f"{head}\n\nfrom __future__ import annotations\n\n"
            f"from typing import ClassVar\n{uuid}\n"
            f"from appliance.protocol.types import {', '.join(names)}\n\n"
            f"VERSIONS = Versions({span})\n\n\n{classes}\n\n"
            f'API = Api({request.table["apiKey"]}, "{name}", {request.name}, {response.name})\n')


def formatted(texts: Mapping[str, str]) -> dict[str, str]:
    """By the rules of `make lint`; all at once, since each start of the formatter costs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for each, text in texts.items():
            (folder / f"{each}.py").write_text(text)
        ruff = [sys.executable, "-m", "ruff"]
        rules = ["--quiet", "--config", str(ROOT / "pyproject.toml"), str(folder)]
        subprocess.run([*ruff, "check", "--select", "I", "--fix", *rules], check=True)
        subprocess.run([*ruff, "format", *rules], check=True)
        return {each: (folder / f"{each}.py").read_text() for each in texts}


def path_of(name: str) -> Path:
    return FOLDER / f"{snake(name)}.py"


def head_of(name: str) -> str:
    path = path_of(name)
    if not path.exists():
        return f'"""{name}: what it is for."""'
    head = re.match(r'"""(?s:.*?)"""', path.read_text())
    assert head is not None, path
    return head[0]


def made(names: Iterable[str]) -> dict[str, str]:
    return formatted({each: module(each, head_of(each)) for each in names})


def keys(names: Iterable[str]) -> str:
    """The table of keys in `appliance/protocol/__init__.py`, with those of these names."""
    rows = dict(protocol.MODULES)
    rows |= {published()[f"{each}Request"]["apiKey"]: snake(each) for each in names}
    return "".join(f'    {key}: "{rows[key]}",\n' for key in sorted(rows))


def main() -> None:
    names = sys.argv[1:] or [api.name for api in protocol.API.values()]
    for name, text in made(names).items():
        path_of(name).write_text(text)
    table = Path(protocol.__file__)
    before, _, rest = table.read_text().partition("MODULES = {\n")
    _, _, after = rest.partition("}\n")
    table.write_text(f"{before}MODULES = {{\n{keys(names)}}}\n{after}")


if __name__ == "__main__":
    main()

"""`appliance export schema TOPIC --propose`: a schema for a topic's values, from a bounded sample,
and what the sample had in each field. Nothing is stored.

The columns are chosen as in a run (`export_infer`): no single record decides, and their number,
depth and names are bounded.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from appliance.cli.remote.output import table
from appliance_spark import export_infer, export_json, export_run, export_schema, export_tasks
from appliance_spark.export_broker import AdminPort
from appliance_spark.export_infer import Tally, seen
from appliance_spark.export_json import Type
from appliance_spark.export_layout import ExportFailed
from appliance_spark.export_registry import Place

SECONDS = 30.0  # for reading: a person waits
LEFT_OUT_SHOWN = 50  # fields without a column; a hostile record may have thousands

# What becomes of a field whose values have several types: the share that its type must have.
CONFLICTS = {
    "majority": export_infer.MAJORITY,  # as in a run
    "text": 1.0,
    "dead-letters": 0.0,
}
FIT = {"boolean": ("boolean",), "long": ("long",), "double": ("long", "double")}
HEADS = ("FIELD", "RECORDS", "COLUMN", "TYPES", "NOTE")


@dataclass
class Sample:
    """The values of a topic, until one of the bounds is reached."""

    records: int
    size: int
    seconds: float
    read: int = 0
    read_bytes: int = 0
    nulls: int = 0
    end: str = "the end of the log"

    def values(
        self, reading: export_tasks.Reading, tasks: list[dict[str, Any]]
    ) -> Iterator[Any]:
        """In any order of pieces: what ends early has still seen some of all partitions."""
        until = time.monotonic() + self.seconds
        pieces = [piece for task in export_schema.tasks_of(tasks, self.records, self.size)
                  for piece in export_schema.pieces(task)]
        random.Random(0).shuffle(pieces)
        if sum(task["to"] - task["from"] for task in tasks) > self.records:
            self.end = f"{self.records} records"
        for piece in pieces:
            with closing(export_tasks.sample(reading, piece)) as values:
                for value in values:
                    self.read += 1
                    data = value[0] if isinstance(value, tuple) else value
                    self.read_bytes += len(data or b"")
                    self.nulls += value is None
                    yield value
                    if self._is_over(until):
                        return

    def _is_over(self, until: float) -> bool:
        if self.read_bytes >= self.size:
            self.end = f"{self.size} bytes"
        elif time.monotonic() >= until:
            self.end = f"{self.seconds:g} seconds"
        else:
            return self.read >= self.records
        return True


def propose(
    broker: AdminPort, topic: str, sample: Sample, conflicts: str, retries: int,
    registry: Place | None = None,
) -> dict[str, Any]:
    """With a registry, of the values that name a schema of it."""
    reading = export_run.reading_of(
        broker, retries, "read_committed", registry, passes_holes=True)
    schema = {"mode": "json" if registry is None else "registry"}
    tasks = [{**task, "schema": schema}
             for task in export_run.whole_log(broker, topic, "read_committed")]
    load = export_tasks.loader_of(reading, {"schema": schema})
    tally = export_infer.tally_of(sample.values(reading, tasks), load)
    objects = tally["votes"].get("fields", 0)
    if not objects:
        raise ExportFailed(
            f"topic {topic}: none of {sample.read} records is an object (with {sample.nulls} "
            "without a value), so there is nothing to propose")
    kind, _, no_room = export_infer.extended(None, tally, CONFLICTS[conflicts])
    fields = list(fields_of(tally, kind))
    without = [each for each in fields if each["column"] is None]
    shown = [each for each in fields if each["column"]] + without[:LEFT_OUT_SHOWN]
    return {
        "topic": topic, "schema": kind, "conflicts": conflicts,
        "sample": {"records": sample.read, "bytes": sample.read_bytes, "objects": objects,
                   "nulls": sample.nulls, "others": sample.read - sample.nulls - objects,
                   "ended_by": sample.end},
        "fields": [{**each, "note": note_of(each, no_room)} for each in shown],
        "without_column": len(without),
    }


def fields_of(tally: Tally, kind: Type, above: str = "") -> Iterator[dict[str, Any]]:
    """Of an object, the most frequent first, and what is in them."""
    columns = kind.get("fields", {}) if isinstance(kind, dict) else {}
    for name, each in sorted(tally["fields"].items(), key=lambda one: (-seen(one[1]), one[0])):
        where, column = f"{above}{name}", columns.get(name)
        yield {"field": where, "records": seen(each), "types": dict(sorted(each["votes"].items())),
               "column": None if column is None else _short(column),
               "misfits": 0 if column is None else _misfits(each, column)}
        while isinstance(column, dict) and "list" in column and "item" in each:
            each, column, where = each["item"], column["list"], f"{where}[]"
        if isinstance(column, dict):
            yield from fields_of(each, column, f"{where}.")


def _short(kind: Type) -> str:
    if isinstance(kind, str):
        return kind
    return f"list of {_short(kind['list'])}" if "list" in kind else "object"


def _misfits(tally: Tally, kind: Type) -> int:
    """Values that the column does not take; text takes all."""
    if kind == "string":
        return 0
    word = kind if isinstance(kind, str) else next(iter(kind))
    takes = (*FIT.get(word, (word,)), "null")
    return sum(count for name, count in tally["votes"].items() if name not in takes)


def note_of(field: dict[str, Any], no_room: list[str]) -> str:
    if field["column"] is None:
        rare = "no room, or a name like another's" if field["field"] in no_room else (
            "in too few records, or only null")
        return f"{rare}: into {export_json.REST}"
    if field["misfits"]:
        return f"{field['misfits']} would be dead letters"
    kinds = [name for name in field["types"] if name not in ("null", field["column"])]
    return "values of other types as text" if field["column"] == "string" and kinds else ""


WORDS = {"list": "list", "fields": "object"}


def as_text(found: dict[str, Any]) -> str:
    rows = [(each["field"], each["records"], each["column"],
             ", ".join(f"{WORDS.get(name, name)} {count}" for name, count in each["types"].items()),
             each["note"]) for each in found["fields"]]
    sample, left = found["sample"], found["without_column"] - LEFT_OUT_SHOWN
    more = [f"{left} more fields without a column"] if left > 0 else []
    return "\n".join([
        json.dumps(found["schema"], ensure_ascii=False), table(HEADS, rows), *more,
        f"{sample['objects']} objects of {sample['records']} records, {sample['bytes']} bytes; "
        f"{sample['nulls']} without a value, {sample['others']} that are no object or have too "
        f"many fields; ended by {sample['ended_by']}"])

"""`appliance export dead-letters`: the records that did not parse, from the files of a target.

As JSON they are lines of `appliance consume --json` with a topic and a reason, so that `appliance
produce --json-lines` writes them again.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

from appliance.cli.remote.output import cell
from appliance_spark import export_manifest
from appliance_spark.export_layout import ExportFailed
from appliance_spark.export_store_target import AnyTarget

BATCH = 1000  # records in memory
SHOWN_MAX = 60  # characters of a value in the table
COLUMNS = ("partition", "offset", "timestamp", "key", "value", "headers", "reason")
HEADS = ("TOPIC", "PARTITION", "OFFSET", "TIME", "REASON", "VALUE")


def read(target: AnyTarget, topics: tuple[str, ...], limit: int) -> Iterator[dict[str, Any]]:
    """The newest files first, each in the order of offsets. Only committed ones."""
    manifest = export_manifest.load_known(target)
    known = ", ".join(sorted(manifest["topics"])) or "none"
    if unknown := [each for each in topics if each not in manifest["topics"]]:
        raise ExportFailed(f"{target.where} has no topic {unknown[0]}, it has {known}")
    files = [each for each in reversed(manifest["files"])
             if each["is_dead_letter"] and (not topics or each["topic"] in topics)]
    return islice((row for file in files for row in _rows(target, file)), limit)


def _rows(target: AnyTarget, file: dict[str, Any]) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet as pq

    with target.files.open(file["path"]) as data, pq.ParquetFile(data) as opened:
        for batch in opened.iter_batches(BATCH, columns=[*COLUMNS]):
            for row in batch.to_pylist():
                yield {"topic": file["topic"], **row}


def as_json(row: dict[str, Any]) -> str:
    headers = [{"name": each["key"], **_told(each["value"], "value", "is_base64")}
               for each in row["headers"] or ()]
    at = row["timestamp"]
    return json.dumps({
        "topic": row["topic"], "partition": row["partition"], "offset": row["offset"],
        "timestamp_ms": None if at is None else round(at.timestamp() * 1000),
        **_told(row["key"], "key", "key_is_base64"),
        **_told(row["value"], "value", "value_is_base64"),
        "headers": headers, "reason": row["reason"]}, ensure_ascii=False)


def as_cells(row: dict[str, Any]) -> tuple[Any, ...]:
    at = row["timestamp"]
    value = None if row["value"] is None else row["value"].decode(errors="backslashreplace")
    if value is not None and len(value) > SHOWN_MAX:
        value = f"{value[:SHOWN_MAX]}…"
    time = None if at is None else f"{at:%Y-%m-%d %H:%M:%SZ}"
    reason = cell(row["reason"])
    return row["topic"], row["partition"], row["offset"], time, reason, value


def _told(data: bytes | None, name: str, flag: str) -> dict[str, Any]:
    try:
        return {name: None if data is None else data.decode()}
    except UnicodeDecodeError:
        return {name: base64.b64encode(data or b"").decode(), flag: True}

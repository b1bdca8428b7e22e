"""The tasks of an export's workers: plain values in, plain values out.

Each task is a partition of an RDD: its worker reads a split from the broker and writes Parquet
itself, so records pass through no other process. docs/decisions/export-job.md has the gain.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import quote

from appliance.record._batch import BatchInfo, headers
from appliance.record._columns import Aborted, columns, is_transactional
from appliance_spark import (
    export_hash,
    export_infer,
    export_json,
    export_registry,
    export_rows,
    export_schema,
    export_write,
)
from appliance_spark.columns import TYPES, Column
from appliance_spark.endpoint import PASSING, Endpoint, meant, pause
from appliance_spark.export_layout import ExportFailed, Files, Staging

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from appliance_spark.fetching import Source

Task = dict[str, Any]
ALL = tuple(Column(name, True) for name in TYPES)


@dataclass(frozen=True)
class Reading:
    """The workers' access to the broker."""

    url: str  # of its bulk data
    token: str | None
    retries: int
    isolation: str
    ca: str = ""  # PEM of the authorities that are trusted; "": the system's
    registry: export_registry.Place | None = None
    passes_holes: bool = False  # goes on behind damaged records

    @property
    def source(self) -> Source:
        from appliance_spark.fetching import Source

        endpoint = Endpoint(self.url, self.token or "", self.retries, self.ca)
        return Source(endpoint, self.isolation, True, ALL, self.passes_holes)

    def batches(self, task: Task) -> Generator[pa.RecordBatch]:
        from appliance_spark.fetching import Fetching
        from appliance_spark.planning import Split

        split = Split(
            task["topic"], task["partition"], task["from"], task["to"], task["topic_id"])
        yield from Fetching(self.source, split).batches()


def spread(spark: SparkSession, tasks: list[Task], work: Callable[[Task], Any]) -> list[Any]:
    """The results, in the order of the tasks. Spark takes one if a task runs twice."""
    from py4j.protocol import Py4JJavaError, Py4JNetworkError
    from pyspark.errors import PySparkException

    if not tasks:
        return []
    try:
        found: list[Any] = spark.sparkContext.parallelize(tasks, len(tasks)).map(work).collect()
    except (Py4JJavaError, PySparkException) as error:  # newer PySparks raise the second
        raise ExportFailed(f"a task failed: {cause_in(str(error))}") from error
    except (Py4JNetworkError, OSError) as error:
        raise ExportFailed("Spark's JVM has ended: was it killed, or out of memory? What it said "
                           f"is in the log of the run ({error})") from error
    return found


def cause_in(text: str) -> str:
    """The error of a task from Spark's text: a worker's traceback within a Java stack. Health shows
    its beginning."""
    said = re.split(r"\n\tat |\n+JVM stacktrace:", text)[0].rstrip().splitlines()
    return re.sub(r"^.*\(TID \d+\) \([^)]*\): (?:[\w.$]+: )?", "", said[-1])


# The tasks

def write(
    reading: Reading, staging: Staging, writing: export_write.Writing, task: Task
) -> Any:
    """Writes a split to Parquet, and returns the result of each of its offsets."""
    done = export_write.write_split(
        staging, task, task["schema"], writing, reading.batches(task), reading.registry
    )
    holes = done.pop("holes")
    done["gone"] = explained(reading, task, holes) if holes else {}
    return done


def infer(reading: Reading, task: Task) -> Any:
    """The votes on types from a part of the values of a split."""
    load = loader_of(reading, task)
    return export_infer.joined(
        export_infer.tally_of(sample(reading, piece), load)
        for piece in export_schema.pieces(task))


def loader_of(reading: Reading, task: Task) -> Callable[[Any], dict[str, Any]]:
    if task["schema"]["mode"] == "registry":
        return export_registry.loader(reading.registry)
    return export_json.load


def sample(reading: Reading, piece: Task) -> Generator[Any]:
    """At least one value, however large it is; with its headers where they matter."""
    room = piece["sample"]["bytes"]
    with closing(reading.batches(piece)) as batches:
        for batch in batches:
            for value in export_rows.values_of(batch, piece["schema"]):
                if room <= 0:
                    return
                data = value[0] if isinstance(value, tuple) else value
                room -= len(data or b"") + 1
                yield value


def recount(reading: Reading, task: Task) -> Any:
    """The number of records of a split in the log, and their hash."""
    rows, words = 0, 0
    for batch in reading.batches(task):
        rows += batch.num_rows
        words += export_hash.sum_of(export_hash.hashes(batch, task["partition"]))
    return {"rows": rows, "hash": f"{words % export_hash.WORDS:016x}"}


def compare_thinned(of: Files, reading: Reading, task: Task) -> Any:
    """Checks that compaction left only exported, unchanged records. If files have no whole records,
    it compares only offsets."""
    import pyarrow.compute as pc

    left = _by_offset(
        (batch.column("offset"), export_hash.hashes(batch, task["partition"]))
        for batch in reading.batches(task))
    exported = _by_offset(pair for file in task["files"] for pair in _exported(of, task, file))
    at = pc.index_in(left["offset"], exported["offset"])
    unknown = left["offset"].filter(pc.is_null(at))
    changed = left["offset"].filter(pc.not_equal(left["hash"], exported["hash"].take(at)))
    problems = [
        f"the log has {len(offsets)} records that {text}, the first at offset {pc.min(offsets)}"
        for offsets, text in ((unknown, "were not exported"), (changed, "were exported otherwise"))
        if len(offsets)
    ]
    kept = left.num_rows - len(unknown)
    return {"rows": left.num_rows, "compacted": exported.num_rows - kept, "problems": problems}


def _by_offset(pairs: Iterable[tuple[pa.Array, pa.Array]]) -> pa.Table:
    import pyarrow as pa

    shape = pa.schema([("offset", pa.int64()), ("hash", pa.uint64())])
    batches = [pa.RecordBatch.from_arrays(list(pair), schema=shape) for pair in pairs]
    return pa.Table.from_batches(batches, shape).combine_chunks()


def _exported(of: Files, task: Task, file: dict[str, Any]) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Offsets and hashes of a split's records in one file, without reading other ranges."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    prefix = "" if file["has_records"] else "_"
    offset, number = ds.field(f"{prefix}offset"), ds.field(f"{prefix}partition")
    mine = (number == task["partition"]) & (offset >= task["from"]) & (offset < task["to"])
    columns = None if file["has_records"] else [f"{prefix}offset"]
    with of.open(file["path"]) as opened:
        fragment = ds.ParquetFileFormat().make_fragment(opened)
        for batch in fragment.to_batches(columns=columns, filter=mine):
            offsets = batch.column(f"{prefix}offset")
            yield offsets, (export_hash.hashes(batch, task["partition"]) if file["has_records"]
                            else pa.nulls(len(offsets), pa.uint64()))


def check_file(of: Files, task: Task) -> Any:
    """The difference between a file and the manifest; null if none."""
    try:
        with of.open(task["path"]) as opened:
            return _checked(opened, task)
    except FileNotFoundError:
        return "is missing"


def _checked(opened: BinaryIO, task: Task) -> str | None:
    import pyarrow.parquet as pq

    digest = export_write.digest_of(opened)
    opened.seek(0)
    if digest != task["digest"]:
        rows = rows_or_none(opened)
        return f"has changed: digest {digest}, {rows} rows; wanted {task['digest']}, {task['rows']}"
    parts = [dict.fromkeys(("rows", "words"), 0) for _ in task["ranges"]]
    with pq.ParquetFile(opened) as file:
        for batch in file.iter_batches():
            _count(batch, task, parts)
    for part, found in zip(task["ranges"], parts, strict=True):
        words = f"{found['words'] % export_hash.WORDS:016x}"
        if found["rows"] != part["rows"] or (task["has_records"] and words != part["hash"]):
            return (f"holds {found['rows']} rows with hash {words} of offsets {part['from']} to "
                    f"{part['to']}, wanted {part['rows']} with {part['hash']}")
    return None


def rows_or_none(path: Path | BinaryIO) -> int | None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return int(pq.read_metadata(path).num_rows)
    except (pa.ArrowInvalid, OSError):
        return None


def _count(batch: pa.RecordBatch, task: Task, parts: list[dict[str, int]]) -> None:
    import pyarrow.compute as pc

    prefix = "" if task["has_records"] else "_"
    offsets, numbers = batch.column(f"{prefix}offset"), batch.column(f"{prefix}partition")
    for part, found in zip(task["ranges"], parts, strict=True):
        mine = pc.and_(
            pc.equal(numbers, part["partition"]),
            pc.and_(pc.greater_equal(offsets, part["from"]), pc.less(offsets, part["to"])),
        )
        rows = batch.filter(mine)
        found["rows"] += rows.num_rows
        if task["has_records"]:
            words = export_hash.hashes(rows, part["partition"])
            found["words"] += export_hash.sum_of(words)


def merge(of: Files, staging: Staging, task: Task) -> Any:
    """Merges files into one, in the order of partition and offset, a row group at a time."""
    import pyarrow.parquet as pq

    shapes = [_shape(of, each["path"]) for each in task["files"]]
    if any(shape != shapes[0] for shape in shapes):
        return None
    made = export_write.PartFile(staging.attempt(), task["path"], shapes[0])
    try:
        for each in task["files"]:
            with of.open(each["path"]) as opened, pq.ParquetFile(opened) as file:
                for batch in file.iter_batches():
                    made.add(batch)
        written = made.close()
    except BaseException:
        made.abandon()
        raise
    ranges = _joined([part for each in task["files"] for part in each["ranges"]])
    alike = ("topic", "folder", "is_dead_letter", "schema_version")
    kept = {name: task["files"][0][name] for name in alike if name in task["files"][0]}
    return {**written, **kept, "ranges": ranges}


def _shape(of: Files, path: str) -> pa.Schema:
    import pyarrow.parquet as pq

    with of.open(path) as opened:
        return pq.read_schema(opened)


def _joined(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One entry per range, although an hour may have several files of it."""
    found: dict[tuple[int, int, int], dict[str, Any]] = {}
    for part in parts:
        key = (part["partition"], part["from"], part["to"])
        same = found.setdefault(key, {**part, "rows": 0, "hash": "0"})
        words = (int(same["hash"], 16) + int(part["hash"], 16)) % export_hash.WORDS
        same.update(rows=same["rows"] + part["rows"], hash=f"{words:016x}",
                    min_offset=min(same["min_offset"], part["min_offset"]),
                    max_offset=max(same["max_offset"], part["max_offset"]))
    return list(found.values())


# Offsets without a record

def explained(reading: Reading, task: Task, holes: list[list[int]]) -> dict[str, Any]:
    """Offsets without a row must be markers of transactions, aborted or compacted away; or damaged,
    where that is accepted."""
    for attempt in range(reading.retries + 1):
        try:
            return _explained(reading, task, holes)
        except PASSING:
            if attempt == reading.retries:
                raise
            pause(attempt)
    raise AssertionError("not reached")


def _explained(reading: Reading, task: Task, holes: list[list[int]]) -> dict[str, Any]:
    start, end = holes[0][0], max(hole[1] for hole in holes)
    missing = sum(to - begin - inside for begin, to, inside in holes)
    exported = end - start - missing
    markers, records, in_batches, kept, trailer = 0, 0, 0, [], dict[str, Any]()
    for frame in _frames(reading, task, start, end):
        if isinstance(frame, dict):
            trailer = frame
            continue
        markers += _offsets_of((each for each in headers(frame) if each.is_control), start, end)
        in_batches += _offsets_of(headers(frame), start, end)
        count = _records(frame, start, end, None)
        records += count
        if reading.isolation == "read_committed" and is_transactional(frame):
            kept.append((frame, count))
    damaged = _damaged(reading, task, holes, trailer)
    known = Aborted([(producer, first) for producer, first in trailer["aborted"]])
    gone = sum(count - _records(frame, start, end, known) for frame, count in kept)
    lost = sum(to - begin for begin, to in damaged)
    compacted = missing - markers - gone - lost
    if records - gone > exported or compacted < 0:
        raise ExportFailed(
            f"{task['topic']} partition {task['partition']} offsets {start} to {end}: the log has "
            f"{records - gone} records, {markers} markers and {gone} aborted ones, {lost} offsets "
            f"are damaged, but {exported} were exported"
        )
    return {"markers": markers, "aborted": gone, "compacted": compacted, "damaged": lost,
            "damaged_ranges": damaged, "in_no_batch": end - start - in_batches - lost}


def _damaged(
    reading: Reading, task: Task, holes: list[list[int]], trailer: dict[str, Any]
) -> list[list[int]]:
    """The damaged ones of the offsets without a row. The read of the split need not have met them:
    a stream that broke behind them did not tell."""
    from appliance_spark.fetching import DAMAGED
    from appliance_spark.planning import DataLost

    where = f"{task['topic']}-{task['partition']}"
    if trailer["next_offset"] < max(to for _, to, _ in holes):
        raise ConnectionError(f"{where}: can be read to {trailer['next_offset']} only now")
    told = trailer.get("holes", [])
    if told and not reading.passes_holes:
        raise DataLost(f"{where}: offsets {told} {DAMAGED}")
    return [[max(begin, first), min(to, last)] for begin, to, _ in holes for first, last in told
            if max(begin, first) < min(to, last)]


def _frames(reading: Reading, task: Task, start: int, end: int) -> Iterator[Any]:
    """Raw batches, and the trailer at last."""
    from appliance_spark.fetching import read_frame

    endpoint = reading.source.endpoint
    topic = quote(task["topic"], safe="")
    path = f"/export/v1/topics/{topic}/partitions/{task['partition']}/batches"
    query = {"start": start, "end": end, "isolation": reading.isolation}
    with endpoint.opened(path, {**query, **meant(task["topic_id"])}) as (_, answer):
        while frame := read_frame(answer):
            yield frame
        yield json.loads(read_frame(answer))


def _offsets_of(batches: Iterable[BatchInfo], start: int, end: int) -> int:
    return sum(max(0, min(b.last_offset + 1, end) - max(b.base_offset, start)) for b in batches)


def _records(frame: bytearray, start: int, end: int, aborted: Aborted | None) -> int:
    return len(columns(frame, first_offset=start, end_offset=end, aborted=aborted,
                       keys=False, values=False, headers=False))


# Cleanup

def clear(staging: Staging) -> None:
    """Removes what stopped tasks left."""
    staging.clear()

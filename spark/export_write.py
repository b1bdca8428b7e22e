"""One task of a run, in an executor: reads, hashes, decodes and writes a split, a file per folder.

The files have names of this attempt alone, so a repeated task is harmless: the driver uses the
files of the attempt that Spark reports.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from appliance_spark import export_hash, export_layout, export_registry, export_rows
from appliance_spark.export_hours import Layout, by_timestamp
from appliance_spark.export_layout import FILES_OPEN_MAX, ExportFailed, Sink, Staging

if TYPE_CHECKING:
    import pyarrow as pa

HELD_BYTES_MAX = 256 << 20  # of a task's records in memory that wait for the rest of a row group
LETTERS_MAX = 50  # dead letters of a task, and of a run, that are reported one by one
WHY_MAX = 300  # characters of a reported reason; the file has more of it
HOLES_MAX = 100  # per batch of columns; more become one hole with records in it
GROUP_BYTES = 64 << 20  # of a row group before compression
GROUPS_OF_FILE = 8  # where files are cut: a file is larger than wanted by two of them at most
DIGEST_SIZE = 16


class DigestFile:
    """A new file with the digest of its bytes."""

    def __init__(self, file: Sink) -> None:
        self._file = file
        self._digest = hashlib.blake2b(digest_size=DIGEST_SIZE)
        self.closed = False

    def write(self, data: Any) -> int:
        self._digest.update(data)
        return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        """The writer of Parquet calls it; the end decides."""

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._file.close()

    def abandon(self) -> None:
        self.closed = True
        self._file.abandon()

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()


def digest_of(file: BinaryIO) -> str:
    digest = hashlib.blake2b(digest_size=DIGEST_SIZE)
    while data := file.read(1 << 20):
        digest.update(data)
    return digest.hexdigest()


class PartFile:
    """A Parquet file of an attempt, written by row groups."""

    def __init__(self, staging: Staging, path: str, shape: pa.Schema) -> None:
        import pyarrow.parquet as pq

        self.size, self.rows = 0, 0
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        file, self._place = staging.start(path)
        self._file = DigestFile(file)
        self._writer = pq.ParquetWriter(self._file, shape, compression="zstd", version="2.6")

    def add(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch)
        self._held_bytes += batch.get_total_buffer_size()
        if self._held_bytes >= GROUP_BYTES:
            self._write_held()

    def _write_held(self) -> None:
        held, self._held, self._held_bytes = self._held, [], 0
        self.write(held)

    def write(self, batches: list[pa.RecordBatch]) -> None:
        """As a row group."""
        import pyarrow as pa

        table = pa.Table.from_batches(batches)
        self._writer.write_table(table, row_group_size=max(table.num_rows, 1))
        self.rows += table.num_rows
        self.size = self._file.tell()

    def close(self) -> dict[str, Any]:
        """The file's entry in the manifest."""
        if self._held:
            self._write_held()
        self._writer.close()
        size = self._file.tell()
        self._file.close()
        return {**self._place, "rows": self.rows, "bytes": size, "digest": self._file.digest}

    def abandon(self) -> None:
        self._file.abandon()


@dataclass
class Group:
    """Records of a folder that become a row group, and their tally."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    size: int = 0
    rows: int = 0
    hash: int = 0
    ends: list[int] = field(default_factory=list)  # smallest and largest offset

    def add(self, batch: pa.RecordBatch, offsets: Any, words: Any) -> None:
        import pyarrow.compute as pc

        self.batches.append(batch)
        self.size += batch.get_total_buffer_size()
        ends = pc.min_max(offsets).as_py()
        self.count(batch.num_rows, export_hash.sum_of(words), [ends["min"], ends["max"]])

    def count(self, rows: int, words: int, ends: list[int]) -> None:
        self.rows += rows
        self.hash = (self.hash + words) % export_hash.WORDS
        both = [*self.ends, *ends]
        self.ends = [min(both), max(both)]


class Writing(NamedTuple):
    """How a run writes its files."""

    way: str  # where the time of a record comes from
    file_bytes: int | None = None  # about which a file is cut; None: never


Key = tuple[str, bool]  # folder, is_dead_letter


class SplitFiles:
    """The files of one split, one per folder and kind, or more where they are cut.

    Records wait in memory until they make a row group. So a split of a thousand folders, in any
    order, makes a file for each, one after the other; only what has no room is written before."""

    def __init__(self, staging: Staging, split: dict[str, Any], file_bytes: int | None) -> None:
        self._staging = staging.attempt()
        self._split = split
        self.layout = Layout.of(split.get("layout"))
        self._cut_at = file_bytes
        self._group_bytes = min(GROUP_BYTES, (file_bytes or GROUP_BYTES * 8) // GROUPS_OF_FILE)
        self._held: dict[Key, Group] = {}
        self._held_bytes = 0
        self._open: OrderedDict[Key, tuple[PartFile, Group]] = OrderedDict()
        self._parts: dict[Key, int] = {}
        self.done: list[dict[str, Any]] = []

    def add(
        self, hour: int | None, is_dead: bool, batch: pa.RecordBatch, offsets: Any, words: Any
    ) -> None:
        key = (self.layout.folder(self._split["topic"], hour), is_dead)
        group = self._held.setdefault(key, Group())
        self._held_bytes -= group.size
        group.add(batch, offsets, words)
        self._held_bytes += group.size
        if group.size >= self._group_bytes:
            self._write(key)
        if self._held_bytes > HELD_BYTES_MAX:
            self._make_room()

    def _make_room(self) -> None:
        """The largest first, and half of all, so that this is rare."""
        for key in sorted(self._held, key=lambda key: self._held[key].size, reverse=True):
            if self._held_bytes <= HELD_BYTES_MAX // 2:
                return
            self._write(key)

    def _write(self, key: Key) -> None:
        """Less than a row group at the end is still added to a file that has its size: no file is
        small because the one before it was full."""
        group = self._held.pop(key)
        self._held_bytes -= group.size
        if self._cut_at and key in self._open and group.size >= self._group_bytes and (
            self._open[key][0].size >= self._cut_at
        ):
            self._finish(key)
        if key not in self._open:
            self._start(key, group.batches[0].schema)
        self._open.move_to_end(key)
        file, tally = self._open[key]
        file.write(group.batches)
        tally.count(group.rows, group.hash, group.ends)

    def _start(self, key: Key, shape: pa.Schema) -> None:
        if len(self._open) >= FILES_OPEN_MAX:
            self._finish(next(iter(self._open)))
        part = self._parts[key] = self._parts.get(key, -1) + 1
        folder, is_dead = key
        split = self._split
        name = export_layout.range_name(
            split["topic"], split["partition"], split["from"], split["to"], part
        )
        path = f"{export_layout.DEAD_LETTERS}/{folder}/{name}" if is_dead else f"{folder}/{name}"
        self._open[key] = (PartFile(self._staging, path, shape), Group())

    def _finish(self, key: Key) -> None:
        file, tally = self._open.pop(key)
        folder, is_dead = key
        part = {name: self._split[name] for name in ("partition", "from", "to")}
        part |= {"rows": tally.rows, "hash": f"{tally.hash:016x}",
                 "min_offset": tally.ends[0], "max_offset": tally.ends[1]}
        self.done.append(
            {**file.close(), "topic": self._split["topic"], "folder": folder,
             "is_dead_letter": is_dead, "ranges": [part]}
        )

    def close(self) -> list[dict[str, Any]]:
        for key in list(self._held):
            self._write(key)
        for key in list(self._open):
            self._finish(key)
        return sorted(self.done, key=lambda file: str(file["path"]))

    def abandon(self) -> None:
        for file, _ in self._open.values():
            file.abandon()


def write_split(
    staging: Staging, split: dict[str, Any], schema: dict[str, Any], writing: Writing,
    batches: Iterator[pa.RecordBatch], registry: export_registry.Place | None = None,
) -> dict[str, Any]:
    """Reads the split to its end. Returns the driver's data for balance and manifest."""
    files = SplitFiles(staging, split, writing.file_bytes)
    decode = export_rows.decoder(schema, writing.way, files.layout.zone, registry)
    tally: dict[str, Any] = {"rows": 0, "dead_letters": 0, "hash": 0, "min_offset": -1,
                             "max_offset": split["from"] - 1, "holes": [], "letters": []}
    try:
        for batch in batches:
            if batch.num_rows:
                _add(files, batch, decode, split, tally)
        done = files.close()
    except BaseException:
        files.abandon()
        raise
    _note_hole(tally, split["to"])
    words = tally.pop("hash")
    return {**{name: split[name] for name in ("topic", "partition", "from", "to")}, **tally,
            "hash": f"{words:016x}", "files": done}


def _add(
    files: SplitFiles, batch: pa.RecordBatch, decode: Any, split: dict[str, Any],
    tally: dict[str, Any],
) -> None:
    import pyarrow as pa

    offsets = batch.column("offset")
    _in_order(offsets, split, tally)
    words = export_hash.hashes(batch, split["partition"])
    tally["hash"] = (tally["hash"] + export_hash.sum_of(words)) % export_hash.WORDS
    rows = decode(batch)
    mine = (offsets, words) if rows.index is None else (
        offsets.take(rows.index), words.take(rows.index))
    for hour, part, index in _by_hour(rows.table, files.layout.slots(rows.hours)):
        taken = mine if index is None else tuple(each.take(index) for each in mine)
        files.add(hour, False, part, *taken)
    tally["rows"] += rows.table.num_rows
    if rows.bad:
        index = pa.array(sorted(rows.bad), pa.int64())
        letters = export_rows.dead_letters(batch, rows.bad)
        hours = by_timestamp(batch.take(index), "timestamp", files.layout.zone)
        for hour, part, at in _by_hour(letters, files.layout.slots(hours)):
            taken = (offsets.take(index), words.take(index))
            files.add(hour, True, part, *(taken if at is None else (x.take(at) for x in taken)))
        tally["dead_letters"] += len(rows.bad)
        room = LETTERS_MAX - len(tally["letters"])
        tally["letters"] += [
            {"offset": each["offset"], "why": each["reason"][:WHY_MAX]}
            for each in letters.select(["offset", "reason"]).slice(0, room).to_pylist()]


def _in_order(offsets: Any, split: dict[str, Any], tally: dict[str, Any]) -> None:
    """Each offset once, ascending, within the split. Missing offsets are noted as holes: from, to,
    and number of records."""
    import pyarrow.compute as pc

    first, last = offsets[0].as_py(), offsets[-1].as_py()
    steps = pc.subtract(offsets[1:], offsets[:-1])
    if first <= tally["max_offset"] or last >= split["to"] or (
        len(steps) and pc.min(steps).as_py() < 1
    ):
        raise ExportFailed(
            f"{split['topic']} partition {split['partition']}: offsets {first} to {last} came "
            f"after {tally['max_offset']}, out of order, or not in {split['from']} to {split['to']}"
        )
    if tally["min_offset"] < 0:
        tally["min_offset"] = first
    _note_hole(tally, first)
    gaps = pc.indices_nonzero(pc.greater(steps, 1))
    if len(gaps) > HOLES_MAX:
        tally["holes"].append([first, last + 1, len(offsets)])
    else:
        for i in gaps.to_pylist():
            tally["holes"].append([offsets[i].as_py() + 1, offsets[i + 1].as_py(), 0])
    tally["max_offset"] = last


def _note_hole(tally: dict[str, Any], upto: int) -> None:
    if upto > tally["max_offset"] + 1:
        tally["holes"].append([tally["max_offset"] + 1, upto, 0])


def _by_hour(
    table: pa.RecordBatch, hours: pa.Array
) -> Iterator[tuple[int | None, pa.RecordBatch, Any]]:
    """Runs of the same folder, each with the index of its rows; within a run in log order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not len(hours):
        return
    ends = pc.min_max(hours).as_py()
    if ends["min"] == ends["max"] and (hours.null_count in (0, len(hours))):
        yield ends["min"], table, None
        return
    order = pc.sort_indices(pa.table({"hour": hours}), sort_keys=[("hour", "ascending")])
    sorted_hours = hours.take(order)
    runs = pc.run_end_encode(sorted_hours)
    begin = 0
    for hour, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        index = order.slice(begin, end - begin)
        yield hour, table.take(index), index
        begin = end

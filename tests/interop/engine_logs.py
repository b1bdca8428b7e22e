"""Logs written by our engine, each with the records that Kafka's tool must show."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from appliance.config import LogConfig
from appliance.data_dir.log_dir import Log, LogDir
from appliance.record import _batch, _batch_builder
from tests.interop.dump_log_segments import Record

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
HOUR_MS = 3_600_000
T0 = int(time.time() * 1000) - HOUR_MS  # records of the last hour, within all limits on timestamps
SEGMENTS = {"segment_bytes": 20_000, "index_interval_bytes": 1024}
COMPACTED = {**SEGMENTS, "cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.0,
             "delete_retention_ms": HOUR_MS}

Row = tuple[int, str | None, str | None, tuple[str, ...]]  # timestamp, key, value, header names


@dataclass
class Producer:
    producer_id: int
    epoch: int = 0
    sequence: int = 0


@dataclass
class Scribe:
    """Writes to one log, and keeps the expected output of the tool."""

    logs: LogDir
    log: Log
    directory: Path
    expected: list[Record] = field(default_factory=list)
    aborted: list[dict[str, int]] = field(default_factory=list)
    writers: dict[int, int] = field(default_factory=dict)  # offset in a transaction: producer id

    def write(self, rows: list[Row], codec: str = "none", producer: Producer | None = None,
              transactional: bool = False) -> bytes:
        given = [(stamp, _bytes(key), _bytes(value), [(name, b"x") for name in names])
                 for stamp, key, value, names in rows]
        who = {} if producer is None else {
            "producer_id": producer.producer_id, "producer_epoch": producer.epoch,
            "base_sequence": producer.sequence, "transactional": transactional}
        batch = _batch_builder.batch(given, codec=codec, **who)
        base = self.log.append(batch).base_offset
        for i, row in enumerate(rows):
            sequence = -1 if producer is None else (producer.sequence + i) % 2**31
            self.expected.append(_expected(base + i, row, sequence))
            if transactional and producer is not None:
                self.writers[base + i] = producer.producer_id
        if producer is not None:
            producer.sequence = (producer.sequence + len(rows)) % 2**31
        return batch

    def end(self, kind: str, producer: Producer, timestamp: int) -> int:
        """Commits or aborts. Returns the marker's offset."""
        who = producer.producer_id, producer.epoch
        marker = _batch_builder.control_batch(kind, *who, 7, timestamp)
        offset = self.log.append(marker, origin="coordinator").base_offset
        self.expected.append(Record(offset, timestamp, 4, 6, -1, (), kind.upper(), None, None))
        return int(offset)

    def committed(self) -> list[Record]:
        """What a consumer of committed records sees."""
        return [record for record in self.expected if record.marker is None
                and record.offset < self.log.last_stable_offset
                and not any(txn["producerId"] == self.writers.get(record.offset)
                            and txn["firstOffset"] <= record.offset < txn["lastOffset"]
                            for txn in self.aborted)]

    def keep(self, retained: Callable[[Record], bool]) -> None:
        """After a compaction: the tool should show only these records."""
        self.expected = [record for record in self.expected if retained(record)]


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _expected(offset: int, row: Row, sequence: int) -> Record:
    stamp, key, value, names = row
    return Record(offset, stamp, _size(key), _size(value), sequence, names, None, key, value)


def _size(text: str | None) -> int:
    return -1 if text is None else len(text)


def rows(count: int, first: int, keys: bool = False) -> list[Row]:
    """Rows of all shapes: null, empty and long values, headers, clocks that stand or step back."""
    dice = random.Random(first)
    made: list[Row] = []
    for i in range(first, first + count):
        stamp = T0 + (i // 3) * 10 - (400 if i % 11 == 0 else 0)
        key = f"key-{dice.randrange(40)}" if keys or i % 4 else None
        value = [None, "", "v" * dice.randrange(400)][min(i % 20, 2)]
        made.append((stamp, key, value or f"value-{i}" if keys else value,
                     ("trace", "from") if i % 9 == 0 else ()))
    return made


def fill(scribe: Scribe, batches: int, size: int = 12, codec: str = "none",
         producer: Producer | None = None, keys: bool = False, first: int = 0) -> None:
    for i in range(batches):
        scribe.write(rows(size, first + i * size, keys), codec, producer)


def of_codec(scribe: Scribe, codec: str) -> None:
    fill(scribe, 60, 40, codec)


def idempotent(scribe: Scribe) -> None:
    """Two producers in turn, with resent batches; one of them wraps its sequence numbers."""
    wraps = Producer(4000, epoch=3, sequence=2**31 - 100)
    steady = Producer(4001)
    for i in range(40):
        batch = scribe.write(rows(11, i * 11), "lz4" if i % 2 else "none", (wraps, steady)[i % 2])
        again = scribe.log.append(batch)
        assert again.duplicate
        assert again.base_offset == scribe.expected[-11].offset


def transactional(scribe: Scribe) -> None:
    """Commits and aborts of three producers, interleaved, over segments; one stays open."""
    writers = [Producer(5000), Producer(5001, epoch=2), Producer(5002)]
    first: dict[int, int] = {}
    for step in range(60):
        writer = writers[step % 3]
        scribe.write(rows(7, step * 7), CODECS[step % 5], writer, transactional=True)
        first.setdefault(writer.producer_id, scribe.expected[-7].offset)
        scribe.write(rows(3, step * 3))
        if step % 7 == 4:
            kind = "abort" if step % 2 else "commit"
            _end(scribe, kind, writer, first, rows(1, step * 7)[0][0])
    assert first, "one transaction should stay open"


def _end(scribe: Scribe, kind: str, writer: Producer, first: dict[int, int], stamp: int) -> None:
    started = first.pop(writer.producer_id)
    marker = scribe.end(kind, writer, stamp)
    if kind == "abort":
        scribe.aborted.append({
            "version": 0, "producerId": writer.producer_id, "firstOffset": started,
            "lastOffset": marker, "lastStableOffset": min(first.values(), default=marker + 1)})


def append_time(scribe: Scribe) -> None:
    """LogAppendTime: one timestamp for all records of a batch, whatever the producer sent."""
    for i, codec in enumerate(CODECS * 8):
        start = int(time.time() * 1000)
        scribe.write(rows(30, i * 30), codec)
        base = scribe.expected[-30].offset
        stamp = _batch.headers(scribe.log.read(base, 1, up_to="end"))[0].max_timestamp
        assert start <= stamp <= start + HOUR_MS
        scribe.expected[-30:] = [replace(record, timestamp=stamp)
                                 for record in scribe.expected[-30:]]


def truncated(scribe: Scribe) -> None:
    """Truncated twice into earlier segments and appended to; then its first records go, too."""
    producer = Producer(6000)
    for start, cut in ((0, 300), (1000, 36)):
        fill(scribe, 40, producer=producer, first=start)
        scribe.log.truncate(cut)
        scribe.keep(lambda record, cut=cut: record.offset < cut)  # type: ignore[misc]
        assert scribe.log.log_end_offset == len(scribe.expected)
        producer.sequence = len(scribe.expected)
    fill(scribe, 80, producer=producer, first=2000)
    _settle(scribe)
    beginning = scribe.log.segments()[2].base_offset
    scribe.log.delete_before(beginning)
    scribe.log.retain(T0 + HOUR_MS)
    scribe.keep(lambda record: record.offset >= beginning)
    assert scribe.log.segments()[0].base_offset == beginning


def compacted_once(scribe: Scribe) -> int:
    """Keys overwritten in every codec; two end as tombstones, which get a delete horizon."""
    for i, codec in enumerate(CODECS * 4):
        fill(scribe, 4, codec=codec, keys=True, first=i * 48)
        scribe.write([(T0, f"only-{i}", "stays", ()), (T0 + 1, "gone", str(i), ())], codec)
    scribe.write([(T0 + 9000, key, None, ()) for key in ("key-3", "key-7")])
    now = T0 + HOUR_MS
    _compact(scribe, now)
    latest = {record.key: record.offset for record in scribe.expected}
    scribe.keep(lambda record: latest[record.key] == record.offset)
    fill(scribe, 2, keys=True, first=5000)  # the active segment is not compacted
    return now + HOUR_MS


def compacted_again(scribe: Scribe) -> None:
    """As above, and compacted again after the delete horizon: the tombstones are gone."""
    horizon = compacted_once(scribe)
    _compact(scribe, horizon + 1)
    latest = {record.key: record.offset for record in scribe.expected}
    scribe.keep(lambda record: latest[record.key] == record.offset and record.value_size >= 0)


def compacted_transactions(scribe: Scribe, passes: int) -> None:
    """A committed and an aborted value for one key, then passes of compaction, two hours apart.

    The aborted value must not replace the committed one. Its marker and index entry outlive the
    first pass, which removes its data; the second pass sets the marker's delete horizon, the third
    removes the marker. The index entry must go with it: a consumer with such an entry skips the
    producer's records up to the next marker, so it would skip the producer's next commit.
    """
    writer = Producer(7000)
    scribe.write([(T0, "kept", "committed", ()), (T0, "b", "one", ())], "zstd", writer, True)
    scribe.end("commit", writer, T0 + 1)
    first = {writer.producer_id: scribe.log.log_end_offset}
    scribe.write([(T0, "kept", "aborted", ()), (T0, "c", "aborted", ())], "gzip", writer, True)
    _end(scribe, "abort", writer, first, T0 + 3)
    scribe.write([(T0 + 4, "b", "two", ()), (T0 + 4, "after", "stays", ())], "none", writer, True)
    scribe.end("commit", writer, T0 + 5)
    for number in range(passes):
        scribe.write([(T0 + 6 + number, "b", f"pass {number}", ())])
        _compact(scribe, T0 + HOUR_MS + number * 2 * HOUR_MS)
    scribe.keep(lambda record: record.payload != "aborted")
    latest = {record.key: record.offset for record in scribe.expected}
    lost = "ABORT" if passes > 2 else ""
    scribe.keep(lambda record: record.marker != lost if record.marker is not None
                else latest[record.key] == record.offset)


def _settle(scribe: Scribe) -> None:
    """Makes all records durable and moves the recovery point, so that segments may be removed."""
    scribe.log.flush()
    scribe.logs.checkpoint()


def _compact(scribe: Scribe, now_ms: int) -> None:
    """Compacts all records written so far."""
    scribe.log.roll()
    _settle(scribe)
    assert scribe.log.compact(now_ms)


def create(logs: LogDir, topic: str, **settings: object) -> Scribe:
    log = logs.create(topic, 0, LogConfig(**settings))
    return Scribe(logs, log, Path(log.segments()[0].path).parent)


def write_all(root: Path) -> tuple[dict[str, Scribe], int]:
    """Writes all logs and closes them cleanly. Returns the delete horizon of the compacted logs."""
    logs = LogDir.open(root)
    made = {f"codec-{codec}": create(logs, f"codec-{codec}", **SEGMENTS) for codec in CODECS}
    for codec in CODECS:
        of_codec(made[f"codec-{codec}"], codec)
    for name, builder in {"idempotent": idempotent, "transactional": transactional,
                          "truncated": truncated}.items():
        made[name] = create(logs, name, **SEGMENTS)
        builder(made[name])
    made["append-time"] = create(logs, "append-time", **SEGMENTS,
                                 message_timestamp_type="LogAppendTime")
    append_time(made["append-time"])
    for name in ("compacted-once", "compacted-again", "compacted-txn-1", "compacted-txn-3"):
        made[name] = create(logs, name, **COMPACTED)
    horizon = compacted_once(made["compacted-once"])
    compacted_again(made["compacted-again"])
    compacted_transactions(made["compacted-txn-1"], 1)
    compacted_transactions(made["compacted-txn-3"], 3)
    made["empty"] = create(logs, "empty", **SEGMENTS)
    logs.close()
    return made, horizon


def write_and_lose_power(root: Path, scratch: Path) -> Scribe:
    """A log whose process was killed; the test compares the log that recovery leaves."""
    logs = LogDir.open(scratch)
    scribe = create(logs, "recovered", **SEGMENTS)
    fill(scribe, 50, producer=Producer(8000))
    scribe.log.flush()
    shutil.copytree(scratch, root)
    logs.close()
    again = LogDir.open(root)
    scribe.logs, scribe.log = again, again.log("recovered", 0)
    scribe.directory = root / scribe.directory.name
    fill(scribe, 10, first=9000)
    again.close()
    return scribe

"""Kafka's own DumpLogSegments, run over many files, with its output as plain values."""

from __future__ import annotations

import functools
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.interop.kafka_tools import KafkaTools

TOOL = "org.apache.kafka.tools.DumpLogSegments"
SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
PAIR = re.compile(r"(\w+): (\S+)")
HOLES_IN = "Non-consecutive offsets in "
HOLE = re.compile(r"  (-?\d+) is followed by (\d+)")
RECORD = re.compile(
    r"\| offset: (?P<offset>\d+) (?P<stamp>\w+): (?P<timestamp>-?\d+)"
    r" keySize: (?P<key_size>-?\d+) valueSize: (?P<value_size>-?\d+)"
    r" sequence: (?P<sequence>-?\d+) headerKeys: \[(?P<headers>.*?)\]"
    r"(?: endTxnMarker: (?P<marker>\w+) coordinatorEpoch: (?P<coordinator>-?\d+))?"
    r"(?: key: (?P<key>.*?))?(?: payload: (?P<payload>.*))?")


@dataclass(frozen=True)
class Record:
    offset: int
    timestamp: int
    key_size: int      # -1: no key
    value_size: int    # -1: no value, a tombstone
    sequence: int
    header_keys: tuple[str, ...]
    marker: str | None
    key: str | None
    payload: str | None


@dataclass
class Batch:
    base_offset: int
    last_offset: int
    count: int
    base_sequence: int
    last_sequence: int
    producer_id: int
    producer_epoch: int
    leader_epoch: int
    transactional: bool
    control: bool
    delete_horizon: int  # -1: none
    position: int
    max_timestamp: int
    size: int
    codec: str
    crc: int
    valid: bool
    records: list[Record] = field(default_factory=list)


@dataclass
class File:
    """The tool's output for one file: batches of a log, numbers of an index, or text."""

    batches: list[Batch] = field(default_factory=list)
    entries: list[dict[str, int]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class Dump:
    files: dict[Path, File]
    holes: list[tuple[Path, int, int]]  # an offset and the next one, with a gap between them
    complaints: list[str]         # the rest of standard error: mismatches, stack traces

    def batches(self, directory: Path) -> list[Batch]:
        return [batch for file in self._of(directory, ".log").values() for batch in file.batches]

    def records(self, directory: Path) -> list[Record]:
        return [record for batch in self.batches(directory) for record in batch.records]

    def entries(self, directory: Path, suffix: str) -> dict[str, list[dict[str, int]]]:
        """By file name; only files that have entries."""
        of = self._of(directory, suffix)
        return {path.name: file.entries for path, file in of.items() if file.entries}

    def notes(self) -> list[str]:
        return [note for file in self.files.values() for note in file.notes]

    def _of(self, directory: Path, suffix: str) -> dict[Path, File]:
        return {path: self.files[path] for path in sorted(self.files)
                if path.parent == directory and path.suffix == suffix}


def log_files(*directories: Path, suffixes: tuple[str, ...] = SUFFIXES) -> list[Path]:
    return [path for directory in directories for path in sorted(directory.iterdir())
            if path.suffix in suffixes]


def dump(files: Iterable[Path]) -> Dump:
    """Everything in the files; keys and values should be printable, one line each."""
    return _run(files, "--deep-iteration", "--print-data-log")


def dump_without_data(files: Iterable[Path]) -> Dump:
    """Whatever keys and values are; their sizes are there, and the checksums of their batches."""
    return _run(files, "--deep-iteration")


def check_indexes(files: Iterable[Path], flag: str) -> Dump:
    """`--verify-index-only` or `--index-sanity-check` on the index files among these."""
    return _run([path for path in files if path.suffix in (".index", ".timeindex")], flag)


_open = ExitStack()


@functools.cache
def _jvm() -> KafkaTools:
    """One for all runs: most of a run is the start of its JVM."""
    tools = KafkaTools("none", Path(_open.enter_context(tempfile.TemporaryDirectory())))
    _open.callback(tools.close)
    return tools


def close() -> None:
    """Ends it; the next run starts another."""
    _open.close()
    _jvm.cache_clear()


def _run(files: Iterable[Path], *flags: str) -> Dump:
    done = _jvm().run_main([TOOL, *flags, "--files", ",".join(map(str, files))], "")
    holes, complaints = _complaints(done.complained)
    if done.code != 0:
        complaints.append(f"the tool ended with {done.code}")
    return Dump(dict(_files(done.said)), holes, complaints)


def _complaints(said: str) -> tuple[list[tuple[Path, int, int]], list[str]]:
    holes, others, path = [], [], Path()
    for line in said.splitlines():
        if match := HOLE.fullmatch(line):
            holes.append((path, int(match[1]), int(match[2])))
        elif line.startswith(HOLES_IN):
            path = Path(line.removeprefix(HOLES_IN))
        else:
            others.append(line)
    # 4.3.1 finds a hole after "-1" in every segment that does not begin at 0, Kafka's own too
    return sorted(hole for hole in holes if hole[1] != -1), others


def _files(output: str) -> Iterator[tuple[Path, File]]:
    sections = re.split(r"^Dumping (.*)\n", output, flags=re.MULTILINE)
    assert not sections[0].strip(), sections[0]
    for name, body in zip(sections[1::2], sections[2::2], strict=True):
        yield Path(name), _file(Path(name), body)


def _file(path: Path, body: str) -> File:
    file = File()
    for line in body.splitlines():
        if line.startswith("baseOffset:"):
            file.batches.append(_batch(line))
        elif line.startswith("|"):
            file.batches[-1].records.append(_record(line))
        elif path.suffix != ".log" and (pairs := PAIR.findall(line)):
            file.entries.append({key: _number(value) for key, value in pairs})
        elif not line.startswith("Log starting offset:"):
            file.notes.append(line)
    return file


def _number(text: str) -> int:
    """A number; -1 for the tool's `OptionalLong.empty`."""
    match = re.search(r"-?\d+", text)
    return int(match.group()) if match else -1


def _batch(line: str) -> Batch:
    said = dict(PAIR.findall(line))
    stamp = "CreateTime" if "CreateTime" in said else "LogAppendTime"
    return Batch(
        base_offset=int(said["baseOffset"]), last_offset=int(said["lastOffset"]),
        count=int(said["count"]),
        base_sequence=int(said["baseSequence"]), last_sequence=int(said["lastSequence"]),
        producer_id=int(said["producerId"]), producer_epoch=int(said["producerEpoch"]),
        leader_epoch=int(said["partitionLeaderEpoch"]),
        transactional=said["isTransactional"] == "true", control=said["isControl"] == "true",
        delete_horizon=_number(said["deleteHorizonMs"]),
        position=int(said["position"]), max_timestamp=int(said[stamp]), size=int(said["size"]),
        codec=said["compresscodec"], crc=int(said["crc"]), valid=said["isvalid"] == "true")


def _record(line: str) -> Record:
    match = RECORD.fullmatch(line)
    assert match is not None, f"cannot read the tool's line: {line!r}"
    headers = match["headers"]
    return Record(
        offset=int(match["offset"]), timestamp=int(match["timestamp"]),
        key_size=int(match["key_size"]), value_size=int(match["value_size"]),
        sequence=int(match["sequence"]), marker=match["marker"],
        header_keys=tuple(headers.split(",")) if headers else (),
        key=match["key"], payload=match["payload"])

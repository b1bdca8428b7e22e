"""`appliance log ...`: reads the data directory of a stopped broker and changes nothing in it.
`repair` is for a running broker."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from appliance.cli.remote.log_dirs import dirs
from appliance.cli.remote.repair import repair
from appliance.data_dir import data_format, log_files, log_verify, promised_offsets
from appliance.process import event_log
from appliance.process.exit_codes import NOT_FOUND, REFUSED, UNHEALTHY, Command, Failed
from appliance.process.progress_bar import ProgressBar
from appliance.process.spoken import size
from appliance.record import _batch

DIRECTORY = click.argument(
    "data_dir", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path)
)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")


@click.group()
def log() -> None:
    """Log files: list, dump and verify those of a stopped broker, repair those of a running one.

    `list`, `dump` and `verify` need no broker and change nothing. They also read files of Apache
    Kafka. `repair` and `dirs` ask a running broker."""


log.add_command(dirs)
log.add_command(repair)


@contextmanager
def files_of(data_dir: Path) -> Iterator[list[log_files.Partition]]:
    """The partitions of a directory. No broker has it open, and none can open it meanwhile."""
    try:
        data_format.check(data_dir)
        with log_files.held(data_dir):
            yield log_files.partitions(data_dir)
    except log_files.DirectoryInUse as error:
        raise Failed(str(error), REFUSED) from error


@log.command("list", cls=Command)
@DIRECTORY
@AS_JSON
def list_logs(data_dir: Path, as_json: bool) -> None:
    """List the partitions in DIR from their files. The broker must be stopped."""
    form = (
        "{topic}-{partition}: offsets {first_offset} to {end_offset}, {segments} segments, {size} B"
    )
    with files_of(data_dir) as partitions:
        for each in partitions:
            segments = each.segments
            row = {
                "topic": each.topic,
                "partition": each.partition,
                "first_offset": int(segments[0].stem) if segments else 0,
                "end_offset": log_files.end_offset(segments[-1]) if segments else 0,
                "segments": len(segments),
                "size": sum(path.stat().st_size for path in segments),
            }
            click.echo(json.dumps(row) if as_json else form.format(**row))


@log.command("dump", cls=Command)
@DIRECTORY
@click.argument("topic")
@click.argument("partition", type=int)
@click.option("--offset", default=0, help="First offset to print.")
@click.option(
    "--max", "count_max", default=100, show_default=True, help="Largest number of records."
)
@click.option("--batches", is_flag=True, help="Print batch headers instead of records.")
@AS_JSON
def dump(
    data_dir: Path,
    topic: str,
    partition: int,
    offset: int,
    count_max: int,
    batches: bool,
    as_json: bool,
) -> None:
    """Print the records of a partition in DIR. The broker must be stopped."""
    with files_of(data_dir) as partitions:
        found = [each for each in partitions if (each.topic, each.partition) == (topic, partition)]
        if not found:
            raise Failed(
                f"{data_dir}: no partition {topic}-{partition}; `appliance log list {data_dir}` "
                "shows which there are",
                NOT_FOUND,
            )
        read = log_files.read(found[0], offset)
        rows = map(batch_row, read) if batches else record_rows(read, offset)
        for row in itertools.islice(rows, count_max):
            click.echo(json.dumps(row) if as_json else event_log.as_words(row))


def batch_row(batch: log_files.Batch) -> dict[str, Any]:
    info = batch.check()
    names = ("base_offset", "last_offset", "size", "records_count", "codec", "max_timestamp")
    more = ("leader_epoch", "producer_id", "producer_epoch", "base_sequence")
    flags = ("is_transactional", "is_control")
    return {name: getattr(info, name) for name in (*names, *more, *flags)}


def record_rows(read: Iterable[log_files.Batch], offset: int) -> Iterator[dict[str, Any]]:
    for batch in read:
        for record in _batch.records(batch.data):
            if record.offset >= offset:
                yield {
                    "offset": record.offset,
                    "timestamp": record.timestamp,
                    "key": text_of(record.key),
                    "value": text_of(record.value),
                    "headers": [(name, text_of(value)) for name, value in record.headers],
                }


def text_of(data: bytes | None) -> str | None:
    """Bytes that are no text are shown as \\xNN."""
    return None if data is None else data.decode("utf-8", "backslashreplace")


@dataclass
class Verified:
    """Counts of what was read and of what was damaged."""

    partitions: int
    segments: int = 0
    bytes: int = 0
    damaged: int = 0
    tails: int = 0
    missing: int = 0
    fault: str = ""  # why the promised offsets are not known, or not all of them

    def sentence(self) -> str:
        read = (
            f"{self.segments} segments of {self.partitions} partitions, {size(self.bytes)}: "
        )
        found = f"{self.damaged} damaged batches" if self.damaged else "every batch is as written"
        lost = f"; {self.missing} ranges of durable offsets are missing" if self.missing else ""
        cut = f"; {self.tails} torn tails, which the next start cuts" if self.tails else ""
        doubt = f"; {self.fault}" if self.fault else ""
        return read + found + lost + cut + doubt

    @property
    def is_well(self) -> bool:
        return not self.damaged and not self.missing and not self.fault


@log.command("verify", cls=Command)
@DIRECTORY
@click.option("--topic", help="Only this topic.")
@AS_JSON
@click.pass_context
def verify(context: click.Context, data_dir: Path, topic: str | None, as_json: bool) -> None:
    """Read every segment in DIR, check each batch, and check that none is missing.

    The exit code is 10 when a batch is damaged, when records are missing that were durable by the
    checkpoint journal, or when the journal cannot be read. The broker must be stopped. A torn tail
    of a power cut is no damage: it was never acknowledged, and the next start cuts it."""
    with files_of(data_dir) as partitions:
        chosen = [each for each in partitions if topic in (None, each.topic)]
        promised = promised_offsets.read(data_dir)
        own = {
            name: one
            for name, one in promised.logs.items()
            if topic in (None, name.rpartition("-")[0])
        }
        if topic is not None and not chosen and not own:
            raise Failed(f"{data_dir}: no partition of topic {topic}", NOT_FOUND)
        seen = Verified(len(chosen), fault=promised.fault)
        for each in findings(chosen, own, seen):
            click.echo(json.dumps(row_of(each)) if as_json else line_of(each))
    click.echo(json.dumps(vars(seen)) if as_json else seen.sentence())
    if not seen.is_well:
        context.exit(UNHEALTHY)


def row_of(finding: log_verify.Finding) -> dict[str, Any]:
    row = dict(vars(finding))
    return {**row, "segment": str(row["segment"])} if "segment" in row else row


def line_of(finding: log_verify.Finding) -> str:
    if isinstance(finding, log_verify.Missing):
        return f"missing: {finding}"
    word = "tail" if finding.is_tail else "damage"
    return f"{word}: {finding.segment} position {finding.position}: {finding.what}"


def findings(
    partitions: list[log_files.Partition],
    promised: dict[str, promised_offsets.Promise],
    seen: Verified,
) -> Iterator[log_verify.Finding]:
    """Adds to the counts of `seen` while it reads."""
    sizes = sum(path.stat().st_size for each in partitions for path in each.segments)
    progress = ProgressBar("verified", size)

    def on_bytes(count: int) -> None:
        seen.bytes += count
        progress(seen.bytes, sizes)

    names = {f"{each.topic}-{each.partition}": each for each in partitions}
    for gone in log_verify.missing_partitions(names, promised):
        seen.missing += 1
        yield gone
    for name, each in names.items():
        seen.segments += len(each.segments)
        for found in log_verify.verify(each, promised.get(name), on_bytes):
            if isinstance(found, log_verify.Missing):
                seen.missing += 1
            else:
                seen.tails += found.is_tail
                seen.damaged += not found.is_tail
            yield found

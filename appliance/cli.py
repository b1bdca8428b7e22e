"""The `appliance` command: run the broker, or a ZooKeeper for it; ask a running one (`remote/`);
look into the data directory of a stopped one."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from appliance import _batch, event_log, log_files
from appliance import config as configuration
from appliance.command import Command
from appliance.mirror.command import mirror
from appliance.remote import broker, group, messages, topic, user
from appliance.server import Server
from appliance.zookeeper_server import ZooKeeperServer

REDRAW_SECONDS = 0.1  # of a bar at a terminal
LINE_SECONDS = 1.0  # between two plain lines


class Progress:
    """How far a long job is: a bar for a person at a terminal, otherwise a line each second."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.shown = time.monotonic()
        self.is_terminal = sys.stderr.isatty()

    def __call__(self, done: int, found: int) -> None:
        pause = REDRAW_SECONDS if self.is_terminal else LINE_SECONDS
        is_end = self.is_terminal and done == found
        if not is_end and time.monotonic() - self.shown < pause:
            return
        self.shown = time.monotonic()
        if self.is_terminal:
            filled = 30 * done // max(found, 1)
            bar = "#" * filled + "-" * (30 - filled)
            end = "\n" if is_end else ""
            click.echo(f"\r{self.what} [{bar}] {done}/{found}{end}", err=True, nl=False)
        else:
            click.echo(f"{self.what}: {done} of {found}", err=True)


@click.group()
@click.version_option(package_name="appliance")
def main() -> None:
    """A message log for one box."""


for each in (
    mirror,
    topic.topic,
    group.group,
    messages.produce,
    messages.consume,
    broker.health,
    broker.status,
    broker.config,
    user.user,
    broker.bundle,
):
    main.add_command(each)


def settings_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option(
            "--set",
            "pairs",
            multiple=True,
            metavar="KEY=VALUE",
            help="One setting; may be repeated.",
        ),
        click.option(
            "--zookeeper",
            metavar="HOST:PORT[,...]/PATH",
            help="Where to register, if anywhere (zookeeper.connect).",
        ),
        click.option(
            "--admin", metavar="HOST:PORT", help="Where health is served (admin.address)."
        ),
        click.option(
            "--listen", metavar="HOST:PORT", help="Where Kafka clients come in (listen.address)."
        ),
        click.option("--data-dir", metavar="DIR", help="Where the logs are kept (data.dir)."),
        click.option("--config", "file", type=click.Path(path_type=Path), help="Settings as TOML."),
    ):
        command = option(command)
    return command


FLAGS = {
    "data_dir": "data.dir",
    "listen": "listen.address",
    "admin": "admin.address",
    "zookeeper": "zookeeper.connect",
}


def load_config(
    file: Path | None, pairs: Iterable[str], **flags: str | None
) -> configuration.BrokerConfig:
    named = {FLAGS[flag]: text for flag, text in flags.items()}
    return configuration.load(file, os.environ, pairs, named)


@main.command(cls=Command)
@settings_options
def serve(**options: Any) -> None:
    """Run the broker until SIGTERM or SIGINT."""
    event_log.to_stderr()
    server = Server(load_config(**options))
    asyncio.run(server.run(Progress("recovering partitions")))


@main.command(cls=Command)
@click.option("--port", default=2181, show_default=True, help="Where it listens, on loopback.")
@click.option(
    "--data-dir",
    default="zookeeper",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Where it keeps its data.",
)
def zookeeper(port: int, data_dir: Path) -> None:
    """Run a single ZooKeeper to try things out with, until SIGTERM or SIGINT.

    It is Apache's own, from PySpark's jars, and needs Java."""
    server = ZooKeeperServer(data_dir, port)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.terminate())
    with server:
        server.wait_until_serving()
        click.echo(f"ready zookeeper={server.address} data={data_dir}")
        code = server.wait()
    if code not in (0, 128 + signal.SIGTERM):
        raise click.ClickException(f"ZooKeeper ended with code {code}")


@main.command(cls=Command)
@settings_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def settings(as_json: bool, **options: Any) -> None:
    """Print every setting with the value that `serve` would use."""
    values = configuration.values_of(load_config(**options))
    if as_json:
        click.echo(json.dumps({name: plain(value) for name, value in values.items()}, indent=2))
        return
    for name, value in values.items():
        row = configuration.settings()[name]
        mark = "" if value == row.default else "   (not the default)"
        click.echo(f"{name} = {row.text(value)}{mark}")


DIRECTORY = click.argument(
    "data_dir", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path)
)


def plain(value: Any) -> Any:
    return value if isinstance(value, (int, float)) else str(value)


@contextmanager
def files_of(data_dir: Path) -> Iterator[list[log_files.Partition]]:
    """The partitions of a directory that no broker has open, nor opens meanwhile."""
    with log_files.held(data_dir):
        yield log_files.partitions(data_dir)


@main.command(cls=Command)
@DIRECTORY
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def logs(data_dir: Path, as_json: bool) -> None:
    """List the partitions in DIR, as their files tell. The broker must be stopped."""
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


@main.command(cls=Command)
@DIRECTORY
@click.argument("topic")
@click.argument("partition", type=int)
@click.option("--offset", default=0, help="Where to begin.")
@click.option("--max", "count_max", default=100, show_default=True, help="How many to print.")
@click.option("--batches", is_flag=True, help="Batch headers instead of records.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def dump(
    data_dir: Path,
    topic: str,
    partition: int,
    offset: int,
    count_max: int,
    batches: bool,
    as_json: bool,
) -> None:
    """Print what a partition in DIR holds. The broker must be stopped."""
    with files_of(data_dir) as partitions:
        found = [each for each in partitions if (each.topic, each.partition) == (topic, partition)]
        if not found:
            raise click.ClickException(f"{data_dir}: no partition {topic}-{partition}")
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


@main.command(cls=Command)
@DIRECTORY
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.pass_context
def verify(context: click.Context, data_dir: Path, as_json: bool) -> None:
    """Read every segment in DIR and check each batch. Exit code 1 when one is damaged.

    The broker must be stopped. After a power cut start it once first: what it cuts is no damage."""
    damaged = 0
    with files_of(data_dir) as partitions:
        for damage in damages(partitions):
            damaged += not damage.is_tail
            row = {**vars(damage), "segment": str(damage.segment)}
            word = "tail" if damage.is_tail else "damage"
            line = f"{word}: {damage.segment} position {damage.position}: {damage.what}"
            click.echo(json.dumps(row) if as_json else line)
    if damaged:
        context.exit(1)


def damages(partitions: list[log_files.Partition]) -> Iterator[log_files.Damage]:
    segments = [(path, path == each.segments[-1]) for each in partitions for path in each.segments]
    sizes = sum(path.stat().st_size for path, _ in segments)
    progress, done = Progress("bytes verified"), 0

    def on_bytes(count: int) -> None:
        nonlocal done
        done += count
        progress(done, sizes)

    for path, is_last in segments:
        yield from log_files.verify(path, is_last, on_bytes)
    click.echo(f"{len(segments)} segments of {len(partitions)} partitions read", err=True)

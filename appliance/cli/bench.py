"""`appliance bench ...`: measures this machine in the way in which the broker uses it."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import click

from appliance.cli import disk_bench
from appliance.cli.disk_bench import BULK_PARTITIONS, IN_MEMORY, NO_FLUSH_US, DiskFigures, Times
from appliance.cli.remote.output import put_json, table
from appliance.process.exit_codes import Command
from appliance.process.option_types import FiniteRange
from appliance.process.progress_bar import ProgressBar
from appliance.process.spoken import size


@click.group()
def bench() -> None:
    """Measure this machine as the broker uses it."""


@bench.command(cls=Command)
@click.option(
    "--data-dir",
    default="data",
    show_default=True,
    type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
    help="A folder on the disk to measure. The files are deleted afterwards.",
)
@click.option(
    "--seconds",
    default=15.0,
    show_default=True,
    type=FiniteRange(0.1, 3600),
    help="Total time to measure.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def disk(data_dir: Path, seconds: float, as_json: bool) -> None:
    """Measure how fast a disk makes writes durable, and which durable rates to expect.

    A broker may run meanwhile. Then both are slower."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # and clean up
    figures = disk_bench.measure(data_dir, seconds, ProgressBar("measured"))
    if as_json:
        put_json(as_object(figures))
        return
    put_tables(figures)
    click.echo(f"\n{sentence(figures)}")
    for each in doubts(figures):
        click.echo(each)


def put_tables(figures: DiskFigures) -> None:
    click.echo(f"{figures.directory}: {figures.file_system}, {size(figures.free_bytes)} free\n")
    heads = ["one file", "size", "writes", "p50", "p99", "a second", "bytes a second"]
    click.echo(table(heads, [
        (each.way, size(each.size_bytes), *columns(each.times), f"{each.times.per_s:.0f}",
         size(each.size_bytes * each.times.per_s))
        for each in figures.writes
    ]))  # fmt: skip
    click.echo()
    heads = ["group commit", "partitions", "commits", "p50", "p99", "partitions a second"]
    click.echo(table(heads, [
        (each.sync, each.partitions, *columns(each.times), f"{each.per_s:.0f}")
        for each in figures.commits
    ]))  # fmt: skip


def columns(times: Times) -> tuple[str, str, str]:
    return str(times.samples), took(times.p50_us), took(times.p99_us)


def took(us: float) -> str:
    return f"{us:.0f} us" if us < 1000 else f"{us / 1000:.1f} ms"


def sentence(figures: DiskFigures) -> str:
    alone, group = figures.alone, figures.together
    return (
        f"Expect about {alone.per_s:.0f} durable commits/s where one producer waits for each "
        f"({took(alone.p50_us)}, one of a hundred {took(alone.p99_us)}), "
        f"{group.per_s:.0f}/s over {group.partitions} partitions that share a commit, and "
        f"{figures.bulk_bytes_per_s / 1e6:.0f} MB/s with group commit of large batches."
    )


def doubts(figures: DiskFigures) -> list[str]:
    """Reasons not to trust these figures."""
    if figures.file_system in IN_MEMORY:
        return [f"{figures.file_system} is in memory: these writes do not survive a power cut."]
    fastest = min(each.times.p50_us for each in figures.writes)
    if fastest < NO_FLUSH_US:
        return [
            f"The fastest write took {took(fastest)}: this disk has a cache that survives a power "
            "cut, or it confirms writes too early. Find out which."
        ]
    return []


def as_object(figures: DiskFigures) -> dict[str, Any]:
    alone, group = figures.alone, figures.together
    return {
        "directory": figures.directory,
        "file_system": figures.file_system,
        "free_bytes": figures.free_bytes,
        "writes": [
            {"way": each.way, "size_bytes": each.size_bytes, **each.times._asdict()}
            for each in figures.writes
        ],
        "group_commits": [
            {
                "sync": each.sync,
                "partitions": each.partitions,
                **each.times._asdict(),
                "partitions_per_s": each.per_s,
            }
            for each in figures.commits
        ],
        "expect": {
            "commits_per_s": alone.per_s,
            "partitions_per_s": group.per_s,
            "bytes_per_s": figures.bulk_bytes_per_s,
            "bulk_partitions": BULK_PARTITIONS,
        },
        "sentence": sentence(figures),
        "doubts": doubts(figures),
    }

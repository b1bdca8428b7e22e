"""`appliance disk ...`: the disks of this machine."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import click

from appliance.cli.remote.output import put_json
from appliance.doctor import disk_watch
from appliance.machine import disk_report
from appliance.process.exit_codes import UNHEALTHY, Command
from appliance.process.option_types import FiniteRange
from appliance.process.spoken import some

DEFAULT_FILE = "/var/lib/appliance-disk-watch/report.json"


@click.group()
def disk() -> None:
    """The disks of this machine."""


@disk.command(cls=Command)
@click.option("--output", default=DEFAULT_FILE, show_default=True,
              type=click.Path(dir_okay=False, path_type=Path),
              help="The file, which the broker reads (disk.watch.file).")  # fmt: skip
@click.option("--once", is_flag=True, help="Ask the disks once, and end.")
@click.option("--every", "seconds", default=600.0, show_default=True,
              type=FiniteRange(1, 86_400), help="Seconds between two rounds.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the file, too.")
def watch(output: Path, once: bool, seconds: float, as_json: bool) -> None:
    """Ask all disks for their state (SMART), and write it into a file for the broker. Wants root,
    and smartctl of the package smartmontools. Exit code 10: some are not well, or cannot be
    asked."""
    if not output.name:
        raise click.BadParameter(f"got {str(output)!r}, wanted a file", param_hint="--output")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    while True:
        report = disk_watch.look(disk_report.read(output))
        disk_watch.write(report, output)
        if as_json:
            put_json(report)
        told = wrong(output)
        for text in told:
            click.echo(text, err=True)
        if once:
            break
        time.sleep(seconds)
    if not as_json:
        click.echo(f"{output}: {some(len(report['disks']), 'disk')}")
    if told:
        click.get_current_context().exit(UNHEALTHY)


def wrong(output: Path) -> list[str]:
    """As the broker will read it."""
    report = disk_report.read(output)
    if report.fault:
        return [report.fault]
    return [
        f"{each.called} {text}"
        for each in report.disks
        for text in [*each.failures(), *each.warnings()]
    ]

"""`appliance doctor`: what is wrong with this machine, why it matters, and the command that mends
it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from appliance.cli.remote.output import put_json
from appliance.cli.settings_options import load_config, or_of_the_service, settings_options
from appliance.config import BrokerConfig
from appliance.doctor import examination, mend
from appliance.doctor.check import Check, row, sentence, worst_first
from appliance.doctor.mend import Mended
from appliance.machine.kernel_files import KernelFiles
from appliance.machine.throughput import Throughput
from appliance.machine.watch import Machine
from appliance.process.exit_codes import UNHEALTHY, Command
from appliance.process.progress_bar import ProgressBar
from appliance.process.spoken import size

WIDTH = 9  # of a verdict
BAR = 50


@click.command(cls=Command)
@settings_options
@click.option(
    "--fix",
    "may_fix",
    is_flag=True,
    help="Write what is safe: values of the kernel, now and for the next start. Wants root.",
)
@click.option("--no-measure", is_flag=True, help="Do not measure how fast syncs are.")
@click.option(
    "--throughput",
    "may_drive",
    is_flag=True,
    help="Measure writes in a row against writes at random places, and draw them: ten seconds, "
    "256 MiB in the data directory.",
)
@click.option("--root", default="/", hidden=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def doctor(
    may_fix: bool, no_measure: bool, may_drive: bool, root: Path, as_json: bool, **options: Any
) -> None:
    """Look at this machine: disks, arrays, file system, memory, clock, network, certificates.

    Each check has a verdict, why it matters, and the command that mends it. Run it as root to see
    all. Without options it takes the settings of the service, if there are any. Exit code 0:
    healthy, 10: degraded or failing."""
    config = load_config(**or_of_the_service(options))
    machine, *elsewhere = machines(config, KernelFiles(root))
    measured = [] if no_measure else measured_syncs([machine, *elsewhere])
    here = examination.checks(machine, config)
    checks = worst_first([*here, *examination.beside(elsewhere, here), *measured])
    if may_drive:
        machine.measure_throughput(tick=ProgressBar("measured"))
    mended = mend.mend(checks, machine.kernel) if may_fix else []
    if as_json:
        fixed = {"fixed": [as_plain(each) for each in mended]} if may_fix else {}
        driven = {"throughput": machine.throughput._asdict()} if machine.throughput else {}
        found = {"checks": [row(each) for each in checks], "sentence": sentence(checks)}
        put_json({**found, **fixed, **driven})
    else:
        drawn = drawing(machine.throughput) if machine.throughput else []
        click.echo("\n".join([*lines(checks), *map(told, mended), "", *drawn, sentence(checks)]))
    if any(each.is_wrong for each in checks):
        click.get_current_context().exit(UNHEALTHY)


def machines(config: BrokerConfig, kernel: KernelFiles) -> list[Machine]:
    """This machine from below the data directory, and from below each other one of records."""
    found = []
    for each in dict.fromkeys([config.data_dir.absolute(), *config.record_dirs]):
        machine = Machine(existing(each), config.machine, kernel, is_guest=True)
        machine.look()
        found.append(machine)
    return found


def measured_syncs(below: Iterable[Machine]) -> list[Check]:
    return [each for machine in below for each in examination.measure_syncs(machine)]


def existing(directory: Path) -> Path:
    """Where the data will be: before the first start the directory is not there."""
    return next(each for each in (directory, *directory.parents) if each.exists())


def lines(checks: list[Check]) -> Iterator[str]:
    for each in checks:
        yield f"{each.verdict:<{WIDTH}} {each.name}: {each.found}"
        if each.verdict != "ok":
            yield f"{'':<{WIDTH}}   why: {each.why}"
            if each.fix:
                yield f"{'':<{WIDTH}}   fix: {each.fix}"


def drawing(found: Throughput) -> list[str]:
    """The argument for a log, to scale."""
    most = max(found)
    bars = [
        f"{name.replace('_', ' '):<14} {size(rate):>10}/s  {'#' * round(BAR * rate / most)}"
        for name, rate in found._asdict().items()
    ]
    return [*bars, f"In a row it writes {found.times:.0f} times as fast as at random places.", ""]


def told(mended: Mended) -> str:
    path = f"/{mended.change.path}"
    if mended.error:
        return f"not fixed {mended.name}: {path}: {mended.error}"
    return f"fixed     {mended.name}: {path} was {mended.before}, is {mended.change.value}"


def as_plain(mended: Mended) -> dict[str, str]:
    return {
        "name": mended.name,
        "path": f"/{mended.change.path}",
        "before": mended.before,
        "after": mended.change.value,
        "error": mended.error,
    }

"""Our broker and Kafka under the OpenMessaging Benchmark, in turns.

    python -m bench.openmessaging FOLDER --rounds 3 --out openmessaging.json
    python -m bench.openmessaging FOLDER --workload small-rate --warm-up 0
    python -m bench.openmessaging --report openmessaging.json

FOLDER has the jars of a built OpenMessaging Benchmark, or a `lib` with them, as its own package
does: benchmark-framework, driver-api, driver-kafka, kafka-clients, and all that they need. How to
build it: docs/decisions/openmessaging.md. Nothing of it is in this repository.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import click

from bench import results, whole_run
from bench.openmessaging import page, tool
from bench.openmessaging.workloads import WORKLOADS, Minutes, Workload
from bench.peers.running import Running
from bench.peers.turns import Case, Figures, Results, nothing, settle, summary
from bench.results import Run

DOCS = Path(__file__).resolve().parents[2] / "docs"
FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, exists=True, path_type=Path)
BROKERS = ("appliance", "kafka")
SUITE = "openmessaging"
FAILED = 3  # the exit code, as of `python -m bench run`


@click.command(help=(__doc__ or "").partition("\n")[0] + " FOLDER has the tool's jars.")
@click.argument("folder", type=FOLDER, required=False)
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@click.option("--minutes", type=click.IntRange(1), default=1, show_default=True,
              help="Of each test.")
@click.option("--warm-up", type=click.IntRange(0), default=1, show_default=True,
              help="Minutes before each test.")
@click.option("--workload", "names", multiple=True, type=click.Choice(list(WORKLOADS)),
              default=tuple(WORKLOADS), help="Some of them; repeatable. Default: all.")
@click.option("--dir", "directory", type=FOLDER, help="A folder on the file system to measure.")
@click.option("--out", type=FILE, default="openmessaging.json", show_default=True)
@click.option("--report", "report_of", type=FILE,
              help="Measure nothing: write the page and the chart of this file.")
@click.option("--page", "page_file", type=FILE, default=DOCS / "decisions/openmessaging.md")
def main(folder: Path | None, rounds: int, minutes: int, warm_up: int, names: Sequence[str],
         directory: Path | None, out: Path, report_of: Path | None, page_file: Path) -> None:
    if (folder is None) == (report_of is None):
        raise click.UsageError("wanted FOLDER or --report, got "
                               + ("neither" if folder is None else "both"))
    if report_of:
        for each in page.fill(Run.load(report_of), page_file, DOCS):
            click.echo(each)
        return
    assert folder is not None
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # stops the brokers
    try:
        place = tool.jars(folder)
    except tool.NotBuilt as error:
        raise click.ClickException(str(error)) from None
    run = Run(results.machine(directory or Path("/tmp")), rounds)
    run.machine["OpenMessaging Benchmark"] = tool.version(folder)
    run.machine["minutes"] = f"{warm_up} of warm-up, {minutes} of test"
    measure(run, place, [WORKLOADS[name] for name in dict.fromkeys(names)],
            Minutes(warm_up, minutes), directory, out)
    click.echo("\n".join(page.table(run)))
    for name, reason in run.failed.items():
        click.echo(f"{name}: {reason}", err=True)
    sys.exit(FAILED if run.failed else 0)


def measure(run: Run, place: Path, chosen: Sequence[Workload], minutes: Minutes,
            directory: Path | None, out: Path) -> None:
    """Saves after every workload. One that failed does not stop the run."""
    begin = time.monotonic()
    for workload in chosen:
        found: Results = {}
        try:
            for each in range(1, run.rounds + 1):
                take_round(found, place, workload, minutes, directory, each)
        except Exception as error:  # noqa: BLE001 - kept as the reason
            run.failed[workload.title] = whole_run.reason(error)
        run.add(SUITE, Case(workload.title, nothing, workload.promise.configs), found)
        run.minutes = round((time.monotonic() - begin) / 60, 1)
        run.save(out)


def take_round(found: Results, place: Path, workload: Workload, minutes: Minutes,
               directory: Path | None, number: int) -> None:
    """Counts only as a whole: a turn of one broker says nothing without the other's."""
    turns = {}
    for name in BROKERS:
        click.echo(f"{workload.title}: round {number}, {name}", err=True)
        turns[name] = turn(name, place, workload, minutes, directory)
    for figure in turns[BROKERS[0]]:
        values = {name: turns[name][figure] for name in BROKERS}
        for name, value in values.items():
            found.setdefault(figure, {}).setdefault(name, []).append(value)
        click.echo(f"  {figure:28} {summary({name: [each] for name, each in values.items()})}",
                   err=True)


def turn(name: str, place: Path, workload: Workload, minutes: Minutes,
         directory: Path | None) -> Figures:
    """On a new broker with an empty data directory."""
    folder = Path(tempfile.mkdtemp(prefix="openmessaging-"))
    try:
        with Running(directory) as running:
            broker = running.broker(name, {})
            settle()
            return tool.turn(place, workload, minutes, broker, folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(prog_name="python -m bench.openmessaging")

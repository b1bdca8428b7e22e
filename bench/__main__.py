"""Compares the appliance with its peers: measures, reports, draws charts, and detects regressions.

    python -m bench list
    python -m bench run --quick --out results.json
    python -m bench report results.json
    python -m bench compare old.json new.json
"""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import replace
from pathlib import Path

import click

from bench import regressions, report, results, run_size, whole_run
from bench.peers import other_clients, other_protocol_brokers
from bench.peers.brokers import DurableFloor, Floor, FloorBroker
from bench.peers.running import PEERS
from bench.suites import SUITES
from bench.whole_run import BESIDE

ROOT = Path(__file__).resolve().parent.parent
FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, exists=True, path_type=Path)
NO_PEERS = ("appliance", Floor.name, DurableFloor.name, FloorBroker.name)
REGRESSION = 1  # the exit codes
FAILED = 3


@click.group(help=(__doc__ or "").partition("\n")[0])
def main() -> None:
    pass


@main.command("list", help="List the suites.")
def list_suites() -> None:
    for name, suite in SUITES.items():
        click.echo(f"{name:18} {(suite.__doc__ or '').strip()}")
    for name, about in BESIDE.items():
        click.echo(f"{name:18} {about}")
    for name in other_protocol_brokers.NEEDS:
        click.echo(f"peer {name:13} {other_protocol_brokers.missing(name) or 'is installed'}")
    for name, client in other_clients.CLIENTS.items():
        click.echo(f"client {name:11} {client.missing() or 'can be run'}")


@main.command(help="Measure. Exit code 3: some cases failed.")
@click.option("--suite", "suites", multiple=True, type=click.Choice([*SUITES, *BESIDE, "all"]),
              help="A suite; repeatable. Default: all.")
@click.option("--peer", "peers", multiple=True,
              type=click.Choice([each for each in PEERS if each not in NO_PEERS]),
              help="Only comparisons with these peers.")
@click.option("--quick", is_flag=True, help="A fifth of the loads, 3 rounds, 15 minutes.")
@click.option("--rounds", type=click.IntRange(1), help="Default: 5, quick 3.")
@click.option("--minutes", type=click.FloatRange(1), help="Default: 60, quick 15. Rounds that do "
              "not fit are left out; each case has at least one.")
@click.option("--growth-gb", type=click.IntRange(2), help="Final size of the log: 100, or 20.")
@click.option("--dir", "directory", type=FOLDER, help="A folder on the file system to measure.")
@click.option("--out", type=FILE, default="results.json", show_default=True)
def run(suites: tuple[str, ...], peers: tuple[str, ...], quick: bool, rounds: int | None,
        minutes: float | None, growth_gb: int | None, directory: Path | None, out: Path) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # stops the brokers
    usual = run_size.QUICK if quick else run_size.WHOLE
    asked = replace(usual, rounds=rounds or usual.rounds,
                    long_rounds=min(rounds or usual.rounds, usual.long_rounds),
                    minutes=minutes or usual.minutes, grown_gb=growth_gb or usual.grown_gb)
    names = set(suites) - {"all"} or {*SUITES, *BESIDE}
    cases = [(name, case) for name in SUITES if name in names for case in SUITES[name](asked)
             if not peers or case.peer in peers]
    beside = [name for name in BESIDE if name in names]
    done = results.Run(results.machine(directory or Path("/tmp")), asked.rounds)
    absent = absences()
    for name in sorted(names & absent.keys()):
        click.echo(f"{name} is left out: {absent[name]}", err=True)
    if absent:
        done.machine["not installed"] = ", ".join(absent)
    done.machine["loads"] = f"{asked.load:g} of the whole"
    whole_run.measured(done, cases, beside, asked, directory, out)
    click.echo(f"{len(done.comparisons)} figures in {out}, in {done.minutes:.0f} minutes; "
               f"{len(done.failed)} cases failed")
    for name, reason in done.failed.items():
        click.echo(f"{name}: {reason}", err=True)
    sys.exit(FAILED if done.failed else 0)


def absences() -> dict[str, str]:
    """What to install, by the peer or the client that is missing."""
    told = {name: other_protocol_brokers.missing(name) for name in other_protocol_brokers.NEEDS}
    told |= {name: each.missing() for name, each in other_clients.CLIENTS.items()}
    return {name: what for name, what in told.items() if what}


@main.command("report", help="Write docs/benchmarks.md and its charts.")
@click.argument("file", type=FILE)
@click.option("--page", type=FILE, default=ROOT / "docs/benchmarks.md")
@click.option("--readme", type=FILE, help="A page whose benchmarks block is updated.")
def write_report(file: Path, page: Path, readme: Path | None) -> None:
    run = results.Run.load(file)
    for each in report.written(run, page, page.parent / "images/benchmarks"):
        click.echo(each)
    if readme and not report.fill_block(run, readme):
        raise click.UsageError(f"{readme} has no <!-- benchmarks --> and <!-- /benchmarks -->")


@main.command(help="List regressions from OLD to NEW. Exit code 1: there are regressions.")
@click.argument("old", type=FILE)
@click.argument("new", type=FILE)
@click.option("--json", "as_json", is_flag=True)
def compare(old: Path, new: Path, as_json: bool) -> None:
    before, now = results.Run.load(old), results.Run.load(new)
    count = regressions.compared(before, now)
    if not count:
        raise click.UsageError(f"{old} and {new} have no figure in common")
    worse = regressions.regressions(before, now)
    if as_json:
        click.echo(json.dumps({"compared": count, "worse": [each.as_row() for each in worse]}))
    else:
        for each in worse:
            click.echo(f"{each.what}: {each.old:,.4g} -> {each.new:,.4g} ({each.percent:+.1f} %)")
        click.echo(f"{len(worse)} of {count} figures became worse")
    sys.exit(REGRESSION if worse else 0)


if __name__ == "__main__":
    main(prog_name="python -m bench")

"""The appliance beside its peers: measured, told, drawn, and watched for what becomes slower.

    python -m bench list
    python -m bench run --suite produce --suite consume --out results.json
    python -m bench report results.json
    python -m bench compare old.json new.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from bench import comparison, instructions, limits, report, results
from bench.peers.turns import Turns, running
from bench.suites import SUITES

ROOT = Path(__file__).resolve().parent.parent
FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, exists=True, path_type=Path)
BESIDE = ("limits", "instructions")  # they measure no broker
REGRESSION = 1  # the exit code


@click.group(help=(__doc__ or "").partition("\n")[0])
def main() -> None:
    pass


@main.command("list", help="The suites, a line each.")
def list_suites() -> None:
    for name, suite in SUITES.items():
        click.echo(f"{name:18} {(suite.__doc__ or '').strip()}")
    click.echo(f"{'limits':18} {(limits.__doc__ or '').strip()}")
    click.echo(f"{'instructions':18} {(instructions.__doc__ or '').partition(':')[0]}.")


@main.command(help="Measure; all suites, where none is named.")
@click.option("--suite", "suites", multiple=True, type=click.Choice([*SUITES, *BESIDE]))
@click.option("--peer", "peers", multiple=True, type=click.Choice(["kafka", "mock", "floor"]),
              help="Only cases beside these.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1))
@click.option("--dir", "directory", type=FOLDER, help="On the file system to be measured.")
@click.option("--out", type=FILE, default="results.json", show_default=True)
def run(suites: tuple[str, ...], peers: tuple[str, ...], rounds: int, directory: Path | None,
        out: Path) -> None:
    wanted = suites or (*SUITES, *BESIDE)
    done = results.Run(results.machine(directory or Path("/tmp")), rounds)
    cases = [(name, case) for name in wanted if name in SUITES for case in SUITES[name]()
             if not peers or case.peer in peers]
    if "limits" in wanted:
        done.limits = limits.measured(directory, rounds)
    if "instructions" in wanted:
        done.instructions = instructions.measured()
    with running({case.peer for _, case in cases}, directory, {}) as brokers:
        turns = Turns(brokers, rounds)
        for name, case in cases:
            turns.take(case)
            done.add(name, case, turns.results)
            done.save(out)  # what was measured is kept, whatever comes after it
        done.resident_mb = {name: each.peak_resident_bytes() / 1e6
                            for name, each in brokers.items() if each.has_process}
    done.save(out)
    click.echo(f"{len(done.comparisons)} figures in {out}")


@main.command("report", help="Write docs/benchmarks.md and its charts.")
@click.argument("file", type=FILE)
@click.option("--page", type=FILE, default=ROOT / "docs/benchmarks.md")
def write_report(file: Path, page: Path) -> None:
    for each in report.written(results.Run.load(file), page, page.parent / "images/benchmarks"):
        click.echo(each)


@main.command(help="Name what became worse from OLD to NEW. Exits with 1 when anything did.")
@click.argument("old", type=FILE)
@click.argument("new", type=FILE)
@click.option("--json", "as_json", is_flag=True)
def compare(old: Path, new: Path, as_json: bool) -> None:
    before, now = results.Run.load(old), results.Run.load(new)
    count = comparison.compared(before, now)
    if not count:
        raise click.UsageError(f"{old} and {new} have no figure in common")
    found = comparison.regressions(before, now)
    if as_json:
        click.echo(json.dumps({"compared": count, "worse": [each.as_row() for each in found]}))
    else:
        for each in found:
            click.echo(f"{each.what}: {each.old:,.4g} -> {each.new:,.4g} ({each.percent:+.1f} %)")
        click.echo(f"{len(found)} of {count} figures became worse")
    sys.exit(REGRESSION if found else 0)


if __name__ == "__main__":
    main(prog_name="python -m bench")

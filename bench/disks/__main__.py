"""A broker on spinning disks, simulated: what it and Kafka reach, and how the heads move.

    python -m bench.disks model                       the model beside what such disks do, by fio
    python -m bench.disks brokers --kind sata --kind raid5 --out disks.json
    python -m bench.disks flights --only appliance    commits, by what producers have in flight
    python -m bench.disks settings --kind raid5  our broker: read-ahead, write-behind
    python -m bench.disks table disks.json
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import click

from bench.disks import model, tables, turns
from bench.disks.disk import KINDS, Kind, missing

FOLDER = click.Path(file_okay=False, exists=True, path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)
KIND = click.option("--kind", "kinds", multiple=True, type=click.Choice(list(KINDS)),
                    default=("sata", "raid5"), show_default=True)
ROUNDS = click.option("--rounds", default=3, show_default=True)
SLOWER = click.option("--slower", default=4, show_default=True,
                      help="The disk's time is as many times slower than the machine's: more for a "
                      "busy machine. Rates are in the disk's time.")
DIR = click.option("--dir", "place", type=FOLDER, help="A folder for the mount points.")
OUT = click.option("--out", type=FILE, help="The figures as JSON.")
Taken = Callable[[Kind, Sequence[str], turns.Extent], Iterator[turns.Found]]


@click.group(help=(__doc__ or "").partition("\n")[0])
def main() -> None:
    pass


def check_machine() -> None:
    absent = missing()
    if absent:
        raise click.ClickException(absent)


@main.command("model", help="Linear and random rates and syncs of the bare device, by fio.")
@KIND
@ROUNDS
@SLOWER
@DIR
@OUT
def check_model(kinds: tuple[str, ...], rounds: int, slower: int, place: Path | None,
                out: Path | None) -> None:
    check_machine()
    keep({kind: {"device": model.collected(model.figures(KINDS[kind], slower, rounds, place))}
          for kind in kinds}, out)


def measured(about: str, contenders: Mapping[str, turns.Contender], taken: Taken) -> None:
    """A command with the options that `run` and `settings` have in common."""

    @KIND
    @ROUNDS
    @SLOWER
    @DIR
    @OUT
    @click.option("--only", "names", multiple=True, type=click.Choice(list(contenders)),
                  default=tuple(contenders), help="Some of the columns.")
    @click.option("--seconds", default=3.0, show_default=True, help="Of each part, of the disk.")
    @click.option("--megabytes", default=300, show_default=True,
                  help="Of the log before the readers.")
    @click.option("--mount", default="", help="Options of ext4, such as data=journal.")
    def command(kinds: tuple[str, ...], rounds: int, slower: int, place: Path | None,
                out: Path | None, names: tuple[str, ...], seconds: float, megabytes: int,
                mount: str) -> None:
        check_machine()
        found: dict[str, object] = {}
        extent = turns.Extent(slower, rounds, seconds, megabytes, place, mount)
        for each in kinds:
            for so_far in taken(KINDS[each], names, extent):
                found[each] = so_far
                keep(found, out)

    main.command(taken.__name__.removeprefix("of_"), help=about)(command)


measured("Our broker and Kafka, in turns on the same disk.", turns.BROKERS, turns.of_brokers)
measured("How much a commit takes along, by what producers have in flight.", turns.BROKERS,
         turns.of_flights)
measured("Our broker with other read-ahead and write-behind, in turns.", turns.SETTINGS,
         turns.of_settings)


@main.command(help="The figures of files as tables: median, lowest and highest.")
@click.argument("files", nargs=-1, type=FILE)
def table(files: tuple[Path, ...]) -> None:
    for file in files:
        for kind, columns in json.loads(file.read_text()).items():
            click.echo(tables.written(KINDS[kind].name, columns))


def keep(found: Mapping[str, object], out: Path | None) -> None:
    if out:
        out.write_text(json.dumps(found, indent=1))
    else:
        click.echo(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(prog_name="python -m bench.disks")

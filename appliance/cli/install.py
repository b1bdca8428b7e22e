"""`appliance install` and `appliance uninstall`: the broker as a service of this machine."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from appliance.cli.remote.output import put_json
from appliance.config import BrokerConfig
from appliance.doctor import examination, mend
from appliance.doctor.check import Check
from appliance.installation import installation, removal
from appliance.installation.installation import Step, Wish
from appliance.installation.paths import DATA_DIR, Place
from appliance.machine.kernel_files import KernelFiles
from appliance.machine.watch import Machine
from appliance.process.exit_codes import Command

WIDTH = 9  # of what was done

shows_json = click.option("--json", "as_json", is_flag=True, help="One JSON object.")
is_in_folder = click.option(
    "--root", default="/", show_default=True, type=click.Path(path_type=Path, file_okay=False),
    help="The root of the machine, or a folder that becomes one.",
)  # fmt: skip


@click.command(cls=Command)
@click.option("--data-dir", type=click.Path(path_type=Path),
              help="The data directory, on the array; else as in the settings, "
              "or /var/lib/appliance.")  # fmt: skip
@click.option("--new-data-dir", "may_begin", is_flag=True,
              help="The broker begins in this directory, which has no marker of it.")  # fmt: skip
@click.option("--start", "starts", is_flag=True,
              help="Start broker and disk watch, now and with the machine.")  # fmt: skip
@click.option("--restart", "restarts", is_flag=True,
              help="Restart broker and export scheduler, if they run.")  # fmt: skip
@click.option("--tune", "may_tune", is_flag=True,
              help="Write the values of the kernel that `appliance doctor` proposes.")  # fmt: skip
@click.option("--command", default=None, hidden=True, type=click.Path(path_type=Path))
@is_in_folder
@shows_json
def install(
    data_dir: Path | None, may_begin: bool, starts: bool, restarts: bool, may_tune: bool,
    command: Path | None, root: Path, as_json: bool,
) -> None:  # fmt: skip
    """Make the broker a service of this machine: its user, settings, data directory and units of
    systemd. Wants root. A second run changes only what is not as it should be."""
    place = Place(root.absolute())
    wish = Wish(place, command or this_command(), data_dir, may_begin, starts, restarts)
    steps = list(installation.install(wish))
    there = removal.data_of(place)
    proposed = proposals(place, there)
    if may_tune:
        steps += tuned(place, proposed)
        proposed = []
    if as_json:
        put_json({"steps": rows(steps), "data_dir": str(there),
                  "proposed": [each.fix for each in proposed]})  # fmt: skip
        return
    told = [] if restarts else following(place, there, starts)
    click.echo("\n".join([*lines(steps), *advice(proposed), *told]))


@click.command(cls=Command)
@click.option("--purge", "purges", is_flag=True, help="Delete settings and data, too. Asks first.")
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask.")
@click.option("--package-goes", is_flag=True, hidden=True)
@is_in_folder
@shows_json
def uninstall(
    purges: bool, is_sure: bool, package_goes: bool, root: Path, as_json: bool
) -> None:
    """Stop the broker and remove its units. Settings and data stay, and where they are is said."""
    place = Place(root.absolute())
    there = removal.data_of(place)
    if purges and not is_sure:
        click.confirm(f"Delete all records in {there}, and {place.settings.parent}?", abort=True,
                      err=True)  # fmt: skip
    steps = list(removal.uninstall(place, purges))
    if as_json:
        put_json({"steps": rows(steps), "data_dir": str(there)})
        return
    click.echo("\n".join(lines(steps)))
    if not purges:
        click.echo(f"All records are still in {there}. {to_delete(package_goes)}")


def to_delete(package_goes: bool) -> str:
    if package_goes:  # and this command with it
        return "`apt purge appliance` deletes the settings and no records"
    return "To delete them: appliance uninstall --purge"


def this_command() -> Path:
    """The program beside this Python, as units start it."""
    return Path(sys.executable).with_name("appliance")


def proposals(place: Place, data_dir: Path) -> list[Check]:
    """What the doctor would write, which is done only for who says so. A folder that has no kernel
    yet needs nothing."""
    there = place.below(data_dir)
    machine = Machine(there, kernel=KernelFiles(place.root), is_guest=True)
    machine.look()
    found = examination.checks(machine, BrokerConfig(data_dir=there))
    return [each for each in found if each.changes]


def tuned(place: Place, proposed: list[Check]) -> Iterator[Step]:
    for each in mend.mend(proposed, KernelFiles(place.root)):
        path = f"/{each.change.path}"
        if each.error:
            yield Step("failed", f"{path}: {each.error}")
        else:
            yield Step("changed", f"{path}: {each.change.value}, was {each.before}")


def rows(steps: Iterable[Step]) -> list[dict[str, str]]:
    return [each._asdict() for each in steps]


def lines(steps: Iterable[Step]) -> list[str]:
    return [f"{each.did:<{WIDTH}} {each.what}" for each in steps]


def advice(proposed: list[Check]) -> list[str]:
    if not proposed:
        return []
    return ["", "Proposed, and not done without your word (--tune):",
            *(f"  {each.name}: {each.fix}" for each in proposed)]  # fmt: skip


def following(place: Place, data_dir: Path, starts: bool) -> list[str]:
    told = []
    if place.below(data_dir).stat().st_dev == place.root.stat().st_dev:
        told = [f"{data_dir} is on the disk of the system. {on_an_array(data_dir)}"]
    if starts:
        return ["", *told, "While nobody has a password, `journalctl -u appliance` has a link that "
                "sets the first one."]  # fmt: skip
    return ["", *told, "To start it: sudo appliance install --start"]


def on_an_array(data_dir: Path) -> str:
    if data_dir == DATA_DIR:
        return "On an array: sudo appliance install --data-dir /srv/array/appliance --start"
    return f"If it should be on an array: `findmnt --target {data_dir}` says what is mounted there"

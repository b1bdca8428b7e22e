"""`appliance upgrade check`: what a start of this build would do to the data, without doing it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from appliance import __version__
from appliance.cli.remote.output import put_json
from appliance.cli.settings_options import load_config, or_of_the_service, settings_options
from appliance.config import BrokerConfig, SettingInvalid
from appliance.config.sources import from_file
from appliance.data_dir.data_format import OURS
from appliance.process.exit_codes import UNHEALTHY, Command, CommandGroup
from appliance.process.spoken import size
from appliance.upgrade import settings_check
from appliance.upgrade.plan import Plan, plan

WIDTH = 10


@click.group(cls=CommandGroup)
def upgrade() -> None:
    """Before a newer version takes over the data."""


@upgrade.command(cls=Command)
@settings_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def check(as_json: bool, **options: Any) -> None:
    """Say what a start of this build would do to the data: formats, migrations, settings, room, and
    the way back. Nothing is changed, and a broker may have the directory open.

    Without options it takes the settings of the service, if there are any. Exit code 0: a start
    would go well, 10: it would be refused."""
    made = plan_of(**or_of_the_service(options))
    if as_json:
        put_json(made.as_json())
    else:
        click.echo("\n".join(lines(made)))
    if made.refused:
        click.get_current_context().exit(UNHEALTHY)


def plan_of(file: Path | None, **options: Any) -> Plan:
    """Settings that a start refuses do not keep from looking at the data."""
    faults = [] if file is None else list(settings_check.faults(file))
    try:
        config = load_config(file=file, **options)
    except SettingInvalid as error:
        if not faults:
            faults = [str(error)]
        named = options["data_dir"] or data_dir_of(file)
        config = BrokerConfig() if named is None else replace(BrokerConfig(), data_dir=Path(named))
    made = plan(config)
    made.refused = [*faults, *made.refused]
    made.notes += [] if file is None else settings_check.former(file)
    return made


def data_dir_of(file: Path | None) -> Path | None:
    if file is None:
        return None
    try:
        found = {each.named_anew().name: each.value for each in from_file(file)}
    except SettingInvalid:
        return None
    return Path(found["data.dir"]) if "data.dir" in found else None


def lines(made: Plan) -> Iterator[str]:
    found = made.found or "no data yet"
    yield f"{'data':<{WIDTH}} {made.data_dir}: format {found}" + (f", {made.by}" if made.by else "")
    yield f"{'build':<{WIDTH}} appliance {__version__}: format {OURS}"
    for each in made.migrations:
        yield f"{'migrates':<{WIDTH}} {each.what}: {each.touches}"
    if made.migrations:
        room = f"{size(made.needed_bytes)} wanted, {size(made.free_bytes)} free"
        yield f"{'room':<{WIDTH}} {room}"
    for note in made.notes:
        yield f"{'note':<{WIDTH}} {note}"
    for why in made.refused:
        yield f"{'refused':<{WIDTH}} {why}"
    if made.found and not made.refused:
        yield f"{'way back':<{WIDTH}} {made.way_back}"
    yield made.sentence

"""`appliance export define`, `set`, `show` and `delete`: the definition of an export in the broker,
by NAME=VALUE. A change replaces only the version that it was made from: two at once lose none."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from pathlib import Path
from typing import Any

import click

from appliance.config.config_key import ConfigInvalid
from appliance.config.config_words import plain
from appliance.export.definition_version import NEW
from appliance.export.export_options import OPTIONS
from appliance_spark import export_when
from appliance_spark.export_broker import AdminPort, BrokerRefused
from appliance_spark.export_command_options import Command, with_broker, with_json
from appliance_spark.export_layout import ExportFailed, text_of

NEXT_RUNS = 3  # told after a change; `appliance export when` has more
TRIES = 20  # of `set`, where others change the same definition all the time
PLAIN = ("pattern", "target", "schema", "partition_by")
OF_SCHEDULE = ("timezone", "jitter_seconds", "retries")  # and `schedule` itself, in words or cron
KNOWN = ("topics", *PLAIN, "schedule", *OF_SCHEDULE, *OPTIONS)

Definition = dict[str, Any]
Pairs = list[tuple[str, str]]


def pairs_of(words: Iterable[str]) -> Pairs:
    found = []
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or name not in KNOWN:
            raise click.UsageError(f"got {word!r}, wanted NAME=VALUE of {', '.join(KNOWN)}")
        found.append((name, value))
    return found


def changed(definition: Definition, pairs: Pairs) -> Definition:
    """An empty value takes the setting away."""
    made = json.loads(json.dumps({n: v for n, v in definition.items() if n != "status"}))
    for name, text in pairs:
        if name == "topics":
            made["topics"] = [each for each in text.split(",") if each]
        elif name in PLAIN:
            made[name] = text or None
        elif name in OPTIONS:
            made["options"] = {**(made.get("options") or {}), name: _value(name, text)}
        else:
            made["schedule"] = _scheduled(made.get("schedule") or {}, name, text)
    made["options"] = {n: v for n, v in (made.get("options") or {}).items() if v is not None}
    return made  # type: ignore[no-any-return]


def _scheduled(schedule: dict[str, Any], name: str, text: str) -> dict[str, Any] | None:
    """Words or cron are given anew as they are; what they mean is the broker's to say."""
    if name != "schedule":
        kept = {n: v for n, v in schedule.items() if n != "cron" or "when" not in schedule}
        kept.pop(name, None)
        return {**kept, name: _value(name, text)} if text else kept
    kept = {n: v for n, v in schedule.items() if n not in ("when", "cron", "timezone")}
    return {**kept, "when": text} if text else None


def _value(name: str, text: str) -> Any:
    """Numbers, true, false and objects as JSON has them; sizes also as 128MiB; else a text, and
    that of a file behind an @."""
    if not text:
        return None
    if text.startswith("@") and name == "schema_json":
        return text_of(Path(text[1:]))
    try:
        text = plain(name.replace("_", "."), text)
    except ConfigInvalid as error:
        raise ExportFailed(str(error)) from error
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return text if isinstance(found, (str, list)) or name == "schema_json" else found


def set_in(broker: AdminPort, name: str, pairs: Pairs) -> Definition:
    """Made again from what is there by then, where somebody else was faster."""
    for attempt in range(TRIES):
        known = broker.definition(name)
        try:
            return broker.define(name, changed(known, pairs), known["status"]["version"])
        except BrokerRefused as error:
            if error.status != HTTPStatus.CONFLICT or attempt + 1 == TRIES:
                raise
    raise AssertionError("not reached")


def _command(words: Callable[..., Definition]) -> Callable[..., Any]:
    def run(name: str, settings: tuple[str, ...], as_json: bool, broker: AdminPort,
            retries: int, **more: Any) -> None:
        found = words(broker, name, pairs_of(settings), **more)
        found.pop("status")
        click.echo(json.dumps(found) if as_json else json.dumps(found, indent=1))
        if found["schedule"] and not as_json:
            click.echo("\n".join(["Next runs:", *_next_runs(found)]), err=True)

    run.__doc__ = words.__doc__
    run = click.argument("settings", nargs=-1, metavar="NAME=VALUE...")(with_broker(with_json(run)))
    return click.argument("name", metavar="EXPORT")(run)


def _next_runs(definition: Definition) -> list[str]:
    (row,) = export_when.of_definitions([definition], time.time(), NEXT_RUNS)
    return [row["error"]] if "error" in row else export_when.lines(row)


@click.command("define", cls=Command)
@click.option("--replace", is_flag=True, help="Also if there is an export of this name.")
@_command
def define(broker: AdminPort, name: str, pairs: Pairs, replace: bool) -> Definition:
    """Define EXPORT in the broker: `define clicks topics=clicks target=/srv/lake layout=day
    schedule="daily 02:00 Europe/Berlin"`."""
    return broker.define(name, changed({}, pairs), None if replace else NEW)


@click.command("set", cls=Command)
@_command
def set_command(broker: AdminPort, name: str, pairs: Pairs) -> Definition:
    """Change settings of EXPORT, and leave its others: `set clicks file_bytes=128MiB delta=true`.
    An empty value takes one away."""
    if not pairs:
        raise click.UsageError("wanted NAME=VALUE")
    return set_in(broker, name, pairs)


@click.command("show", cls=Command)
@click.argument("name", metavar="EXPORT")
@with_broker
@with_json
def show(name: str, as_json: bool, broker: AdminPort, retries: int) -> None:
    """Show the definition of EXPORT, and how its runs are."""
    found = broker.definition(name)
    click.echo(json.dumps(found) if as_json else json.dumps(found, indent=1))


@click.command("delete", cls=Command)
@click.argument("name", metavar="EXPORT")
@click.confirmation_option(prompt="Its files stay, and nothing exports it any more. Delete it?")
@with_broker
@with_json
def delete(name: str, as_json: bool, broker: AdminPort, retries: int) -> None:
    """Delete the definition of EXPORT. What it has exported stays."""
    broker.delete(name)
    click.echo(json.dumps({"deleted": name}) if as_json else f"{name} deleted; its files are there")

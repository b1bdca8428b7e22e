"""Commands about the broker itself: health, status, settings, a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from appliance.cli.remote.api import PREFIX, Api, asks_a_broker
from appliance.cli.remote.output import put_json, put_table
from appliance.cli.remote.topic import split
from appliance.process.command import FAILED, UNHEALTHY, Command, Failed
from appliance.process.spoken import duration, size, some


@click.command(cls=Command)
@asks_a_broker
def health(api: Api, as_json: bool) -> None:
    """How the broker is, in one sentence and what it found. Exit code 0: healthy, 10: degraded or
    failing, 5: not reached."""
    found = api.get("/health")
    if as_json:
        put_json(found)
    else:
        put_findings(found)
    if found["status"] != "ok":
        click.get_current_context().exit(UNHEALTHY)


@click.command(cls=Command)
@asks_a_broker
def status(api: Api, as_json: bool) -> None:
    """The broker on one screen."""
    found = api.get("/health")
    if as_json:
        return put_json(found)
    put_findings(found)
    storage, behind = found["storage"], found["most_behind"]
    connected = some(found["connections"], "connection")
    rows = [
        ("version", f"{found['version']}, up {duration(found['uptime_s'])}"),
        ("clients at", f"{found['listeners'].get('kafka')}, {connected}"),
        ("data", f"{found['data_dir']}, {size(found['size_bytes'])}"),
        ("topics", f"{found['topics']} with {some(found['partitions'], 'partition')}"),
        ("groups", f"{found['groups']}" + (
            f", {behind['group']} is {some(behind['records'], 'record')} behind, "
            f"{duration(behind['seconds'])}" if behind and behind["records"] else "")),
    ]  # fmt: skip
    if storage:
        room = f"{size(storage['free_bytes'])} free of {size(storage['total_bytes'])}"
        if storage["full_in_s"] is not None:
            room += f", full in {duration(storage['full_in_s'])} at this rate"
        rows.append(("disk", room))
    unflushed, traffic = found["unflushed"], found["traffic"]
    if unflushed:
        text = f"{size(unflushed['bytes'])} not yet" if unflushed["records"] else "everything"
        if unflushed["last_flush_ms"] is not None:
            text += f", the last flush took {unflushed['last_flush_ms']:.1f} ms"
        rows.append(("on disk", text))
    if traffic:
        rate = f"in {size(traffic['received_bytes_per_s'])}/s"
        rows.append(("traffic", f"{rate}, out {size(traffic['sent_bytes_per_s'])}/s"))
    if found["zookeeper"]:
        rows.append(("zookeeper", found["zookeeper"]))
    for name, text in rows:
        click.echo(f"{name:<12}{text}")


def put_findings(found: dict[str, Any]) -> None:
    click.echo(found["sentence"])
    if len(found["findings"]) > 1:  # of one the sentence has told
        for each in found["findings"]:
            click.echo(f"{each['level']}: {each['text']}")


@click.group()
def config() -> None:
    """Settings of a running broker."""


@config.command("get", cls=Command)
@click.argument("text", default="")
@asks_a_broker
def get_config(api: Api, as_json: bool, text: str) -> None:
    """Settings whose name holds TEXT, with where each was set."""
    rows = [each for each in api.get("/settings")["settings"] if text in each["name"]]
    if as_json:
        return put_json(rows)
    put_table(
        ("setting", "value", "set by"),
        [(each["name"], each["value"], each["source"]) for each in rows],
    )


@config.command("set", cls=Command)
@click.argument("pairs", nargs=-1, required=True, metavar="NAME=VALUE...")
@asks_a_broker
def set_config(api: Api, as_json: bool, pairs: tuple[str, ...]) -> None:
    """Change settings that need no restart; NAME= goes back."""
    changes = {name: value or None for name, value in map(split, pairs)}
    found = api.ask("PATCH", "/settings", {"configs": changes})
    if as_json:
        return put_json(found)
    for each in found["settings"]:
        if each["name"] in changes:
            click.echo(f"{each['name']} = {each['value']}   ({each['source']})")


@click.command(cls=Command)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path),
                default="appliance-bundle.zip")
@asks_a_broker
def bundle(api: Api, as_json: bool, file: Path) -> None:
    """Write a support bundle to FILE: everything about the broker, no records."""
    with api.open(f"{PREFIX}/bundle") as answer:
        data = answer.read()
    try:
        with file.open("xb") as out:
            out.write(data)
    except FileExistsError:
        raise Failed(f"{file} exists already; name another", FAILED) from None
    if as_json:
        return put_json({"file": str(file), "size": len(data)})
    click.echo(f"{file}: {size(len(data))}")

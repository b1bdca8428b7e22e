"""Commands about the broker itself: health, status, settings, a bundle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from appliance.cli.remote.api import PREFIX, Answer, Api, asks_a_broker, shows_an_answer
from appliance.cli.remote.output import put_json, table
from appliance.cli.remote.topic import setting, values_of
from appliance.process.exit_codes import FAILED, UNHEALTHY, Command, Failed
from appliance.process.spoken import duration, size, some


@click.command(cls=Command)
@asks_a_broker
def health(api: Api, as_json: bool) -> None:
    """Show the health of the broker in one sentence, and what is wrong. Exit code 0: healthy,
    10: degraded or failing, 5: not reached."""
    answer = api.get("/health")
    if as_json:
        put_json(answer)
    else:
        click.echo("\n".join(findings(answer)))
    if answer["status"] != "ok":
        click.get_current_context().exit(UNHEALTHY)


@click.command(cls=Command)
@shows_an_answer
def status(api: Api) -> Answer:
    """Show the state of the broker on one screen."""
    answer = api.get("/health")
    yield answer
    yield from findings(answer)
    storage, behind = answer["storage"], answer["most_behind"]
    connected = some(answer["connections"], "connection")
    rows = [
        ("version", f"{answer['version']}, up {duration(answer['uptime_s'])}"),
        ("clients at", f"{answer['listeners'].get('kafka')}, {connected}"),
        ("data", f"{answer['data_dir']}, {size(answer['size_bytes'])}"),
        ("topics", f"{answer['topics']} with {some(answer['partitions'], 'partition')}"),
        ("groups", f"{answer['groups']}" + (
            f", {behind['group']} is {some(behind['records'], 'record')} behind, "
            f"{duration(behind['seconds'])}" if behind and behind["records"] else "")),
    ]  # fmt: skip
    if storage:
        room = f"{size(storage['free_bytes'])} free of {size(storage['total_bytes'])}"
        if storage["full_in_s"] is not None:
            room += f", full in {duration(storage['full_in_s'])} at this rate"
        rows.append(("disk", room))
    unflushed, traffic = answer["unflushed"], answer["traffic"]
    if unflushed:
        text = f"{size(unflushed['bytes'])} not yet" if unflushed["records"] else "everything"
        if unflushed["last_flush_ms"] is not None:
            text += f", the last flush took {unflushed['last_flush_ms']:.1f} ms"
        rows.append(("on disk", text))
    if traffic:
        rate = f"in {size(traffic['received_bytes_per_s'])}/s"
        rows.append(("traffic", f"{rate}, out {size(traffic['sent_bytes_per_s'])}/s"))
    if answer["zookeeper"]:
        rows.append(("zookeeper", answer["zookeeper"]))
    yield from (f"{name:<12}{text}" for name, text in rows)


def findings(answer: dict[str, Any]) -> Iterator[str]:
    yield answer["sentence"]
    if len(answer["findings"]) > 1:  # a single one is in the sentence
        yield from (f"{each['level']}: {each['text']}" for each in answer["findings"])


@click.group()
def config() -> None:
    """Show and change settings of a running broker."""


@config.command("get", cls=Command)
@click.argument("text", default="")
@shows_an_answer
def get_config(api: Api, text: str) -> Answer:
    """List settings whose name contains TEXT, with the source of each value."""
    rows = [each for each in api.get("/settings")["settings"] if text in each["name"]]
    yield rows
    yield table(
        ("setting", "value", "set by"),
        [(each["name"], each["value"], each["source"]) for each in rows],
    )


@config.command("set", cls=Command)
@click.argument("pairs", nargs=-1, required=True, metavar="NAME=VALUE...")
@shows_an_answer
def set_config(api: Api, pairs: tuple[str, ...]) -> Answer:
    """Change settings that need no restart. NAME= restores the configured value."""
    changes = {name: value or None for name, value in values_of(pairs).items()}
    answer = api.ask("PATCH", "/settings", {"configs": changes})
    yield answer
    yield from (setting(each) for each in answer["settings"] if each["name"] in changes)


@click.command(cls=Command)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path),
                default="appliance-bundle.zip")
@shows_an_answer
def bundle(api: Api, file: Path) -> Answer:
    """Write a support bundle to FILE. It describes the broker and holds no records."""
    with api.open(f"{PREFIX}/bundle") as answer:
        data = answer.read()
    try:
        with file.open("xb") as out:
            out.write(data)
    except FileExistsError:
        raise Failed(f"{file} already exists; choose another name", FAILED) from None
    yield {"file": str(file), "size": len(data)}
    yield f"{file}: {size(len(data))}"

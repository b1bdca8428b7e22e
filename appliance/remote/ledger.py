"""`appliance ledger`: what was lost or damaged, and whether a person has seen it."""

from __future__ import annotations

from typing import Any

import click

from appliance.command import UNHEALTHY, Command
from appliance.remote.api import Api, asks_a_broker
from appliance.remote.output import put_json, put_table
from appliance.spoken import moment, some


@click.group()
def ledger() -> None:
    """What was lost or damaged."""


@ledger.command("list", cls=Command)
@click.option("--all", "is_all", is_flag=True, help="Also what was acknowledged.")
@asks_a_broker
def list_ledger(api: Api, as_json: bool, is_all: bool) -> None:
    """Losses and damages. Exit code 10: some are not acknowledged."""
    found = api.get("/ledger")
    rows = [each for each in found["entries"] if is_all or each["acknowledged_ms"] is None]
    if as_json:
        put_json(rows)
    elif rows:
        put_table(
            ("id", "found", "partition", "offsets", "kind", "cause", "set aside", "acknowledged"),
            [
                (each["id"], moment(each["at_ms"]), f"{each['topic']}-{each['partition']}",
                 offsets(each),
                 each["kind"], each["cause"], each["aside"] or None,
                 each["acknowledged_by"] or None)
                for each in rows
            ],
        )  # fmt: skip
    else:
        click.echo("Nothing was lost or damaged that nobody has acknowledged.")
    if found["open"]:
        click.get_current_context().exit(UNHEALTHY)


def offsets(row: dict[str, Any]) -> str:
    last = "?" if row["last_offset"] is None else row["last_offset"]
    return f"{row['first_offset']}..{last}"


@ledger.command("acknowledge", cls=Command)
@click.argument("ids", nargs=-1, type=int, metavar="ID...")
@click.option("--all", "is_all", is_flag=True, help="Whatever is open now.")
@asks_a_broker
def acknowledge(api: Api, as_json: bool, ids: tuple[int, ...], is_all: bool) -> None:
    """Say that you have seen these entries: health tells them no more."""
    if bool(ids) == is_all:
        raise click.UsageError("name entries of `appliance ledger list`, or give --all")
    if is_all:
        entries = api.get("/ledger")["entries"]
        ids = tuple(
            each["id"] for each in entries if each["id"] and each["acknowledged_ms"] is None
        )
    found = api.ask("POST", "/ledger/acknowledge", {"ids": list(ids)})
    if as_json:
        return put_json(found)
    click.echo(f"{some(len(ids), 'damage')} acknowledged, {found['open']} open")

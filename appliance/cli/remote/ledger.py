"""`appliance ledger`: losses and damage, and who has acknowledged them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from appliance.cli.remote.api import Answer, Api, asks_a_broker, shows_an_answer
from appliance.cli.remote.output import put_json, table
from appliance.process.exit_codes import UNHEALTHY, Command
from appliance.process.spoken import moment, some

AT_ONCE = 1000  # entries


@click.group()
def ledger() -> None:
    """Losses and damage."""


def entries(api: Api, **which: str) -> Iterator[dict[str, Any]]:
    """Reads the ledger page by page, newest first."""
    before: int | None = None
    while True:
        answer = api.get("/ledger", before=before, limit=AT_ONCE, **which)
        yield from answer["entries"]
        before = answer["next"]
        if before is None:
            return


@ledger.command("list", cls=Command)
@click.option("--all", "is_all", is_flag=True, help="Show acknowledged entries too.")
@asks_a_broker
def list_ledger(api: Api, as_json: bool, is_all: bool) -> None:
    """List losses and damage. Exit code 10: some are not acknowledged."""
    rows = [*entries(api, state="all" if is_all else "open")]
    if as_json:
        put_json(rows)
    elif rows:
        click.echo(table_of(rows))
    else:
        click.echo("Nothing was lost or damaged that nobody has acknowledged.")
    if api.get("/ledger", limit=1)["open"]:
        click.get_current_context().exit(UNHEALTHY)


def table_of(rows: list[dict[str, Any]]) -> str:
    return table(
        ("id", "found", "partition", "offsets", "kind", "cause", "set aside", "acknowledged"),
        [
            (each["id"], moment(each["at_ms"]), place(each), offsets(each), each["kind"],
             each["cause"], each["aside"] or None, each["acknowledged_by"] or None)
            for each in rows
        ],
    )  # fmt: skip


def place(row: dict[str, Any]) -> str | None:
    """None: the entry is about the whole directory."""
    return None if row["partition"] < 0 else f"{row['topic']}-{row['partition']}"


def offsets(row: dict[str, Any]) -> str:
    if row["partition"] < 0:
        return "-"
    last = "?" if row["last_offset"] is None else row["last_offset"]
    return f"{row['first_offset']}..{last}"


@ledger.command("acknowledge", cls=Command)
@click.argument("ids", nargs=-1, type=int, metavar="ID...")
@click.option("--all", "is_all", is_flag=True, help="All open entries.")
@shows_an_answer
def acknowledge(api: Api, ids: tuple[int, ...], is_all: bool) -> Answer:
    """Acknowledge entries. Health no longer reports them."""
    if bool(ids) == is_all:
        raise click.UsageError("name entries of `appliance ledger list`, or give --all")
    which = {"up_to_id": api.get("/ledger", limit=1)["last_id"]} if is_all else {"ids": list(ids)}
    answer = api.ask("POST", "/ledger/acknowledge", which)
    yield answer
    yield f"{some(answer['acknowledged'], 'damage')} acknowledged, {answer['open']} open"

"""`appliance ledger`: losses and damage, and who has acknowledged them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from appliance.cli.remote.api import Answer, Api, shows_an_answer
from appliance.cli.remote.output import table
from appliance.process.command import UNHEALTHY, Command
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
@shows_an_answer
def list_ledger(api: Api, is_all: bool) -> Answer:
    """List losses and damage. Exit code 10: some are not acknowledged."""
    rows = [*entries(api, state="all" if is_all else "open")]
    shown = table(
        ("id", "found", "partition", "offsets", "kind", "cause", "set aside", "acknowledged"),
        [
            (each["id"], moment(each["at_ms"]), place(each), offsets(each), each["kind"],
             each["cause"], each["aside"] or None, each["acknowledged_by"] or None)
            for each in rows
        ],
    )  # fmt: skip
    nothing = "Nothing was lost or damaged that nobody has acknowledged."
    has_open = api.get("/ledger", limit=1)["open"]
    return rows, shown if rows else nothing, UNHEALTHY if has_open else 0


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
    return answer, f"{some(answer['acknowledged'], 'damage')} acknowledged, {answer['open']} open"
